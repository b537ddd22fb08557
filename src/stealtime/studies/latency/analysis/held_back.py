"""Samples that the kernel's own limit on real-time threads explains: they say nothing of a machine's delays.

A busy SCHED_FIFO thread uses up what its kernel grants to real-time threads (950 ms of every second) and then
stands still for the rest of the period, whatever machine it runs on. Such a pause stays among the samples; it is no
maximum to compare machines by. Whether a trial of half a second holds one is chance, and a ratio of it is false.

Explained is a sample whose overhead is between half a pause and a whole one with the tick that ends it, in a trial
whose agent found the limit on, once in a period at most, and no more of them than the probe's thread was put off its
CPU: a host that takes the CPU from the whole machine does not. A longer sample is not explained, though a pause may be
a part of it: it counts as a maximum, and is compared with nothing.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stealtime._core import Series
from stealtime.store.model import TrialRecord
from stealtime.studies.latency.analysis.model import PAUSE_SHARE, HeldBack, LimitName, TrialSummary
from stealtime.studies.latency.probes.catalogue import PROBES
from stealtime.vocabulary.readings import Value

_TICK_MAX_NS = 10e6
"""A pause ends with a tick; the slowest kernels here have HZ=100."""
_APART_SHARE = 0.5
"""Of a period: pauses come once in each, but a short one and the next are nearer than a whole one."""
_SPIKES_MOST = 1 << 20
"""Twelve days of pauses."""
_PERIOD_US, _RUNTIME_US = 1_000_000, 950_000
"""What the kernel starts with (``kernel/sched/rt.c``); the agent tells the runtime, but not the period. The fair server
has the same two (``fair_server_init`` in ``kernel/sched/deadline.c``)."""
_CODES: dict[str, LimitName] = {"rt_throttling": "RT throttling", "fair_server": "fair server"}
"""The agent's findings (``crates/probe/src/preflight.rs``); it tells one of them at most."""


@dataclass(frozen=True)
class Limit:
    """How long real-time threads stand still in every period."""

    cause: LimitName
    pause_ns: float
    period_s: float = _PERIOD_US / 1e6
    pauses_most: int | None = None
    """So often was the probe's thread put off its CPU; None where nobody counted."""


def limit_of(record: TrialRecord) -> Limit | None:
    """Give the limit that may have held a trial's probe back; None where there is none."""
    if record.outcome is None or not PROBES[record.cell.probe].is_busy:
        return None
    is_tiled = PROBES[record.cell.probe].is_tiled
    cause = next((_CODES[one.code] for one in record.outcome.findings if one.code in _CODES), None)
    if cause is None:
        return None
    if cause == "fair server" and not is_tiled:
        # It pauses only where an ordinary thread starves, and whether one did is not counted for a ring of threads.
        return None
    # The counters of a ring are of the thread that waits for it.
    switches = record.outcome.counters.get("involuntary_context_switches") if is_tiled else None
    if switches == 0:
        return None
    told = None
    if cause == "RT throttling" and record.machine is not None:
        reading = record.machine.agent_facts.get("sched_rt_runtime_us")
        told = reading.value if isinstance(reading, Value) else None
    # A runtime of -1 was read before a limit that another run had lifted came back.
    runtime_us = told if isinstance(told, int) and told >= 0 else _RUNTIME_US
    return Limit(cause, (_PERIOD_US - runtime_us) * 1e3, pauses_most=switches)


def find_held_back(series: Series, units_per_s: float, limit: Limit) -> HeldBack:
    """Find the samples of a trial that a limit explains, and the longest of the others."""
    floor_ns = series.summary()["floor_ns"]
    ns_a_unit = 1e9 / units_per_s
    threshold = int((floor_ns + PAUSE_SHARE * limit.pause_ns) / ns_a_unit)
    spikes = series.spikes(threshold, _SPIKES_MOST)
    overhead_ns = np.asarray(spikes["duration"]) * ns_a_unit - floor_ns
    start_s = np.asarray(spikes["start"]) / units_per_s
    explained = _explained(overhead_ns.tolist(), start_s.tolist(), limit)
    indices = {int(spikes["index"][place]) for place in explained}
    rest = next((one for one in series.worst(len(indices) + 1) if one["index"] not in indices), None)
    return HeldBack(
        cause=limit.cause,
        pause_ns=limit.pause_ns,
        count=len(explained),
        longest_ns=max((float(overhead_ns[place]) for place in explained), default=None),
        rest_max_ns=None if rest is None else rest["duration_ns"],
        rest_max_overhead_ns=None if rest is None else rest["duration_ns"] - floor_ns,
        rest_max_at_s=None if rest is None else rest["start_s"],
    )


def pool_held_back(trials: Sequence[TrialSummary]) -> HeldBack | None:
    """Put the repetitions of a cell together; one that was under no limit counts with its longest sample."""
    found = [trial.held_back for trial in trials if trial.held_back is not None]
    if not found:
        return None
    worst = max(
        (trial for trial in trials if trial.worst_ns is not None), key=lambda one: one.worst_ns or 0.0, default=None
    )
    return HeldBack(
        cause=found[0].cause,
        pause_ns=max(part.pause_ns for part in found),
        count=sum(part.count for part in found),
        longest_ns=max((part.longest_ns for part in found if part.longest_ns is not None), default=None),
        rest_max_ns=None if worst is None else worst.worst_ns,
        rest_max_overhead_ns=None if worst is None else worst.worst_overhead_ns,
        rest_max_at_s=None if worst is None else worst.worst_at_s,
    )


def _explained(overhead_ns: Sequence[float], start_s: Sequence[float], limit: Limit) -> list[int]:
    """Choose the places of the samples that are pauses: of those too near to each other the likeliest."""
    fitting = [place for place, one in enumerate(overhead_ns) if one <= limit.pause_ns + _TICK_MAX_NS]
    taken_s: list[float] = []
    chosen = []
    for place in sorted(fitting, key=lambda place: abs(overhead_ns[place] - limit.pause_ns)):
        if all(
            abs(start_s[place] - other) >= _APART_SHARE * limit.period_s for other in _beside(taken_s, start_s[place])
        ):
            insort(taken_s, start_s[place])
            chosen.append(place)
    return chosen[: limit.pauses_most]


def _beside(sorted_s: Sequence[float], at_s: float) -> Iterable[float]:
    """Give the neighbours of a moment among sorted ones."""
    place = bisect_left(sorted_s, at_s)
    return sorted_s[max(0, place - 1) : place + 1]
