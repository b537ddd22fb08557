"""Stretch where its true value is known: alone, beside a guest that does the same on its CPU, with half a CPU, a lock.

Three campaigns answer all questions, so that each guest boots once for a scenario and repetition.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machines import needs_root
from scipy.stats import t as student
from truth import IN_FULL, some_of

pytestmark = [pytest.mark.guest, pytest.mark.longer, needs_root]

STEALTIME = str(Path(sys.executable).parent / "stealtime")
TIMEOUT_S = 300
TOLERANCE = 0.05
REPETITIONS = 4
"""Of fewer there is no interval."""
PLATFORMS = ["native", "uml"]
WIDER = float(student.ppf(0.9995, 2 * REPETITIONS - 2) / student.ppf(0.975, 2 * REPETITIONS - 2))
"""How much wider an interval of 99.9 % is than one of 95 %, over so many repetitions on both sides."""
ITERATIONS = 120 if IN_FULL else 60
"""The host counts a guest's CPU time from the request until it has measured, and that of User-Mode Linux runs for 60 to
180 ms before its work begins, which has to be long beside that. Natively the tasks count for themselves."""
QUIET_SHARE = 0.02
"""A task alone that waits for more of its time has company, and then nothing has a known value."""

PROBE = """
[[probes]]
probe = "contend"
tasks = {tasks}
iterations = {iterations}
io = "none"
duration = "1m"
{lock}
"""
ALL_LOCKED = """
lock = 100
lock_searches = 60
"""

# One task on one CPU. The weight keeps what else runs on the host away from the group that has a quota. A quota gives
# its CPU time at the beginning of each period: a short one, so that the last period, cut short, is a small part.
ONE_CPU = f"""
name = "one-cpu"
scenarios = ["one", "beside", "quota"]
repetitions = {REPETITIONS}
priority = 0
{PROBE.format(iterations=ITERATIONS, tasks=1, lock="")}
[[define]]
name = "one"
emulator = "measured"

[[define]]
name = "beside"
emulator = "measured"

[[define.neighbours]]
kind = "machine"
load = "same-work"
cpus = "measured"

[[define]]
name = "quota"
emulator = "measured"
share = {{ quota_percent = 50, weight = 10000, period = "20ms" }}
"""

# The same twice; a single task has nobody of its own to wait for.
TWICE = f"""
name = "twice"
platforms = ["native"]
scenarios = ["one", "again"]
repetitions = 8
priority = 0
{PROBE.format(iterations=ITERATIONS, tasks=1, lock="")}
[[define]]
name = "one"

[[define]]
name = "again"
"""

# Two tasks on all CPUs, without and with a lock.
LOCKED = f"""
name = "locked"
platforms = ["native"]
scenarios = ["whole"]
repetitions = 4
priority = 0
{PROBE.format(iterations=ITERATIONS, tasks=2, lock="")}
{PROBE.format(iterations=ITERATIONS, tasks=2, lock=ALL_LOCKED)}
[[define]]
name = "whole"
vcpus = "all"
cpus = "all"
"""

Cell = dict[str, Any]
Cells = dict[tuple[str, str, int], Cell]
"""By platform, scenario and how much of the work is under the lock."""


def measured(folder: Path, campaign: str) -> Cells:
    file = folder / "truth.toml"
    file.write_text(campaign)
    argv = [STEALTIME, "run", str(file), "--runs", str(folder / "runs"), "--json"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ended.returncode == 0, ended.stderr
    cells = json.loads(ended.stdout)["cells"]
    return {(one["platform"], one["scenario"], one["parameters"].get("lock_percent", 0)): one for one in cells}


def mean(cell: Cell, name: str) -> float:
    values = [one[name] for one in cell["repetitions"]]
    return float(sum(values) / len(values))


def ran_s(guest: Cell, alone: Cell, platform: str) -> float:
    """Give how long it ran on a CPU of the host for its work; what it runs before that, one tells that was alone."""
    if platform == "native":
        return mean(guest, "cpu_s")
    return mean(guest, "host_run_s") - (mean(alone, "host_run_s") - mean(alone, "elapsed_s"))


def own_stretch(guest: Cell, alone: Cell, platform: str) -> float:
    """Give how many times as long it took as it ran on a CPU, in the same seconds, however fast they were."""
    return mean(guest, "elapsed_s") / ran_s(guest, alone, platform)


def agrees(stretch: Cell, truth: float) -> bool:
    """Tell whether a ratio to another machine's elapsed time is right within the tolerance, or as well as can be told.

    How fast this machine is changes between repetitions: the interval says by how much. One of 95 % would break one in
    twenty of these rules; this one is of 99.9 %.
    """
    ratio, wider = stretch["ratio"], (stretch["high"] / stretch["ratio"]) ** WIDER
    return bool(abs(ratio / truth - 1.0) <= TOLERANCE or ratio / wider <= truth <= ratio * wider)


def cpu_growth(guest: Cell, alone: Cell, platform: str) -> float:
    """Give how much more CPU time the work took than alone: a guest that is switched often fills its caches anew.

    Natively the tolerance bears that.
    """
    growth = 1.0 if platform == "native" else ran_s(guest, alone, platform) / ran_s(alone, alone, platform)
    assert 0.95 <= growth <= 1.15, guest
    return growth


def share(guest: Cell, part: str) -> float:
    """Give how much of a guest's elapsed time it lost to a part."""
    return float(guest["lost"]["parts_s"][part] / guest["lost"]["elapsed_s"])


