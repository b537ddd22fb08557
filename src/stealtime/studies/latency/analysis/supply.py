"""What a machine was seen to get of a CPU: a busy thread of the highest priority sees every stretch that it did not.

The like is measured by osnoise (``kernel/trace/trace_osnoise.c``); as a supply function of threads by rt-muse (Maggio,
Lelli and Bini, Real-Time Systems 53, 2017). A turn of ``tick`` that is longer than the floor holds a gap as long as the
excess. Where in that turn it was is not known: it is put to the turn's begin, and may slip by the floor. The machine's
own interrupts are among the gaps.
"""

from typing import TYPE_CHECKING

import numpy as np

from stealtime.studies.latency.analysis.series import load_series
from stealtime.vocabulary.quantities import NANOSECONDS
from stealtime.vocabulary.service import Observation, ObservedService

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stealtime.store.run import Run, Trial

SHORTEST_GAP_NS = 1_000
"""The turns of the loop differ by less; what that adds up to is part of the service."""
_ALL = np.iinfo(np.int64).max


def observed_services(run: "Run") -> list[ObservedService]:
    """Give for each machine, and each scenario, all its trials of ``tick``."""
    found: dict[str, list[Observation]] = {}
    paused: dict[str, int] = {}
    for trial in run.trials:
        cell = trial.record.cell
        outcome = trial.record.outcome
        if not trial.record.has_result or outcome is None or cell.probe != "tick":
            continue
        machine = cell.platform if cell.scenario == "alone" else f"{cell.platform} {cell.scenario}"
        if outcome.counters.get("pauses", 0):
            # What the machine got while nobody watched is not known, and a gap of seconds would be false as well.
            paused[machine] = paused.get(machine, 0) + 1
            continue
        found.setdefault(machine, []).append(observation_of(trial))
    return [
        ObservedService(machine, all_of_it, _without(machine, paused)) for machine, all_of_it in sorted(found.items())
    ]


def observation_of(trial: "Trial") -> Observation:
    """Give all gaps of a trial.

    Raises:
        ValueError: It has no outcome.
    """
    outcome = trial.record.outcome
    if outcome is None:
        raise ValueError(f"{trial.record.trial_id} has no outcome")
    series = load_series(trial)
    summary = series.summary()
    ns_a_unit = NANOSECONDS["s"] / outcome.clock.units_per_s
    floor_units = round(summary["floor_ns"] / ns_a_unit)
    found = series.spikes(floor_units + int(SHORTEST_GAP_NS / ns_a_unit), _ALL)
    begin_ns = np.floor(found["start"] * ns_a_unit).astype(np.int64)
    length_ns = np.ceil((found["duration"] - np.uint64(floor_units)) * ns_a_unit).astype(np.int64)
    observed_ns = int(summary["span_s"] * NANOSECONDS["s"])
    return _apart(begin_ns, length_ns, observed_ns, int(summary["floor_ns"]))


def _without(machine: str, paused: "Mapping[str, int]") -> str:
    words = f"without gaps under {SHORTEST_GAP_NS / NANOSECONDS['us']:g} us"
    count = paused.get(machine, 0)
    return words if not count else f"{words}; {count} more were paused now and then, and do not count"


def _apart(
    begin_ns: "NDArray[np.int64]", length_ns: "NDArray[np.int64]", observed_ns: int, floor_ns: int
) -> Observation:
    """Make gaps that do not overlap, each of them within the observation: rounding may have moved an end."""
    end_ns = np.minimum(begin_ns + length_ns, observed_ns)
    begin_ns = begin_ns.copy()
    begin_ns[1:] = np.maximum(begin_ns[1:], end_ns[:-1])
    there = end_ns > begin_ns
    begin_ns, end_ns = begin_ns[there], end_ns[there]
    return Observation(observed_ns, begin_ns.astype(np.uint64), (end_ns - begin_ns).astype(np.uint64), floor_ns)
