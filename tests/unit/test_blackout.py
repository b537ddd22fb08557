"""``stealtime blackout``: what a user types, and how what the agent saw is put together and shown."""

import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command import Command, make_command
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from stealtime.blackout.document import make_document
from stealtime.blackout.seen import Watched
from stealtime.blackout.target import Targets, served_port
from stealtime.blackout.terminal import BlackoutPage
from stealtime.schemas import DOCUMENTS
from stealtime.vocabulary.errors import StealtimeError, UsageError

MS = 1_000_000
START_NS = 5_000 * MS
WALL_NS = 1_764_000_000_000 * MS


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return make_command(monkeypatch, capsys)


def blackout(from_ms: int, silent_ms: int, **different: Any) -> dict[str, Any]:
    return {
        "start_wall_ns": WALL_NS + from_ms * MS,
        "since_start_ns": from_ms * MS,
        "from_monotonic_ns": START_NS + from_ms * MS,
        "to_monotonic_ns": START_NS + (from_ms + silent_ms) * MS,
        "ended": True,
        "length_ns": (silent_ms - 1) * MS,
        "at_least_ns": (silent_ms - 2) * MS,
        "at_most_ns": silent_ms * MS,
        "own_pause_ns": 0,
        "sent": silent_ms,
        "lost": silent_ms - 1,
        "reordered": 0,
        "duplicated": 0,
        **different,
    }


def way(name: str, *blackouts: dict[str, Any], **different: Any) -> dict[str, Any]:
    return {
        "way": name,
        "to": "192.0.2.1:7000",
        "interval_ns": MS,
        "sent": 10_000,
        "answered": 9_000,
        "lost": 1_000,
        "reordered": 2,
        "duplicated": 1,
        "unsent": 0,
        "round_trip_ns": {"min": 90_000, "p50": 100_000, "p99": 200_000, "max": 3 * MS},
        "longest_silence_ns": 301 * MS,
        "usual_ns": 50_000,
        "threshold_ns": 3 * MS + 100_000,
        "stamped_by_kernel": 9_000,
        "stamped_by_process": 0,
        "last_value": 8_000,
        "violations_total": 0,
        "violations": [],
        "connection_lived": True if name == "tcp" else None,
        "connection_losses": [],
        "own_pauses": 0,
        "longest_own_pause_ns": 0,
        "missed": 0,
        "blackouts": list(blackouts),
        "unjudged": [],
        "not_kept": 0,
        **different,
    }


def watched(*ways: dict[str, Any], **different: Any) -> dict[str, Any]:
    return {
        "valid": True,
        "reasons": [],
        "limits": [],
        "started": {"monotonic_ns": START_NS, "wall_ns": WALL_NS},
        "duration_ns": 10_000 * MS,
        "interval_ns": MS,
        "max_gap_ns": None,
        "ways": list(ways),
        **different,
    }


def failover() -> dict[str, Any]:
    lost = {
        "at_monotonic_ns": START_NS + 4_200 * MS,
        "reason": "Connection reset by peer",
        "again_monotonic_ns": START_NS + 4_300 * MS,
    }
    forgotten = [
        {"at_monotonic_ns": START_NS + 4_301 * MS, "kind": "forgotten", "acknowledged": 9, "applied": 5},
        {"at_monotonic_ns": START_NS + 9_000 * MS, "kind": "repeated", "value": 5},
    ]
    return watched(
        way(
            "tcp",
            blackout(4_000, 301),
            connection_lived=False,
            connection_losses=[lost],
            violations_total=2,
            violations=forgotten,
        ),
        way("udp", blackout(1_000, 21), blackout(4_001, 200, own_pause_ns=5 * MS), blackout(9_900, 100, ended=False)),
        way("ping", last_value=None, unjudged=[
            {"from_monotonic_ns": START_NS + 7_000 * MS, "silence_ns": 12 * MS, "own_pause_ns": 10 * MS}
        ]),
        limits=["ICMP echo: nobody counts there, so that forgotten values cannot be seen"],
    )  # fmt: skip


@pytest.fixture
def _in_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as there:
        there.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def shown(seen: dict[str, Any]) -> str:
    with Path("/dev/null").open("w") as nowhere:
        console = Console(width=150, record=True, file=nowhere)
        console.print(BlackoutPage(make_document(Watched.model_validate(seen))))
    return console.export_text()


def test_what_several_ways_saw_at_the_same_time_is_one_blackout() -> None:
    document = make_document(Watched.model_validate(failover()))
    assert [[view.way for view in one.views] for one in document.blackouts] == [["udp"], ["tcp", "udp"], ["udp"]]
    first, second, last = document.blackouts
    assert (first.length_ns, second.length_ns) == (20 * MS, 300 * MS)
    assert (second.start_wall_ns, second.since_start_ns) == (WALL_NS + 4_000 * MS, 4_000 * MS)
    assert not last.ended
    tcp, udp = second.views
    assert (tcp.connection_lost, udp.connection_lost) == ("Connection reset by peer", None)
    assert tcp.violations == ["forgotten", "repeated"]


