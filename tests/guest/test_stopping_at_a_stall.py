"""``--on-threshold``: a stall of known length and cause is the sample at which a trial stops, and is explained as that.

The threshold is far above what the host of a virtual machine takes by itself, and far below the stall.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from attributed import measure_attributed
from machines import MEASURED_CPU, needs_root, require_usable
from open_agent import open_agent

from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.studies.latency.attribution.moment import moment_of

pytestmark = [pytest.mark.guest, needs_root]

STALL_NS = 40_000_000
THRESHOLD_NS = 25_000_000
MOST_NS = 65_000_000
"""Beside other guests a stall is longer; two of them never meet."""
SHARE_MIN = 80.0
NOBODY = 65_534


def alone(*arguments: str, agent: Path | None = None, **options: Any) -> "subprocess.CompletedProcess[str]":
    command = [str(agent or find_agent()), *arguments, "--quiet"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


STEALING = (
    *("-a", str(MEASURED_CPU), "-D", "30s", "--lift-rt-throttling", "--on-threshold", f"{THRESHOLD_NS}ns"),
    *("--inject-every", "700ms", "--inject-steal", f"{STALL_NS}ns"),
)


@pytest.mark.parametrize("probe", ["tick", "wakeup", "switch"])
def test_the_agent_alone_stops_at_the_stall_and_names_the_thief(probe: str) -> None:
    ended = alone(probe, *STEALING, "--json")
    assert ended.returncode == 3, ended.stderr
    document = json.loads(ended.stdout)
    threshold = document["threshold"]
    assert STALL_NS - 1_000_000 < threshold["excess_ns"] < MOST_NS, threshold
    assert threshold["not_explained"] is None, threshold
    assert sum(one["percent"] for one in threshold["causes"]) == pytest.approx(100.0, abs=0.1)
    first = threshold["causes"][0]
    assert (first["kind"], first["name"]) == ("thread", "injection"), threshold
    assert first["percent"] > SHARE_MIN, threshold
    hit = document["outcome"]["threshold"]
    assert hit["index"] == threshold["index"]
    assert document["outcome"]["counters"]["watched_ns"] < 10e9, "it went on"
    assert [one["code"] for one in document["outcome"]["findings"] if "threshold" in one["code"]] == [
        "stopped_at_threshold"
    ]


def test_the_agent_goes_on_counts_and_runs_the_command_afterwards(tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = f"echo $STEALTIME_CAUSE $STEALTIME_SAMPLE_NS > {told}; exit 5"
    arguments = ["-D", "3s", "--on-threshold-action", "go-on", "--on-threshold-run", command]
    ended = alone("tick", *STEALING[:2], *STEALING[4:], *arguments)
    assert ended.returncode == 3, ended.stderr
    assert "ended with exit status: 5" in ended.stderr
    assert "% " in ended.stdout
    assert "thread injection" in ended.stdout
    *cause, duration_ns = told.read_text().split()
    assert cause == ["thread", "injection"]
    assert int(duration_ns) > STALL_NS - 1_000_000
    (note,) = [line for line in ended.stdout.splitlines() if "the first of" in line]
    assert int(note.split()[-1]) >= 3, "further samples were counted"


def test_without_root_it_stops_and_says_why_there_is_no_trace() -> None:
    arguments = ("wakeup", "-p", "0", "-D", "10s", "--on-threshold", "1ns", "--json")
    with open_agent() as agent:
        ended = alone(*arguments, agent=agent, user=NOBODY, group=NOBODY)
    assert ended.returncode == 3, ended.stderr
    document = json.loads(ended.stdout)
    assert document["outcome"]["counters"]["watched_ns"] < 5e9
    assert "the kernel's trace cannot be had" in document["threshold"]["not_explained"]
    assert document["threshold"]["causes"] == []


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("platform", ["native", "qemu-tcg-paravirt"])
async def test_a_run_stops_at_the_stall_that_a_neighbour_makes(platform: str, tmp_path: Path) -> None:
    await require_usable(platform)
    hog = {"kind": "process", "load": "cpu-load", "cpus": "measured", "priority": 90, "on": "40ms", "off": "960ms"}
    attributed = await measure_attributed(
        {
            "platforms": [platform],
            "define": [{"name": "truth", "neighbours": [hog]}],
            "probes": [{"probe": "tick", "loop": "68us", "duration": "30s"}],
            "lift_rt_throttling": True,
            "on_threshold": {"overhead": f"{THRESHOLD_NS}ns"},
        },
        tmp_path,
    )
    outcome = attributed.trial.record.outcome
    assert outcome is not None
    assert outcome.counters["watched_ns"] < 15e9, "it went on"
    moment = moment_of(attributed.trial)
    assert moment is not None
    assert STALL_NS - 1_000_000 < moment.excess_ns < MOST_NS, moment
    assert sum(share.percent for share in moment.shares) == pytest.approx(100.0), moment
    assert moment.largest is not None, moment
    kind = "thread" if platform == "native" else "host_preempted"
    assert (moment.largest.kind, "neighbour 1" in moment.largest.cause) == (kind, True), moment
    assert moment.largest.percent > SHARE_MIN, moment
