"""What the kernel's limits on real-time threads explain of real samples: what was seen, and not what they could do.

The agent alone and `stealtime run` judge alike: a pause that the kernel made is over no `--max-overhead`, a thief is.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from machines import MEASURED_CPU, needs_root

from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.store.run import find_run
from stealtime.studies.latency.analysis.model import HeldBack
from stealtime.studies.latency.analysis.summary import summarize

pytestmark = [pytest.mark.guest, needs_root]

STEALTIME = str(Path(sys.executable).parent / "stealtime")
GATE, GATE_NS = "20ms", 20e6
STOLEN_NS = 40e6
CAMPAIGN = """
name = "limits"
platforms = ["native"]
scenarios = ["alone"]
repetitions = 1
lift_rt_throttling = {lifted}
{injection}
[[probes]]
probe = "tick"
duration = "2500ms"
"""
THIEF = 'injection = { every = "1s", steal = "40ms" }'


@contextmanager
def hog() -> Iterator[None]:
    """Keep an ordinary thread on the measured CPU that always wants it."""
    argv = ["taskset", "-c", str(MEASURED_CPU), sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(argv) as process:
        try:
            yield
        finally:
            process.kill()


def alone(*options: str) -> tuple[int, dict[str, Any]]:
    """Measure with the agent alone; give its exit code and its document."""
    argv = [str(find_agent()), "tick", "-D", "2500ms", "--json", "-b", GATE, "--cpu", str(MEASURED_CPU), *options]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    document = json.loads(done.stdout)
    assert document["valid"], document["reasons"]
    return done.returncode, document


def campaign(folder: Path, *, lifted: bool, injection: str = "") -> tuple[int, HeldBack]:
    """Measure the same as a campaign; give its exit code, and what was explained."""
    path = folder / "limits.toml"
    path.write_text(CAMPAIGN.format(lifted=str(lifted).lower(), injection=injection))
    argv = [STEALTIME, "run", str(path), "--max-overhead", GATE, "--runs", str(folder / "runs")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    (cell,) = summarize(find_run("last", folder / "runs")).cells
    assert cell.valid, (cell.reasons, done.stderr)
    assert cell.held_back is not None, done.stderr
    return done.returncode, cell.held_back


def code_for(rest_max_overhead_ns: float) -> int:
    return 3 if rest_max_overhead_ns > GATE_NS else 0


def needs_fair_server(document: dict[str, Any]) -> None:
    if document["held_back"] is None:
        pytest.skip("this kernel has no fair server (before Linux 6.12)")


@pytest.mark.truth
def test_a_pause_of_rt_throttling_is_seen_and_explained(tmp_path: Path) -> None:
    code, document = alone()
    if document["outcome"]["limit"] is None:
        pytest.skip("this kernel limits no real-time thread")
    held_back = document["held_back"]
    assert document["outcome"]["limit"]["unseen"] is None
    assert held_back["count"] >= 1, held_back
    assert code == code_for(held_back["rest_max_overhead_ns"])
    code, found = campaign(tmp_path, lifted=False)
    assert found.count >= 1, found
    assert found.rest_max_overhead_ns is not None
    assert code == code_for(found.rest_max_overhead_ns)


@pytest.mark.truth
def test_a_thief_is_not_excused_by_a_limit_that_could_have_acted(tmp_path: Path) -> None:
    code, document = alone("--lift-rt-throttling", "--inject-every", "1s", "--inject-steal", "40ms")
    needs_fair_server(document)
    assert code == 3, document["held_back"]
    assert document["held_back"]["rest_max_overhead_ns"] >= STOLEN_NS
    code, found = campaign(tmp_path, lifted=True, injection=THIEF)
    assert code == 3, found
    assert found.rest_max_overhead_ns is not None
    assert found.rest_max_overhead_ns >= STOLEN_NS


@pytest.mark.truth
def test_what_the_fair_server_gave_to_others_is_seen_and_explained(tmp_path: Path) -> None:
    with hog():
        code, document = alone("--lift-rt-throttling")
        needs_fair_server(document)
        held_back = document["held_back"]
        assert held_back["count"] >= 1, held_back
        assert code == code_for(held_back["rest_max_overhead_ns"])
        code, found = campaign(tmp_path, lifted=True)
    assert found.count >= 1, found
    assert found.rest_max_overhead_ns is not None
    assert code == code_for(found.rest_max_overhead_ns)


def test_a_ring_of_which_nothing_is_told_has_no_excuse() -> None:
    argv = [str(find_agent()), "switch", "--threads", "2", "-D", "2500ms", "--json", "--cpu", str(MEASURED_CPU)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    document = json.loads(done.stdout)
    limit = document["outcome"]["limit"]
    if limit is None or limit["kind"] != "rt_throttling":
        pytest.skip("this kernel does not throttle real-time threads")
    if limit["unseen"] is None:
        assert document["outcome"]["counters"]["ordinary"] >= 1, document["outcome"]["counters"]
    else:
        assert "a ring switches too often to be watched" in limit["unseen"]
        assert document["held_back"]["count"] == 0
