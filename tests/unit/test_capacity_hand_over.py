"""Guests whose processes hand their virtual CPU to each other, as recorded: who is said to wait for others."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stealtime.capacity.counters.parsers import ThreadCounts
from stealtime.capacity.guest import Guest, GuestThread
from stealtime.capacity.judgement import Judgement, judge
from stealtime.capacity.rules import load_rules
from stealtime.capacity.sample import GuestSample, GuestView, Sample
from stealtime.capacity.use import Use, between
from stealtime.vocabulary.readings import Absent

RECORDED = json.loads((Path(__file__).parent / "recorded_counters/linux-6.18-faulting-guests.json").read_text())
OVER_COMMITTED, FITTING = "over-committed host", "efficiently provisioned"
UNASKED = Absent(absent="not recorded")
NO_QUEUE = GuestView(running=2, vcpus=1, ticks={}, pressure_us=UNASKED)


def sample_of(recorded: Any, allowed: list[list[int]]) -> Sample:
    guests = {}
    for number, threads in enumerate(recorded["guests"]):
        one = Guest(f"guest {number}", "uml", 1000 * (number + 1), 1)
        tids = tuple(one.pid + thread for thread in range(len(threads)))
        guests[one.key] = GuestSample(
            guest=one,
            threads=tuple(GuestThread(tid, "vcpu", 0) for tid in tids),
            counts={tid: ThreadCounts(*counts) for tid, counts in zip(tids, threads, strict=True)},
            groups={0: tids},
            allowed_cpus=frozenset(allowed[number]),
            view=NO_QUEUE,
        )
    cpus = {cpu: tuple(row) for cpu, row in enumerate(recorded["cpus"])}
    return Sample(recorded["at_ns"], cpus, {}, (8 << 30, 4 << 30), guests)


def uses_of(case: str) -> list[Use]:
    recorded = RECORDED[case]
    samples = [sample_of(one, recorded["allowed_cpus"]) for one in recorded["samples"]]
    return [between(before, after) for before, after in pairwise(samples)]


def figures_of(judged: Judgement) -> dict[str, float]:
    return {name: series.mean for name, series in judged.figures.parts["vCPU 0"].items()}


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        ("two guests that fault on one CPU", OVER_COMMITTED),
        ("two guests that fault and sleep on one CPU", OVER_COMMITTED),
        ("four guests that fault and roam over two CPUs", OVER_COMMITTED),
        ("a guest that faults", FITTING),
        ("a guest that faults and sleeps", FITTING),
        ("two guests that fault and roam over two CPUs", FITTING),
    ],
)
def test_recorded_guests_that_fault_are_judged_as_they_were_provisioned(case: str, verdict: str) -> None:
    host, guests = judge(uses_of(case), load_rules())
    assert [one.verdict for one in (host, *guests)] == [verdict] * (1 + len(guests)), host.because
    for one in guests:
        figures = figures_of(one)
        # By wait per dispatch alone none of them waits.
        assert figures["wait_per_dispatch_ns"] < 20_000
        assert (figures["vcpu_wait_share_percent"] > 40) == (verdict == OVER_COMMITTED)


def test_a_guest_alone_waits_for_its_own_processes_and_not_for_others() -> None:
    uses = uses_of("a guest that faults")
    counts = [sample["guests"][0] for sample in (RECORDED["a guest that faults"]["samples"][n] for n in (0, -1))]
    waited_ns = sum(last[1] - first[1] for first, last in zip(*counts, strict=True))
    elapsed_ns = sum(use.elapsed_s for use in uses) * 1e9
    # Together its threads waited for a tenth of the time, nearly all of it while another of them was on the CPU.
    assert 0.08 < waited_ns / elapsed_ns < 0.15
    _, (judged,) = judge(uses, load_rules())
    assert figures_of(judged)["vcpu_wait_share_percent"] < 2
