"""Samples that the kernel's own limit on real-time threads explains: they say nothing of a machine's delays.

A busy SCHED_FIFO thread uses up what its kernel grants to real-time threads (950 ms of every second) and then
stands still for the rest of the period, whatever machine it runs on; or for as long as the fair server serves ordinary
threads. Such a pause stays among the samples; it is no maximum to compare machines by. Whether a trial of half a second
holds one is chance, and a ratio of it is false.

That a limit could have acted explains nothing: the agent watches who ran while the probe could have, and the rule of
``crates/analysis/src/held_back.rs``, which the agent alone goes by as well, explains what is proven so.
"""

from collections.abc import Sequence

from stealtime._core import Series
from stealtime.store.model import TrialRecord
from stealtime.store.run import Trial
from stealtime.studies.latency.analysis.model import HeldBack, LimitName, TrialSummary
from stealtime.studies.latency.analysis.series import read_ordinary
from stealtime.wire.threads import RealTimeLimit

_NAMES: dict[str, LimitName] = {"rt_throttling": "RT throttling", "fair_server": "fair server"}


def limit_of(record: TrialRecord) -> RealTimeLimit | None:
    """Give the limit that may have held a trial's probe back; None where there is none."""
    return None if record.outcome is None else record.outcome.limit


def find_held_back(trial: Trial, series: Series, limit: RealTimeLimit) -> HeldBack:
    """Find the samples of a trial that a limit explains, and the longest of the others.

    Raises:
        StealtimeError: The table of events is damaged.
    """
    starts, durations = read_ordinary(trial)
    found = series.held_back(float(limit.pause_ns), float(limit.period_ns), starts, durations)
    return HeldBack(
        cause=_NAMES[limit.kind], pause_ns=limit.pause_ns, period_ns=limit.period_ns, unseen=limit.unseen, **found
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
        period_ns=max(part.period_ns for part in found),
        unseen=next((part.unseen for part in found if part.unseen is not None), None),
        count=sum(part.count for part in found),
        longest_ns=max((part.longest_ns for part in found if part.longest_ns is not None), default=None),
        unproven=sum(part.unproven for part in found),
        rest_max_ns=None if worst is None else worst.worst_ns,
        rest_max_overhead_ns=None if worst is None else worst.worst_overhead_ns,
        rest_max_at_s=None if worst is None else worst.worst_at_s,
        rest_paused_ns=0.0 if worst is None or worst.held_back is None else worst.held_back.rest_paused_ns,
    )
