"""What tracing costs the jobs of a run: the same tasks with and without, pair by pair."""

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from stealtime.campaigns.validity import is_usable
from stealtime.report import notation
from stealtime.studies.realtime.analysis.jobs import read_jobs

if TYPE_CHECKING:
    from stealtime.store.run import Run, Trial

NOT_KNOWN = (
    "What tracing adds to these figures is not known of this run (`stealtime run --tracing both` measures each task "
    "set with and without); nothing is subtracted"
)


def tracing_sentences(run: "Run") -> list[str]:
    """Say for each platform and scenario by how much tracing moved the start of the most urgent task.

    Only pairs count, trials of one task set and repetition that ran next to each other, so that what drifts from
    repetition to repetition falls out. The agent's own stamps are compared, which are there with and without.
    """
    pairs: dict[str, list[tuple[float, float]]] = {}
    has_traced = False
    untraced = {_place(trial): trial for trial in _usable(run) if not trial.record.cell.traced}
    for trial in _usable(run):
        cell = trial.record.cell
        if not cell.traced:
            continue
        has_traced = True
        if (other := untraced.get(_place(trial))) is None:
            continue
        traced_ns, untraced_ns = _median_ns(trial), _median_ns(other)
        if traced_ns is not None and untraced_ns is not None:
            where = cell.platform if cell.scenario == "alone" else f"{cell.platform} {cell.scenario}"
            pairs.setdefault(where, []).append((traced_ns, untraced_ns))
    if has_traced and not pairs:
        return [NOT_KNOWN]
    return [_sentence(where, own) for where, own in pairs.items()]


def _usable(run: "Run") -> "list[Trial]":
    return [trial for trial in run.measured if trial.record.cell.probe == "rtload" and is_usable(trial.record)]


def _place(trial: "Trial") -> tuple[str, int]:
    return trial.record.cell.untraced.name, trial.record.repetition


def _median_ns(trial: "Trial") -> float | None:
    latency_ns = read_jobs(trial).urgent_latency_ns
    return float(np.median(latency_ns)) if len(latency_ns) else None


def _sentence(where: str, pairs: Sequence[tuple[float, float]]) -> str:
    shifts = [traced - untraced for traced, untraced in pairs]
    usual = notation.duration(median(untraced for _, untraced in pairs))
    count = "1 pair" if len(pairs) == 1 else f"{len(pairs)} pairs"
    low, middle, high = (_signed(one) for one in (min(shifts), median(shifts), max(shifts)))
    return (
        f"Tracing moves the median start of the most urgent task of {where} by {middle} ({low} to {high} in {count}; "
        f"{usual} without it); nothing is subtracted"
    )


def _signed(nanoseconds: float) -> str:
    return ("-" if nanoseconds < 0 else "+") + notation.duration(abs(nanoseconds), 3)