def test_what_was_wrong_belongs_to_the_blackout_before_it() -> None:
    found = {"at_monotonic_ns": START_NS + 2_500 * MS, "kind": "forgotten"}
    seen = watched(
        way(
            "udp", blackout(1_000, 21), blackout(2_000, 21), blackout(3_000, 21), violations=[found], violations_total=1
        )
    )
    document = make_document(Watched.model_validate(seen))
    assert [one.views[0].violations for one in document.blackouts] == [[], ["forgotten"], []]


@pytest.mark.usefixtures("_in_greenwich")
def test_the_page(snapshot: SnapshotAssertion) -> None:
    assert shown(failover()) == snapshot


def test_nothing_found_is_said() -> None:
    text = shown(watched(way("udp")))
    assert "no blackout in 10.0 s" in text
    assert "UDP: all 8,000 values that the counter had told were remembered" in text


def test_the_document_keeps_its_schema() -> None:
    written = DOCUMENTS["blackout"].schema()
    document = make_document(Watched.model_validate(failover()))
    jsonschema.validate(json.loads(document.model_dump_json()), written)


def test_targets_become_addresses_with_ports() -> None:
    both = ["--tcp", "127.0.0.1:7000", "--udp", "127.0.0.1:7000"]
    assert Targets("127.0.0.1").options() == both
    assert Targets("[::1]:7001").options() == ["--tcp", "[::1]:7001", "--udp", "[::1]:7001"]
    assert Targets("::1").options() == ["--tcp", "[::1]:7000", "--udp", "[::1]:7000"]
    assert Targets(tcp="127.0.0.1:1").options() == ["--tcp", "127.0.0.1:1"]
    assert Targets(ping="::1", connect="127.0.0.1:22").options() == ["--ping", "::1", "--connect", "127.0.0.1:22"]
    assert (served_port(None), served_port("7001"), served_port("here:7002")) == ("7000", "7001", "7002")


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (Targets(), "nobody to ask was named"),
        (Targets("127.0.0.1", tcp="127.0.0.1"), "is asked over TCP and UDP already"),
        (Targets("127.0.0.1:0"), "has the port '0'"),
        (Targets("127.0.0.1:70000"), "has the port '70000'"),
        (Targets("127.0.0.1:ssh"), "has the port 'ssh'"),
        (Targets("[::1"), "is no address"),
        (Targets(connect="127.0.0.1"), "names no port"),
    ],
)
def test_what_cannot_be_asked_is_refused(targets: Targets, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("[", r"\[")):
        targets.options()


def test_a_name_that_does_not_resolve_is_named() -> None:
    with pytest.raises(StealtimeError, match="'no such name' does not resolve"):
        Targets("no such name").options()


def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Have a shell script be the agent, which says something and ends."""
    agent = tmp_path / "agent"
    agent.write_text(f"#!/bin/sh\n{script}\n")
    agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("STEALTIME_AGENT", str(agent))


@pytest.mark.parametrize("code", [0, 3, 4])
def test_the_agents_judgement_is_the_commands(
    stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    (tmp_path / "seen.json").write_text(json.dumps(failover()))
    now = {"elapsed_ns": 1, "ways": []}
    pretend(tmp_path, monkeypatch, f"echo '{json.dumps(now)}' >&2; cat {tmp_path}/seen.json; exit {code}")
    ended = stealtime("blackout", "127.0.0.1", "--for", "1s", "--json")
    assert ended.code == code
    assert len(json.loads(ended.out)["blackouts"]) == 3


@pytest.mark.parametrize(("code", "ours"), [(1, 1), (2, 2), (101, 1)])
def test_what_the_agent_refuses_is_one_sentence_and_a_hint(
    stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, ours: int
) -> None:
    pretend(tmp_path, monkeypatch, f"echo 'error: no answer: at all' >&2; echo 'hint: do it' >&2; exit {code}")
    ended = stealtime("blackout", "127.0.0.1")
    assert (ended.code, ended.out) == (ours, "")
    assert ended.err.endswith("error: no answer: at all\nhint: do it\n")


def test_durations_are_handed_on_and_wrong_ones_named(
    stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, 'echo "error: $*" >&2; exit 1')
    told = stealtime("blackout", "--ping", "127.0.0.1", "--for", "2s", "--max-gap", "250ms").err
    assert "--ping 127.0.0.1 --duration 2000000000ns --interval 500000ns --max-gap 250000000ns" in told
    ended = stealtime("blackout", "--ping", "127.0.0.1", "--for", "2")
    assert (ended.code, "--for: '2' has no unit" in ended.err) == (2, True)


def test_where_the_other_sides_binary_is(stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path, monkeypatch, "")
    path = Path(stealtime("blackout", "--agent").out.strip())
    assert os.access(path, os.X_OK)
