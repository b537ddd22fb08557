"""The study of protection from a campaign to a comparison, with a driver that a script plays."""

import csv
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

import pytest
from command import Command
from scripted_agent import ScriptedPlatform

from stealtime.campaigns.booted import KeepPart, Measured
from stealtime.campaigns.file import read_campaign
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.campaigns.planner import plan
from stealtime.hosts.checkpoints import Checkpoints
from stealtime.hosts.clock_offset import SAME_CLOCK
from stealtime.hosts.counting import see_protected
from stealtime.hosts.guest import Guest, ProtectionLostError
from stealtime.hosts.silences import answered_again, unanswered_protocols
from stealtime.lab.scenarios.placement import Placement
from stealtime.protect.status import MemberStatus
from stealtime.report.catalogue.pictures import figure_of
from stealtime.report.page.html import write_report
from stealtime.report.repetitions import ratio_to
from stealtime.report.summarizing import summarize
from stealtime.store.model import PlatformRecord, TrialRecord
from stealtime.store.results import Result
from stealtime.store.run import find_run
from stealtime.studies import protection
from stealtime.studies.protection import driver
from stealtime.studies.protection.catalogue import CATALOGUE
from stealtime.studies.protection.figures import ProtectionFigures
from stealtime.studies.protection.results import Failover, RoundTrips
from stealtime.vocabulary.errors import StealtimeError, UsageError

MS = 1_000_000
PLATFORM = "qemu-tcg-paravirt"


@dataclass
class ScriptedDriver:
    """Gives results whose every figure follows from the repetition."""

    violations: dict[str, int]
    retries: int = 0
    clock_error_ns: int = 0
    fails: str | None = None

    async def measure(self, cell: PlannedCell, _keep: KeepPart) -> Measured:
        if self.fails is not None and self.fails in cell.trial_id:
            raise StealtimeError("b did not take the guest over")
        record = TrialRecord(
            cell=cell.cell, repetition=cell.repetition, host="local", state="measured",
            started_at=datetime.now(UTC), elapsed_s=1.0, result=self._result(cell),
        )  # fmt: skip
        return Measured(record, None)

    async def stop(self) -> bool:
        return False

    async def is_alive(self) -> bool:
        return True

    def end(self) -> str | None:
        return None

    def _result(self, cell: PlannedCell) -> Result:
        number, mode = cell.repetition, cell.cell.parameters["mode"]
        checkpoints = Checkpoints(
            epochs=20, elapsed_ns=2_000 * MS, pause_p50_ns=number * MS, pause_max_ns=9 * MS, pause_total_ns=40 * MS,
            hold_p50_ns=5 * MS, shipped_bytes=3_000_000, pages=900,
        )  # fmt: skip
        if cell.cell.probe == "roundtrip":
            slow = 1 if mode == "off" else 20
            trip = slow * MS + number * 10_000
            return RoundTrips(
                requests=101, acknowledged=100, violations={}, checkpoints=None if mode == "off" else checkpoints,
                tcp_p50_ns=trip, tcp_p99_ns=2 * trip, udp_p50_ns=trip, udp_p99_ns=2 * trip,
            )  # fmt: skip
        return Failover(
            requests=51, acknowledged=50, violations=self.violations, checkpoints=checkpoints, host="a",
            silence_tcp_ns=(300 + number) * MS, silence_udp_ns=200 * MS, fault_to_running_ns=80 * MS,
            decision_to_running_ns=9 * MS, fault_to_answer_tcp_ns=(290 + number) * MS,
            tcp_lived=not self.violations, pages_wrong=0, retries=self.retries,
            clock_error_ns=self.clock_error_ns,
        )  # fmt: skip


@pytest.fixture
def played(platforms: list[ScriptedPlatform], monkeypatch: pytest.MonkeyPatch) -> ScriptedDriver:
    platforms += [ScriptedPlatform(PLATFORM), ScriptedPlatform("qemu-kvm-paravirt", unusable="there is no /dev/kvm")]
    script = ScriptedDriver({})

    @asynccontextmanager
    async def play(_boot: PlannedBoot, _placement: Placement, _folder: Path) -> AsyncIterator[ScriptedDriver]:
        yield script

    monkeypatch.setattr(driver, "set_up", play)
    return script


def test_it_is_small() -> None:
    files = [one for one in Path(protection.__file__).parent.glob("*.py") if one.stem != "answer"]
    assert sum(len(one.read_text().splitlines()) for one in files) <= 400, "all but the words of its answer"


