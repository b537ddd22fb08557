"""How often equal runs are called different: counts over all pairs of runs, with known shifts beside them. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from statistics import median
from typing import Any

import numpy as np

from stealtime.report.comparison import CellComparison
from stealtime.report.interval import REPETITIONS_MIN
from stealtime.studies.latency.analysis.compare import STATISTICS, compare_cells
from stealtime.studies.latency.analysis.model import RunSummary, Stats, TrialSummary

SHIFTS = (1.1, 1.25, 2.0)
"""Known differences that are put into one of two equal runs, to see how many are found over the real noise."""
_GROUPS: dict[str, Callable[[CellComparison, str], str]] = {
    "statistic": lambda _, statistic: statistic,
    "probe": lambda cell, _: " ".join([cell.probe, *(str(value) for value in cell.parameters.values())]),
    "platform": lambda cell, _: cell.platform,
}


@dataclass
class Tally:
    """Verdicts of many comparisons."""

    judged: int = 0
    different: int = 0
    not_judged: Counter[str] = field(default_factory=Counter)
    """By reason, with the numbers of samples left out."""
    groups: dict[str, dict[str, list[int]]] = field(default_factory=lambda: {name: {} for name in _GROUPS})
    """By kind of group and group: how many were judged, and how many of them called different."""

    def add(self, cells: Iterable[CellComparison]) -> None:
        """Count one comparison."""
        for cell in cells:
            for one in cell.statistics:
                if one.verdict == "not judged":
                    self.not_judged[re.sub(r"\d[\d,.]*", "N", str(one.because))] += 1
                    continue
                is_different = one.verdict != "no difference shown"
                self.judged += 1
                self.different += is_different
                for name, group_of in _GROUPS.items():
                    counts = self.groups[name].setdefault(group_of(cell, one.statistic), [0, 0])
                    counts[0] += 1
                    counts[1] += is_different

    @property
    def share(self) -> float | None:
        """Of the judged ones, how many were called different; None where nothing was judged."""
        return self.different / self.judged if self.judged else None

    def document(self) -> dict[str, Any]:
        """Give what ``--json`` prints of it."""
        shares = {
            f"by_{kind}": {
                name: {"judged": n, "different": k, "share": k / n} for name, (n, k) in sorted(group.items())
            }
            for kind, group in self.groups.items()
        }
        counts = {"judged": self.judged, "different": self.different, "share": self.share}
        return {**counts, **shares, "not_judged": dict(self.not_judged)}


def compared(a: RunSummary, b: RunSummary) -> list[CellComparison]:
    """Compare the cells that two runs have in common."""
    others = {cell.key: cell for cell in b.cells}
    return [compare_cells(cell, others[cell.key]) for cell in a.cells if cell.key in others]


def tally(pairs: Iterable[tuple[RunSummary, RunSummary]]) -> Tally:
    """Compare pairs of runs."""
    return counted(compared(a, b) for a, b in pairs)


def counted(comparisons: Iterable[list[CellComparison]]) -> Tally:
    """Count what comparisons of pairs have found."""
    result = Tally()
    for cells in comparisons:
        result.add(cells)
    return result


def judge_equal_runs(runs: Sequence[RunSummary]) -> dict[str, Any]:
    """Compare all pairs of runs of one machine, at least two.

    Returns:
        ``false_alarm_share``, its range when each run is left out once, the parts by statistic, probe and platform, the
        share with fewer repetitions, how much sessions differ, and which shares of known differences are found.
    """
    pairs = list(combinations(runs, 2))
    comparisons = [compared(a, b) for a, b in pairs]
    everything = counted(comparisons)
    without = [
        counted(cells for pair, cells in zip(pairs, comparisons, strict=True) if left_out not in pair).share
        for left_out in (runs if len(runs) > 2 else ())
    ]
    known = [share for share in without if share is not None]
    fewest = min(len(cell.trials) for run in runs for cell in run.cells)
    parts = everything.document()
    return {
        "runs": len(runs),
        "pairs": len(pairs),
        "repetitions": fewest,
        "false_alarm_share": parts.pop("share"),
        "false_alarm_share_without_one_run": [min(known), max(known)] if known else None,
        **parts,
        "by_repetitions": {
            count: tally((first_repetitions(a, count), first_repetitions(b, count)) for a, b in pairs).share
            for count in range(REPETITIONS_MIN, fewest + 1)
        },
        "between_neighbouring_runs": tally(pairwise(runs)).share,
        "variance_between_sessions": session_variances(runs),
        "found_of_known_shifts": {
            f"x{shift:g}": found_share((a, shifted(b, shift)) for a, b in pairs) for shift in SHIFTS
        },
    }


def found_share(pairs: Iterable[tuple[RunSummary, RunSummary]]) -> float | None:
    """Of the judged durations, tell which share was called higher in the second run."""
    statistics = (one for a, b in pairs for cell in compared(a, b) for one in cell.statistics)
    verdicts = [one.verdict for one in statistics if one.statistic in STATISTICS and one.verdict != "not judged"]
    return verdicts.count("higher") / len(verdicts) if verdicts else None


def first_repetitions(run: RunSummary, count: int) -> RunSummary:
    """Give the run as if it had only its first repetitions."""
    cells = [cell.model_copy(update={"trials": cell.trials[:count]}) for cell in run.cells]
    return run.model_copy(update={"cells": cells})


def shifted(run: RunSummary, factor: float) -> RunSummary:
    """Give the run as if every sample had taken ``factor`` times as long."""

    def slower(trial: TrialSummary) -> TrialSummary:
        if trial.stats is None:
            return trial
        times = {name: getattr(trial.stats, name) * factor for name in Stats.model_fields if name.endswith("_ns")}
        stalls = trial.stalls
        if stalls is not None:
            longest_ns = [one * factor for one in stalls.longest_ns]
            stalls = stalls.model_copy(update={"lost_s": stalls.lost_s * factor, "longest_ns": longest_ns})
        return trial.model_copy(update={"stats": trial.stats.model_copy(update=times), "stalls": stalls})

    cells = [cell.model_copy(update={"trials": [slower(trial) for trial in cell.trials]}) for cell in run.cells]
    return run.model_copy(update={"cells": cells})


def session_variances(runs: Sequence[RunSummary]) -> dict[str, float] | None:
    """Estimate how large the variance between sessions is as a share of that between repetitions.

    Returns:
        Median and 90th percentile over all statistics of all cells, from the logarithms; an estimate may be negative
        where sessions differ less than chance would have it. None where nothing can be told.
    """
    values: dict[tuple[Any, ...], list[list[float]]] = defaultdict(list)
    for run in runs:
        for cell in run.cells:
            stats = [trial.stats for trial in cell.trials if trial.valid and trial.stats is not None]
            for name in STATISTICS:
                if stats and all(name not in one.unresolved and getattr(one, name) > 0.0 for one in stats):
                    values[(*cell.key, name)].append([float(getattr(one, name)) for one in stats])
    shares = []
    for sessions in values.values():
        fewest = min(len(session) for session in sessions)
        if len(sessions) < 2 or fewest < 2:
            continue
        logarithms = np.log([session[:fewest] for session in sessions])
        within = float(logarithms.var(axis=1, ddof=1).mean())
        between = float(logarithms.mean(axis=1).var(ddof=1)) - within / fewest
        if within > 0.0:
            shares.append(between / within)
    return {"median": median(shares), "p90": float(np.quantile(shares, 0.9))} if shares else None
