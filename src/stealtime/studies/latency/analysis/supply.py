"""What a machine was seen to get of a CPU: a busy thread of the highest priority sees every stretch that it did not.

The like is measured by osnoise (``kernel/trace/trace_osnoise.c``); as a supply function of threads by rt-muse (Maggio,
Lelli and Bini, Real-Time Systems 53, 2017). A turn of ``tick`` that is longer than the floor holds a gap as long as the
excess; where in that turn it was is not known, and it is put to its begin. The machine's own interrupts are among the
gaps.
"""

from typing import TYPE_CHECKING

import numpy as np

from stealtime.studies.latency.analysis.series import load_series
from stealtime.vocabulary.quantities import NANOSECONDS
from stealtime.vocabulary.service import ObservedService

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stealtime.store.run import Run, Trial

SHORTEST_GAP_NS = 1_000
"""The turns of the loop differ by less; what that adds up to is part of the service."""
MOST_GAPS = 5_000
"""Of more only the longest: each question goes through all of them, many times."""


def observed_services(run: "Run") -> list[ObservedService]:
    """Give for each machine, and each scenario, the trial of ``tick`` with the least service."""
    least: dict[str, ObservedService] = {}
    for trial in run.trials:
        cell = trial.record.cell
        outcome = trial.record.outcome
        if not trial.record.has_result or outcome is None or cell.probe != "tick":
            continue
        if outcome.counters.get("pauses", 0):
            # What the machine got while nobody watched is not known, and a gap of seconds would be false as well.
            continue
        machine = cell.platform if cell.scenario == "alone" else f"{cell.platform} {cell.scenario}"
        service = service_of(trial, machine)
        if machine not in least or service.served_share < least[machine].served_share:
            least[machine] = service
    return [service for _, service in sorted(least.items())]


def service_of(trial: "Trial", machine: str) -> ObservedService:
    outcome = trial.record.outcome
    if outcome is None:
        raise ValueError(f"{trial.record.trial_id} has no outcome")
    series = load_series(trial)
    summary = series.summary()
    ns_a_unit = NANOSECONDS["s"] / outcome.clock.units_per_s
    observed_ns = int(summary["span_s"] * NANOSECONDS["s"])
    floor_units = round(summary["floor_ns"] / ns_a_unit)
    found = series.spikes(floor_units + int(SHORTEST_GAP_NS / ns_a_unit), MOST_GAPS)
    begins = (found["start"] * ns_a_unit).astype(np.int64)
    lengths = ((found["duration"] - floor_units) * ns_a_unit).astype(np.int64)
    shortest_ns = int(lengths.min()) if found["total"] > MOST_GAPS else SHORTEST_GAP_NS
    without = f"gaps under {shortest_ns / NANOSECONDS['us']:.0f} us"
    return ObservedService(machine, observed_ns, _apart(begins, lengths, observed_ns), without)


def _apart(begins: "NDArray[np.int64]", lengths: "NDArray[np.int64]", observed_ns: int) -> tuple[tuple[int, int], ...]:
    """Give gaps that do not overlap, each of them within the observation; rounding may have moved an end."""
    gaps: list[tuple[int, int]] = []
    free = 0
    for begin, length in sorted(zip(begins.tolist(), lengths.tolist(), strict=True)):
        start, end = max(begin, free), min(begin + length, observed_ns)
        if end > start:
            gaps.append((start, end - start))
            free = end
    return tuple(gaps)