def test_it_is_planned_run_stored_and_shown(
    stealtime: Command, played: ScriptedDriver, platforms: list[ScriptedPlatform], runs: Path, tmp_path: Path
) -> None:
    ended = stealtime("run", "protection", "--junit", str(tmp_path / "cells.xml"))
    assert ended.code == 0, ended.err
    assert {one.boots for one in platforms} == {0}, "no machine with an agent is booted, and no loop calibrated"
    stored = find_run("last", runs)
    stored.check_tables()
    assert len(stored.measured) == 16
    (listed,) = json.loads(stealtime("ls", "--json").out)["runs"]
    assert (listed["cells_measured"], listed["cells_invalid"], listed["cells_failed"]) == (16, 0, 0)
    failover = next(trial for trial in stored.trials if "failover-killed" in trial.record.trial_id)
    assert failover.result(Failover).silence_tcp_ns in {(300 + number) * MS for number in (1, 2, 3, 4)}
    shown = stealtime("show", "--all").out
    for words in ("302 ms", "80.0 ms", "9.00 ms", "2.50 ms", "2.0 %", "1.5 MB/s", "300 ms to 305 ms"):
        assert words in shown
    assert "200" in shown, "acknowledged in four repetitions"
    assert "How many times as long as unprotected" in shown
    assert "not judged" not in shown
    assert "silence, TCP 302 ms" in (tmp_path / "cells.xml").read_text()


def test_its_document_holds_each_repetition_and_interval(stealtime: Command, played: ScriptedDriver) -> None:
    document = json.loads(stealtime("run", "protection", "--json").out)
    assert {cell["study"] for cell in document["cells"]} == {"protection"}
    killed = next(cell for cell in document["cells"] if cell["parameters"].get("fault") == "killed")
    silence = next(one for one in killed["figures"] if one["name"] == "silence_tcp_ns")
    assert sorted(silence["of_repetitions"]) == [301 * MS, 302 * MS, 303 * MS, 304 * MS]
    assert silence["p50"] == median(silence["of_repetitions"])
    assert silence["low"] < silence["value"] < silence["high"]
    assert (killed["acknowledged"], killed["unanswered"], killed["violations"]) == (200, 4, {})


def test_with_too_few_repetitions_nothing_is_judged(stealtime: Command, played: ScriptedDriver) -> None:
    first = json.loads(stealtime("run", "protection", "--short", "--json").out)
    assert {one["because"] for cell in first["cells"] for one in cell["figures"]} == {
        "there are fewer than 4 repetitions (1)"
    }
    shown = stealtime("show", "--all").out
    assert "Intervals and ratios are not judged where there are fewer than 4 repetitions (1)." in shown
    assert "not judged" in shown[shown.index("as unprotected") :]
    second = json.loads(stealtime("run", "protection", "--short", "--json").out)
    compared = json.loads(stealtime("compare", first["run_id"], second["run_id"], "--json").out)
    assert {one["verdict"] for cell in compared["cells"] for one in cell["statistics"]} == {"not judged"}


def test_two_runs_are_compared_figure_by_figure(stealtime: Command, played: ScriptedDriver) -> None:
    one, two = (json.loads(stealtime("run", "protection", "--json").out)["run_id"] for _ in range(2))
    compared = stealtime("compare", one, two)
    assert compared.code == 0, compared.err
    assert "no difference shown" in compared.out
    assert "silence, TCP" in compared.out


def test_the_cost_is_told_against_the_unprotected_guest(stealtime: Command, played: ScriptedDriver, runs: Path) -> None:
    assert stealtime("run", "protection").code == 0
    cells = [one for one in summarize(find_run("last", runs)).cells if isinstance(one, ProtectionFigures)]
    by_mode = {one.parameters["mode"]: one for one in cells if one.probe == "roundtrip"}
    ratio, because = ratio_to(
        by_mode["off"].figure("tcp_p50_ns"), by_mode["net"].figure("tcp_p50_ns"), same_session=True
    )
    assert because is None
    assert ratio is not None
    assert ratio.low < 20.025 / 1.025 < ratio.high
    wider, _ = ratio_to(by_mode["off"].figure("tcp_p50_ns"), by_mode["net"].figure("tcp_p50_ns"), same_session=False)
    assert wider is not None
    assert wider.low < ratio.low < ratio.high < wider.high, "both took turns in one run"
    assert ratio.value == pytest.approx(20.025 / 1.025, rel=1e-3)
    assert by_mode["off"].figure("pause_p50_ns").of_repetitions == []


