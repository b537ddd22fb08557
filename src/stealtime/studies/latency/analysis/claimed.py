"""The figures of a cell that others publish of latencies: the largest overhead, the longest switch."""

from stealtime.report.claims.measurement import Measurement, SeenPeriods
from stealtime.report.notation import three_digits
from stealtime.studies.latency.analysis.clock_resolution import clock_resolution_ns
from stealtime.studies.latency.analysis.model import CellSummary, HeldBack, TrialSummary

_LIMITED = (
    "the kernel limited real-time threads on {platforms}: samples that this explains count for no maximum; "
    "--lift-rt-throttling measures without RT throttling"
)


def measurement(cell: CellSummary, figure: str) -> Measurement:
    """Give the longest sample that no limit explains.

    Args:
        cell: Measured or not.
        figure: ``worst``, or ``worst_overhead`` for all of it over the floor.
    """
    is_overhead = figure == "worst_overhead"
    of_repetitions = [_worst(trial, is_overhead) for trial in cell.trials if trial.valid]
    worst, stats = _worst(cell, is_overhead), cell.stats
    floor_ns = stats.floor_ns if stats is not None and is_overhead else 0.0
    p9999 = None if stats is None or "p9999_ns" in stats.unresolved else stats.p9999_ns - floor_ns
    return Measurement(
        value=worst,
        of_repetitions=tuple(one for one in of_repetitions if one is not None),
        samples=None if stats is None else stats.count,
        p50=None if stats is None or worst is None else stats.p50_ns - floor_ns,
        p9999=None if p9999 is None or worst is None or p9999 > worst else p9999,
        resolution=clock_resolution_ns(cell),
        unusable=_held_back_words(cell.held_back) if cell.comparable_worst_ns is None else None,
        limit=None if cell.held_back is None else _LIMITED,
    )


def periods(cell: CellSummary) -> SeenPeriods | None:
    """Give what comes again in the busy loop of ``tick``; nobody looks for it in switches."""
    watched_s = [trial.stats.count * trial.stats.mean_ns / 1e9 for trial in cell.trials if trial.valid and trial.stats]
    if cell.probe != "tick" or not watched_s:
        return None
    return SeenPeriods(
        found=tuple((period.period_s, period.found_in_repetitions) for period in cell.periods),
        repetitions=len(watched_s),
        watched_s=min(watched_s),
        unusable=None if cell.held_back is None else f"{cell.held_back.cause} takes time once in each of its periods",
    )


def _worst(measured: CellSummary | TrialSummary, is_overhead: bool) -> float | None:
    if measured.stats is None:
        return None
    return measured.worst_overhead_ns if is_overhead else measured.worst_ns


def _held_back_words(held_back: HeldBack | None) -> str:
    if held_back is None or held_back.rest_max_overhead_ns is None:
        return "is not known: a limit of the kernel explains every sample"
    return (
        f"({three_digits(held_back.rest_max_overhead_ns / 1e6)} ms) may hold a pause of {held_back.cause} "
        f"(up to {held_back.pause_ns / 1e6:g} ms)"
    )
