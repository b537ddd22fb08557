"""From what the hypervisor counted over trials to rates and shares that can be compared."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from stealtime.report.cells.surroundings import HypervisorFigures
from stealtime.store.model import TrialRecord
from stealtime.vocabulary.readings import Absent, Value

_TIME_SUFFIX = "_ns"
"""Of the names of counters that hold a time; the others count."""


def hypervisor_figures(record: TrialRecord) -> HypervisorFigures | None:
    """Give the figures of one trial; None where nothing was counted. A counter that is absent is in none of them."""
    counters = record.hypervisor_counters
    if counters is None or isinstance(counters, Absent):
        return None
    counted_s = (counters.end_monotonic_raw_ns - counters.begin_monotonic_raw_ns) / 1e9
    gained = {
        name: reading.value
        for name, reading in counters.total.items()
        if isinstance(reading, Value) and isinstance(reading.value, int)
    }
    if counted_s <= 0 or not gained:
        return None
    vcpus = len(counters.vcpus)
    return HypervisorFigures(
        vcpus=vcpus,
        counted_s=counted_s,
        per_s={name: count / counted_s for name, count in gained.items() if not name.endswith(_TIME_SUFFIX)},
        time_share={
            name.removesuffix(_TIME_SUFFIX): time_ns / 1e9 / (counted_s * vcpus)
            for name, time_ns in gained.items()
            if name.endswith(_TIME_SUFFIX)
        },
        polls_won_share=_polls_won(gained),
    )


def median_figures(figures: Sequence[HypervisorFigures]) -> HypervisorFigures | None:
    """Give the median of each figure over the repetitions that have it; None of no repetition."""
    if not figures:
        return None
    won = [one.polls_won_share for one in figures if one.polls_won_share is not None]
    return HypervisorFigures(
        vcpus=figures[0].vcpus,
        counted_s=median(one.counted_s for one in figures),
        per_s=_medians(figures, lambda one: one.per_s),
        time_share=_medians(figures, lambda one: one.time_share),
        polls_won_share=median(won) if won else None,
    )


def _polls_won(gained: Mapping[str, int]) -> float | None:
    attempted = gained.get("halt_attempted_poll", 0)
    return gained["halt_successful_poll"] / attempted if attempted and "halt_successful_poll" in gained else None


def _medians(
    figures: Sequence[HypervisorFigures], part: Callable[[HypervisorFigures], Mapping[str, float]]
) -> dict[str, float]:
    names = dict.fromkeys(name for one in figures for name in part(one))
    return {name: median(part(one)[name] for one in figures if name in part(one)) for name in names}