def test_what_must_not_happen_is_told_loudly(stealtime: Command, played: ScriptedDriver, tmp_path: Path) -> None:
    played.violations = {"forgotten": 3}
    shown = stealtime("run", "protection", "--short").out
    assert "3 of 50 acknowledged values were lost or wrong" in shown
    assert "limits: clients saw what must not happen (2 of 4 cells)" in shown
    told = stealtime("show", "--all").out
    assert "clients saw what must not happen: 3 x forgotten" in told
    assert "1 of 1 TCP connections were lost" in told
    stealtime("export", "last", "--csv", str(tmp_path))
    lines = csv.DictReader((tmp_path / "summary.csv").read_text().splitlines())
    assert sorted(line["wrong"] for line in lines) == ["0", "0", "3", "3"]
    document = json.loads(stealtime("show", "--json").out)
    struck = [cell for cell in document["cells"] if cell["probe"] == "failover"]
    assert [(cell["violations"], cell["connections_lost"]) for cell in struck] == [({"forgotten": 3}, 1)] * 2
    page = Path(stealtime("report").out.strip()).read_text()
    tables = page[: page.index('id="limits"')]
    assert tables.count("clients saw what must not happen: 3 x forgotten") == 1, "of two cells, named before it"


def test_trials_begun_anew_and_the_error_of_other_hosts_clocks_are_told(
    stealtime: Command, played: ScriptedDriver
) -> None:
    played.retries, played.clock_error_ns = 2, 123_456
    assert "begun anew 2x" in stealtime("run", "protection", "--short").out
    shown = " ".join(stealtime("show", "--all").out.split())
    assert "begun anew 2x, because the guest lost its standby" in shown
    assert "by the clocks of two other hosts: each is known to within 123 µs" in shown


def test_a_failover_that_nobody_takes_over_fails_alone(stealtime: Command, played: ScriptedDriver, runs: Path) -> None:
    played.fails = "silent"
    ended = stealtime("run", "protection", "--short")
    assert ended.code != 0
    assert len(find_run("last", runs).measured) == 3
    shown = " ".join(stealtime("show").out.split())
    assert "b did not take the guest over [qemu-tcg-paravirt failover silent 100ms net]" in shown
    page = (find_run("last", runs).folder / "report.html").read_text()
    answer, limits = page[: page.index('id="limits"')], page[page.index('id="limits"') :]
    assert limits.count("b did not take the guest over") == 1
    assert "failover silent 100ms net in protected failed: b did not take the guest over" in answer


