"""``stealtime advise`` and ``stealtime watch``: what a user types, and what comes back."""

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from command import Command, make_command
from rich.console import Console, RenderableType
from synthetic_use import guest, use
from syrupy.assertion import SnapshotAssertion

from stealtime.capacity import session
from stealtime.capacity.advice import advise
from stealtime.capacity.collector import Collector
from stealtime.capacity.document import AdviceDocument, HypervisorDocument, Watched, exit_code, make_document
from stealtime.capacity.judgement import judge
from stealtime.capacity.rules import builtin_text, load_rules
from stealtime.capacity.terminal import AdvicePage
from stealtime.capacity.use import Use
from stealtime.schemas import DOCUMENTS
from stealtime.vocabulary.readings import Absent

RULES = load_rules()


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return make_command(monkeypatch, capsys)


def document(*uses: Use, notes: tuple[str, ...] = ()) -> AdviceDocument:
    host, guests = judge(uses, RULES)
    of_host, of_guests = advise(uses, host, guests)
    asked = HypervisorDocument(balloon_bytes=Absent(absent="no monitor"), per_second=Absent(absent="no monitor"))
    hypervisors = {} if not guests or guests[0].guest is None else {guests[0].guest.key: asked}
    watched = Watched("node1", datetime(2026, 11, 27, 12, tzinfo=UTC), 20.0, "the builtin rules", notes)
    return make_document(of_host, of_guests, watched, hypervisors=hypervisors, identities={})


def pair() -> Use:
    web = guest("web", run=[50.0], wait=[50.0], cpus=[0])
    db = guest("db", run=[97.0, 98.0], wait=[0.1, 0.0], queue=9.0)
    lost = guest("lost", unreadable=Absent(absent="its virtual CPUs cannot be told from its other threads"))
    return use([web, db, lost, guest("calm")], busy=(100.0, 3.0))


def printed(page: RenderableType, width: int = 110) -> str:
    with Path("/dev/null").open("w") as nowhere:
        console = Console(width=width, record=True, file=nowhere)
        console.print(page)
    return console.export_text()


@pytest.mark.parametrize("details", [False, True])
def test_the_page(snapshot: SnapshotAssertion, details: bool) -> None:
    assert printed(AdvicePage(document(*[pair()] * 20, notes=("a note",)), details=details)) == snapshot


def test_a_summary_comes_first_and_the_worst_guest_before_the_others() -> None:
    lines = printed(AdvicePage(document(*[pair()] * 20))).splitlines()
    assert lines[0].startswith("node1: misplaced guests, 4 guests: 1 misplaced, 1 under-provisioned, 1 not")
    order = [line.split()[1] for line in lines if line.startswith("guest ")]
    assert order == ["web", "db", "lost", "calm"]


@pytest.mark.parametrize("width", [40, 80])
def test_a_reason_is_whole_however_narrow_the_terminal_is(width: int) -> None:
    page = AdvicePage(document(*[pair()] * 20))
    narrow, wide = printed(page, width), printed(page, 1000)
    assert [line for line in narrow.splitlines() if len(line) > width] == []
    assert " ".join(narrow.split()) == " ".join(wide.split())
    named = [line.split()[1] for line in narrow.splitlines() if line.startswith("guest ")]
    assert named == ["web", "db", "lost", "calm"]


def test_a_verdict_to_fail_on_is_a_threshold_and_outweighs_what_is_not_judged() -> None:
    seen = document(*[pair()] * 20)
    assert exit_code(seen, ["misplaced guests"]) == 3
    assert exit_code(seen, ["over-provisioned host"]) == 4
    assert exit_code(document(*[use([guest("calm")])] * 20), ["over-committed host"]) == 0


def test_a_verdict_that_is_none_is_refused(stealtime: Command) -> None:
    ended = stealtime("advise", "--fail-on", "overcommitted")
    assert (ended.code, ended.out) == (2, "")
    assert "--fail-on: 'overcommitted' is no verdict" in ended.err
    assert "hint: write one of over-committed, misplaced, under-provisioned" in ended.err


def test_the_document_keeps_its_schema() -> None:
    written = DOCUMENTS["advise"].schema()
    jsonschema.validate(json.loads(document(*[pair()] * 20).model_dump_json()), written)


