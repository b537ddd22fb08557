"""What a machine was seen to get of a CPU: a busy thread of the highest priority sees every stretch that it did not.

The like is measured by osnoise (``kernel/trace/trace_osnoise.c``); as a supply function of threads by rt-muse (Maggio,
Lelli and Bini, Real-Time Systems 53, 2017). A turn of ``tick`` that is longer than the floor holds a gap as long as the
excess; where in that turn it was is not known, and it is put to its begin. The machine's own interrupts are among the
gaps.
"""

from typing import TYPE_CHECKING

from stealtime.schedulability.measured import MeasuredSupply
from stealtime.schedulability.supply import Supply
from stealtime.studies.latency.analysis.series import load_series
from stealtime.vocabulary.quantities import NANOSECONDS, format_duration

if TYPE_CHECKING:
    from stealtime.store.run import Run, Trial

SHORTEST_GAP_NS = 1_000
"""The turns of the loop differ by less; what that adds up to is part of the service."""
MOST_GAPS = 5_000
"""Of more only the longest: each question goes through all of them, many times."""


def measured_supplies(run: "Run") -> list[MeasuredSupply]:
    """Give for each machine, and each scenario, the trial of ``tick`` with the least service."""
    least: dict[str, tuple[float, Supply]] = {}
    for trial in run.trials:
        cell = trial.record.cell
        if trial.record.state != "measured" or cell.probe != "tick":
            continue
        machine = cell.platform if cell.scenario == "alone" else f"{cell.platform} {cell.scenario}"
        share, supply = _supply(trial, machine)
        if machine not in least or share < least[machine][0]:
            least[machine] = (share, supply)
    return [MeasuredSupply(machine, supply) for machine, (_, supply) in sorted(least.items())]


def _supply(trial: "Trial", machine: str) -> tuple[float, Supply]:
    """Give the share that was served, and the supply."""
    outcome = trial.record.outcome
    if outcome is None:
        raise ValueError(f"{trial.record.trial_id} has no outcome")
    series = load_series(trial)
    summary = series.summary()
    ns_a_unit = NANOSECONDS["s"] / outcome.clock.units_per_s
    observed_ns = int(summary["span_s"] * NANOSECONDS["s"])
    floor_units = round(summary["floor_ns"] / ns_a_unit)
    found = series.spikes(floor_units + int(SHORTEST_GAP_NS / ns_a_unit), MOST_GAPS)
    begins = (found["start"] * ns_a_unit).astype(int)
    lengths = ((found["duration"] - floor_units) * ns_a_unit).astype(int)
    gaps: list[tuple[int, int]] = []
    for begin, length in sorted(zip(begins.tolist(), lengths.tolist(), strict=True)):
        free = max(begin, sum(gaps[-1]) if gaps else 0)
        end = min(begin + length, observed_ns)
        if end > free:
            gaps.append((free, end - free))
    served = 1 - sum(length for _, length in gaps) / observed_ns
    shortest_ns = int(lengths.min()) if found["total"] > MOST_GAPS else SHORTEST_GAP_NS
    source = f"{machine} without gaps under {format_duration(shortest_ns)}, {100 * served:.2f} % of a CPU,"
    return served, Supply("observed", (observed_ns,), tuple(gaps), source)