def test_it_has_a_section_of_the_page_and_lines_of_a_table(
    stealtime: Command, played: ScriptedDriver, runs: Path, tmp_path: Path
) -> None:
    assert stealtime("run", "protection", "--short").code == 0
    write_report(find_run("last", runs), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '<a href="#protection">Protection</a>' in page
    assert "<td>301 ms</td>" in page
    assert 'id="answer"' not in page
    assert "its record holds neither" not in page, "a trial without an agent's outcome has not failed"
    assert stealtime("export", "last", "--csv", str(tmp_path / "csv")).code == 0
    (head, *lines) = csv.DictReader((tmp_path / "csv/summary.csv").read_text().splitlines())
    assert {line["silence_tcp_ns"] for line in [head, *lines]} == {"301000000.0", ""}


def test_its_page_has_a_time_line_of_a_failover_and_round_trips_by_mode(
    stealtime: Command, played: ScriptedDriver, runs: Path
) -> None:
    assert stealtime("run", "protection").code == 0
    cells = [one for one in summarize(find_run("last", runs)).cells if isinstance(one, ProtectionFigures)]
    died, waited = CATALOGUE.pictures
    failover = figure_of(died, cells)
    assert failover is not None
    assert [group.title for group in failover.groups] == ["killed 100ms net", "silent 100ms net"]
    rows = {row.name: row for row in failover.groups[0].rows}
    # All of the repetition with the middle silence, which is the third of four.
    assert (rows["standby decides"].at, rows["guest runs"].at) == (71 * MS, 80 * MS)
    assert (rows["TCP silent"].low, rows["TCP silent"].high) == (-10 * MS, 293 * MS)
    assert rows["TCP silent"].words == "303 ms, until +293 ms"
    assert (rows["UDP silent"].high, rows["UDP silent"].words) == (None, "200 ms; when was not stored")
    trips = figure_of(waited, cells)
    assert trips is not None
    assert [(group.title, [row.name for row in group.rows]) for group in trips.groups] == [
        ("TCP", ["off", "100ms net"]),
        ("UDP", ["off", "100ms net"]),
    ]
    assert trips.groups[0].rows[0].words == "1.02 ms; 99 % within 2.05 ms"
    page = (find_run("last", runs).folder / "report.html").read_text()
    assert page.index('aria-label="A failover, from the fault on"') < page.index('<details class="table">')


def test_when_answers_came_again_is_that_of_the_longest_silence() -> None:
    def flow(protocol: str, *silences: tuple[int, int, bool]) -> dict[str, Any]:
        told = [{"start_monotonic_ns": start, "length_ns": ns, "ended": ended} for start, ns, ended in silences]
        return {"protocol": protocol, "silences": told}

    flows = [
        flow("tcp", (100, 50, True), (900, 300, True)),
        flow("tcp", (950, 290, True)),
        flow("udp", (990, 700, False)),
    ]
    assert answered_again(flows, 1_000) == {"fault_to_answer_tcp_ns": 200}
    assert answered_again([flow("udp")], 1_000) == {}


def test_a_protocol_over_which_nothing_is_answered_any_more_is_named() -> None:
    def flow(protocol: str, acknowledged: int, *silences: tuple[int, bool]) -> dict[str, Any]:
        told = [{"length_ns": length_ns, "ended": ended} for length_ns, ended in silences]
        return {"protocol": protocol, "acknowledged": acknowledged, "silences": told}

    lived = flow("tcp", 90, (700_000_000, True), (120_000_000, False))
    assert unanswered_protocols([lived, flow("udp", 90)], 0.5) == ()
    assert unanswered_protocols([lived, flow("udp", 90, (1_400_000_000, False))], 0.5) == ("udp",)
    assert unanswered_protocols([flow("tcp", 0), flow("udp", 0)], 0.5) == ("tcp", "udp")


def test_a_probe_and_a_scenario_that_do_not_belong_together_are_refused() -> None:
    text = """
    name = "mixed"
    scenarios = {scenarios}
    [[probes]]
    probe = "failover"
    duration = "1s"
    [[probes]]
    probe = "tick"
    duration = "1ms"
    """
    records = [PlatformRecord(name=PLATFORM, usable=True, reason="")]

    def planned(scenarios: str, tracing: str = "") -> list[tuple[str, list[str]]]:
        campaign = read_campaign(text.replace("{scenarios}", scenarios).replace("[[", f"{tracing}\n[[", 1), "test")
        boots = plan(campaign, records, HostCpus((0, 1))).boots
        return [(boot.scenario, sorted({cell.cell.probe for cell in boot.cells})) for boot in boots]

    assert planned('["alone", "protected"]') == [("alone", ["tick"]), ("protected", ["failover"])]
    with pytest.raises(UsageError, match="failover of mixed is measured only in the scenario protected"):
        planned('["alone"]')
    with pytest.raises(UsageError, match="tick of mixed is measured in none of its scenarios"):
        planned('["protected"]')
    with pytest.raises(UsageError, match="failover cannot be traced"):
        planned('["alone", "protected"]', 'tracing = "both"')


async def test_a_platform_that_cannot_be_protected_is_refused(tmp_path: Path) -> None:
    boot = PlannedBoot("uml", "protected", 1, ())
    placement = Placement("protected", 1, ((0, 1),), (0, 1), (0,))
    with pytest.raises(StealtimeError, match="not to be had as uml"):
        async with driver.set_up(boot, placement, tmp_path):
            pytest.fail("nothing must be booted")


@pytest.mark.parametrize(
    ("state", "at_ns", "pid", "mode", "is_lapse"),
    [
        ("Reclaiming", 200, 7, "net", True),
        ("Protected", 99, 7, "net", False),
        ("Reclaiming", 200, 8, "net", False),
        ("Reclaiming", 200, 7, "off", False),
    ],
)
def test_a_guest_that_lost_its_standby_meanwhile_is_not_measured(
    state: str, at_ns: int, pid: int, mode: str, is_lapse: bool
) -> None:
    event = {"event": "state", "state": state, "monotonic_ns": at_ns, "pid": pid}
    host = SimpleNamespace(name="a", clock=lambda: SAME_CLOCK, events=lambda _vm, _event: [event])
    guest = Guest([cast(Any, host)], {"name": "counter", "mode": mode}, "10.0.0.1", cast(Any, None))
    seen: dict[str, Any] = {"violations": [], "violations_total": 0, "requests": 1, "acknowledged": 1}
    client = SimpleNamespace(end=lambda: seen)
    active = MemberStatus(vm="counter", host="a", role="active", protected=True, pid=7)

    def refuse() -> None:
        see_protected(guest, active, 100, cast(Any, client))

    if not is_lapse:
        refuse()
        return
    with pytest.raises(ProtectionLostError, match="its member was Reclaiming"):
        refuse()
    seen |= {"violations": [{"kind": "forgotten"}], "violations_total": 1}
    with pytest.raises(StealtimeError, match="forgotten") as caught:
        refuse()
    assert not isinstance(caught.value, ProtectionLostError), "what must not happen is not tried again"