def test_the_exit_code_says_whether_all_was_judged() -> None:
    assert exit_code(document(*[use([guest("calm")])] * 20)) == 0
    assert exit_code(document(*[pair()] * 20)) == 4


@pytest.mark.parametrize("command", ["advise", "watch"])
@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--interval", "10ms"], "10ms is too short for these counters", "take 1s or more"),
        (["--interval", "x"], "'x'", ""),
        (["--rules", "/nowhere/rules.toml"], "the rules /nowhere/rules.toml cannot be read", "--print-rules"),
        (["--guest-view", "web"], "does not say how to reach which guest", "GUEST=ssh:[USER@]HOST[:PORT]"),
    ],
)
def test_wrong_usage_is_one_sentence_and_a_hint(
    stealtime: Command, command: str, arguments: list[str], message: str, hint: str
) -> None:
    ended = stealtime(command, *(["--once"] if command == "watch" else []), *arguments)
    assert ended.code == 2
    assert message in ended.err
    assert hint in ended.err
    assert ended.out == ""


def test_a_time_without_a_verdict_is_refused(stealtime: Command) -> None:
    ended = stealtime("advise", "--for", "9s")
    assert (ended.code, ended.out) == (2, "")
    assert "9s is time for 9 of the 10 samples that a verdict needs" in ended.err
    assert "hint: take 10s or more" in ended.err


def test_watch_without_a_terminal_asks_for_once(stealtime: Command) -> None:
    ended = stealtime("watch")
    assert ended.code == 2
    assert "hint: add --once or --prometheus" in ended.err


def test_a_port_that_is_taken_ends_watch_with_a_hint(stealtime: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = stealtime("watch", "--prometheus", str(taken.getsockname()[1]))
    assert ended.code == 1
    assert "Address already in use" in ended.err
    assert "hint: choose another port" in ended.err


def test_rules_and_dashboard_are_printed_to_be_kept(stealtime: Command) -> None:
    assert stealtime("advise", "--print-rules").out == builtin_text()
    assert json.loads(stealtime("watch", "--grafana-dashboard").out)["uid"] == "stealtime-capacity"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[Use]:
    """Let made-up uses come at once, instead of one a second."""
    seen: list[Use] = []
    monkeypatch.setattr(session, "uses", lambda collector, interval_s: iter(seen))
    monkeypatch.setattr(Collector, "guests", lambda self: {})
    return seen


def test_advise_prints_one_document(stealtime: Command, quick: list[Use]) -> None:
    quick += [use([guest("calm")])] * 60
    ended = stealtime("advise", "--json")
    printed = json.loads(ended.out)
    assert (ended.code, printed["host"]["verdict"]) == (0, "over-provisioned host")
    assert printed["host"]["rule"]["id"] == "idle-host"
    assert printed["guests"][0]["figures"]["vcpu_run_percent of vCPU 0"] == {"value": 20.0}


def test_no_guests_are_one_sentence_and_a_hint(stealtime: Command, quick: list[Use]) -> None:
    quick += [use()] * 10
    ended = stealtime("advise", "--for", "10s")
    assert ended.code == 4
    assert "not judged, because no guest runs on this host" in ended.out
    assert "hint: start a guest" in ended.out


def test_guests_that_ended_and_ways_to_nobody_are_told(stealtime: Command, quick: list[Use]) -> None:
    quick += [use([guest("calm"), guest("gone")])] * 5 + [use([guest("calm")])] * 5
    ended = stealtime("advise", "--for", "10s", "--guest-view", "wbe=ssh:web")
    assert "ended while watched, and not judged: gone" in ended.out
    assert "--guest-view names wbe, and no guest is called so (there are: calm)" in ended.out


def test_ctrl_c_judges_what_was_seen(stealtime: Command, quick: list[Use], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(collector: Collector, interval_s: float) -> Iterator[Use]:
        yield from [use([guest("calm")])] * 12
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "uses", interrupted)
    ended = stealtime("advise")
    assert ended.code == 0
    assert "over-provisioned host" in ended.out
    assert "stopped after 12 of 60 samples" in ended.out
