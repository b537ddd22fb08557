"""The host's counters beside `contend`: whose they are, that they are whole, and the verdict on a mix that is known."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from machines import needs_root

from stealtime.capacity.recorder import read_rows
from stealtime.capacity.recording import Row
from stealtime.store.run import Run, runs_in
from stealtime.studies.stretch.analysis.inside import inside_of, read_readings
from stealtime.studies.stretch.page.inside import panels

pytestmark = [pytest.mark.guest, pytest.mark.truth, needs_root]

STEALTIME = str(Path(sys.executable).parent / "stealtime")
TIMEOUT_S = 300
# Two busy guests on one CPU, twice for some ten seconds: a verdict takes ten whole ones.
CAMPAIGN = """
name = "two-on-one"
platforms = ["native", "uml"]
scenarios = ["base", "beside"]
repetitions = 2
priority = 0

[[probes]]
probe = "contend"
tasks = 2
iterations = 300
# Little memory, searched often: at each page fault the virtual CPU of User-Mode Linux is handed over: a dispatch.
collection = "64KiB"
searches = 960
io = "none"
duration = "2m"

[[define]]
name = "base"
emulator = "measured"

[[define]]
name = "beside"
emulator = "measured"
guests_only = true

[[define.neighbours]]
kind = "machine"
load = "cpu-load"
cpus = "measured"
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[tuple[str, str], dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("counters")
    (folder / "campaign.toml").write_text(CAMPAIGN)
    argv = [STEALTIME, "run", str(folder / "campaign.toml"), "--runs", str(folder / "runs"), "--json"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ended.returncode == 0, ended.stderr
    cells = json.loads(ended.stdout)["cells"]
    (run,) = runs_in(folder / "runs")
    return Run.open(run), {(one["platform"], one["scenario"]): one for one in cells}


def rows(run: Run, platform: str, scenario: str) -> list[list[Row]]:
    trials = [
        one for one in run.measured if (one.record.cell.platform, one.record.cell.scenario) == (platform, scenario)
    ]
    return [read_rows(one.table("host_counters")) for one in trials]


def test_the_machine_and_its_neighbour_are_told_apart(measured: tuple[Run, Any]) -> None:
    run, _ = measured
    for trial in rows(run, "uml", "beside"):
        assert {"host", "machine", "neighbour 1"} <= {row.subject for row in trial}
    for trial in rows(run, "native", "base"):
        assert "machine" not in {row.subject for row in trial}


def test_every_second_is_there_until_the_work_was_done(measured: tuple[Run, Any]) -> None:
    run, _ = measured
    for trial in run.measured:
        recorded = read_rows(trial.table("host_counters"))
        moments = sorted({row.at_ns for row in recorded})
        lengths = {row.at_ns: row.elapsed_ns for row in recorded}
        # Consecutive, from nought on.
        ends = [0, *moments]
        assert [later - earlier for earlier, later in zip(ends, moments, strict=False)] == [
            lengths[at] for at in moments
        ]
        assert trial.record.result is not None
        elapsed_ns = trial.record.result.elapsed_ns  # type: ignore[attr-defined]
        assert moments[-1] >= elapsed_ns - 2 * 10**9, "the last whole second before the end is there"


def test_one_virtual_cpu_neither_runs_nor_waits_for_more_than_all_of_a_second(measured: tuple[Run, Any]) -> None:
    run, _ = measured
    for trial in rows(run, "uml", "beside"):
        by_second: dict[int, float] = {}
        for row in trial:
            if (row.subject, row.part) == ("machine", "vCPU 0") and row.figure in ("run_percent", "wait_percent"):
                assert row.value is not None, row
                by_second[row.at_ns] = by_second.get(row.at_ns, 0.0) + row.value
        # Run time is brought up to date at the timer tick.
        assert by_second
        assert max(by_second.values()) < 105.0, by_second


def test_two_busy_guests_on_one_cpu_are_an_over_committed_host(measured: tuple[Run, Any]) -> None:
    _, cells = measured
    host, machine = cells["uml", "beside"]["provisioning"]
    assert (host["verdict"], machine["verdict"]) == ("over-committed host", "over-committed host"), (host, machine)
    assert machine["samples"] >= 10
    assert any(one.startswith(("wait per dispatch", "vcpu wait share")) for one in machine["evidence"]), machine
    (native,) = cells["native", "base"]["provisioning"]
    assert (native["verdict"], native["because"]) == ("not judged", "no guest runs on this host")


def test_the_machine_tells_who_wants_its_cpus(measured: tuple[Run, Any]) -> None:
    run, _ = measured
    for trial in run.measured:
        readings = read_readings(trial.table("machine_counters"))
        assert trial.record.result is not None
        result: Any = trial.record.result
        seconds = len({one.at_ns for one in readings})
        assert 2 <= seconds <= result.elapsed_ns / 1e9
        # A kernel of User-Mode Linux counts CPU time in ticks of 10 ms, of which a reading may see none.
        least_ns = 1 if trial.record.cell.platform == "native" else 0
        assert least_ns <= result.reading_cpu_ns < 0.03 * result.elapsed_ns
        read_ns = max(one.at_ns for one in readings)
        of_work = {
            figure: sum(one.value for one in readings if (one.program, one.figure) == ("contend", figure))
            for figure in ("run_ns", "ready_ns")
        }
        # Two tasks on one CPU: one of them runs, and one stands ready. The last interval has no whole reading.
        assert of_work["run_ns"] == pytest.approx(result.cpu_ns * read_ns / result.elapsed_ns, rel=0.25)
        assert of_work["ready_ns"] >= 0.6 * of_work["run_ns"], of_work
        whole = {one.figure for one in readings if not one.program}
        assert {"threads_wanting_cpu", "context_switches", "interrupts", "busy_ns"} <= whole
        assert panels(inside_of(trial))


def test_page_faults_have_their_cost_and_what_the_machine_does_not_count_is_absent(measured: tuple[Run, Any]) -> None:
    run, cells = measured
    lost = cells["uml", "base"]["lost"]
    total = sum(lost["parts_s"].values()) + lost["unexplained_s"]
    assert total == pytest.approx(lost["elapsed_s"] - lost["base_elapsed_s"])
    assert "page_faults" in lost["parts_s"]
    assert "exits" not in lost["parts_s"]
    assert any(one.startswith("leaving the guest (VM exits): ") for one in lost["absent"])
    # Of both sides, or of none.
    facts = [one.record.machine.agent_facts["performance_counters"] for one in run.measured if one.record.machine]
    is_counted = all(hasattr(one, "value") for one in facts)
    assert ("cycles" in lost["parts_s"]) is is_counted, lost["absent"]
