"""``stealtime blackout`` held against gaps that the kernel makes, to the nanosecond, with nobody in the path."""

import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from busy_cpus import mortal
from exact_gaps import Gap
from silent_path import PORT, SERVER, SilentPath, silent_path

from stealtime.hosts.network import NAMESPACES
from stealtime.lab.platforms.agent_binary import find_agent

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

MS = 1_000_000

SLACK_NS = 20_000
"""A frame is stamped some microseconds before the program looks at it."""

LENGTHS_MS = (5, 20, 100, 5, 20, 5, 300, 20)


def watched(path: SilentPath) -> tuple[list[Gap], list[dict[str, Any]]]:
    """Give the gaps, and what was told over UDP and ICMP echo."""
    chance = random.Random(7)  # noqa: S311 - only moments are drawn
    at = f"{SERVER}:{PORT}"
    words = ["blackout", "--json", "--quiet", "--until-closed", "--udp", at, "--ping", SERVER, "-p", "20"]
    argv = [*path.client, str(find_agent()), *words]
    gaps: list[Gap | None] = []
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=mortal) as client:
        time.sleep(1.0)
        for length_ms in LENGTHS_MS:
            dropped = path.gaps.dropped
            start_ns = time.monotonic_ns() + round(chance.uniform(90, 110) * MS)
            gap = path.drop(start_ns, length_ms * MS)
            # In a short one the client may not have run.
            gaps.append(gap if path.gaps.dropped > dropped else None)
        time.sleep(0.3)
        output, _ = client.communicate()
    assert path.gaps.dropped > 0, "the program is not in the path"
    # One that was ordered too late has no known beginning.
    return [gap for gap in gaps if gap is not None], json.loads(output)["ways"]


def test_every_gap_lies_in_a_silence_that_is_told_and_is_no_longer_than_it_says() -> None:
    with silent_path(find_agent()) as path:
        gaps, ways = watched(path)
    assert len(gaps) > len(LENGTHS_MS) // 2, "this machine was late for most of its gaps"
    for way in ways:
        told = [(one["from_monotonic_ns"], one["to_monotonic_ns"], one) for one in way["blackouts"]]
        # A machine that stood still beside a gap says so.
        excuses = [(one["from_monotonic_ns"], one["from_monotonic_ns"] + one["silence_ns"]) for one in way["unjudged"]]
        for gap in gaps:
            from_ns, to_ns = gap.start_ns + SLACK_NS, gap.end_ns - SLACK_NS
            hits = [one for first, last, one in told if first <= from_ns and to_ns <= last]
            is_excused = any(first <= from_ns and to_ns <= last for first, last in excuses)
            # Where others compute, a gap may be no longer than what is usual.
            if gap.end_ns - gap.start_ns > way["threshold_ns"] and not is_excused:
                assert len(hits) == 1, (way["way"], gap, way["blackouts"], way["unjudged"])
            for one in hits:
                assert one["lost"] > 0, one
                assert one["at_most_ns"] >= gap.end_ns - gap.start_ns - SLACK_NS, (gap, one)
                assert one["at_least_ns"] <= one["length_ns"] <= one["at_most_ns"], one


def test_of_a_path_nothing_is_left() -> None:
    with silent_path(find_agent()) as path:
        namespace = path.client[-1]
        assert (NAMESPACES / namespace).exists()
    assert not (NAMESPACES / namespace).exists()
    assert "stealtime-bpf" not in Path("/proc/mounts").read_text()