def refuse_company(cell: Cell) -> None:
    """See that nothing else uses the host: what is measured then says nothing of the guests."""
    waited = mean(cell, "wait_s") / mean(cell, "elapsed_s")
    assert waited <= QUIET_SHARE, f"this host is not quiet: native {cell['scenario']} waited {waited:.1%} of its time"


@pytest.fixture(scope="module")
def one_cpu(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    platforms = PLATFORMS if IN_FULL else ["native"]
    found = measured(tmp_path_factory.mktemp("one_cpu"), f"platforms = {json.dumps(platforms)}\n{ONE_CPU}")
    refuse_company(found["native", "one", 0])
    return found


def both_guests(cells: Cells, platform: str) -> Iterator[Cell]:
    """Give the machine and the neighbour that did the same beside it."""
    beside = cells[platform, "beside", 0]
    assert [one["name"] for one in beside["alike"]] == ["neighbour 1"]
    yield from (beside, *beside["alike"])


@pytest.mark.truth
def test_native_beside_nothing_is_not_stretched(tmp_path: Path) -> None:
    found = measured(tmp_path, TWICE)
    refuse_company(found["native", "one", 0])
    again = found["native", "again", 0]["against_native"]
    assert again["base"] == "native one"
    assert agrees(again, 1.0), again
    cell = found["native", "again", 0]
    assert own_stretch(cell, cell, "native") == pytest.approx(1.0, abs=TOLERANCE)


@pytest.mark.parametrize("platform", some_of(PLATFORMS, "native"))
def test_two_busy_guests_on_one_cpu_take_twice_as_long_and_each_waits_for_half_of_it(
    one_cpu: Cells, platform: str
) -> None:
    for guest in both_guests(one_cpu, platform):
        alone = one_cpu[platform, "one", 0]
        assert own_stretch(guest, alone, platform) == pytest.approx(2.0, rel=TOLERANCE), guest
        assert agrees(guest["against_alone"], 2.0 * cpu_growth(guest, alone, platform)), guest
        assert share(guest, "cpu_wait") == pytest.approx(0.5, abs=TOLERANCE), guest["lost"]
        assert abs(guest["lost"]["unexplained_s"]) < TOLERANCE * guest["lost"]["elapsed_s"], guest["lost"]


@pytest.mark.parametrize("platform", some_of(PLATFORMS, "native"))
def test_half_a_cpu_takes_twice_as_long_and_the_quota_is_named(one_cpu: Cells, platform: str) -> None:
    quota, alone = one_cpu[platform, "quota", 0], one_cpu[platform, "one", 0]
    assert own_stretch(quota, alone, platform) == pytest.approx(2.0, rel=TOLERANCE), quota["repetitions"]
    assert agrees(quota["against_alone"], 2.0 * cpu_growth(quota, alone, platform)), quota["against_alone"]
    assert share(quota, "quota") == pytest.approx(0.5, abs=TOLERANCE), quota["lost"]
    assert share(quota, "cpu_wait") < TOLERANCE, quota["lost"]


@pytest.mark.truth
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one CPU nobody waits for a lock while it is held")
def test_waiting_for_the_lock_is_seen_only_where_there_is_one(tmp_path: Path) -> None:
    found = measured(tmp_path, LOCKED)
    free, bound = found["native", "whole", 0], found["native", "whole", 100]
    assert mean(free, "lock_wait_s") == 0.0
    # Of two tasks one always waits, but while both allocate and fill.
    assert mean(bound, "lock_wait_s") > 0.5 * mean(bound, "elapsed_s"), bound["repetitions"]
