"""Two runs of several hosts beside each other: hosts are what varies, not their samples.

Where the same hosts measured both, each is compared with itself, and the interval is that of the hosts' ratios; else
that of two groups of hosts (``report.interval``). Both add a variance between sessions.
"""

from collections import defaultdict
from typing import Literal

from stealtime.merging.document import pools_of_run
from stealtime.merging.figures import NAMES, HostPool, hosts_of
from stealtime.merging.trial_row import TrialRow
from stealtime.report import notation
from stealtime.report.interval import REPETITIONS_MIN, interval_of_repetitions, ratio_of_repetitions
from stealtime.store.run import Run
from stealtime.vocabulary.readings import Model

COMPARED = ("p50_ns", "p90_ns", "p99_ns", "p999_ns")
"""A minimum and a maximum depend on how long was watched; what is rarer, on a few samples."""


class HostsCompared(Model):
    """One figure of a cell of both runs."""

    cell: str
    figure: str
    hosts_a: int
    hosts_b: int
    paired: bool
    """Whether each host is compared with itself."""
    ratio: float | None
    """Of the second run to the first; None where that is not judged."""
    low: float | None
    high: float | None
    verdict: Literal["higher", "lower", "no difference shown", "not judged"]
    because: str | None
    largest: float | None
    """Of the paired ratios, with its host."""
    largest_host: str | None


class HostsComparison(Model):
    """What ``stealtime compare --json`` prints of merged runs."""

    schema_version: int = 1
    a: str
    b: str
    figures: list[HostsCompared]

    @property
    def is_judged(self) -> bool:
        return bool(self.figures) and all(one.verdict != "not judged" for one in self.figures)


def compare_hosts(a: Run, b: Run) -> HostsComparison:
    """Compare the cells that two runs have in common.

    Raises:
        StealtimeError: The tables of one are damaged.
    """
    sides = [_cells(run) for run in (a, b)]
    figures = [
        _compared(cell, name, sides[0][cell], sides[1][cell])
        for cell in sides[0]
        if cell in sides[1]
        for name in COMPARED
    ]
    return HostsComparison(a=a.run_id, b=b.run_id, figures=figures)


def _cells(run: Run) -> dict[str, list[HostPool]]:
    every, pools = pools_of_run(run)
    rows: dict[str, list[TrialRow]] = defaultdict(list)
    for row in every:
        rows[row.cell].append(row)
    return {cell: hosts_of(own, pools[cell]) for cell, own in rows.items()}


def _compared(cell: str, name: str, a: list[HostPool], b: list[HostPool]) -> HostsCompared:
    values = [{pool.host: value for pool in side if (value := pool.value_ns(name)) is not None} for side in (a, b)]
    common = [host for host in values[0] if host in values[1]]
    is_paired = len(common) >= REPETITIONS_MIN
    because = _why_not(a, b, values)
    ratio = low = high = largest = None
    largest_host: str | None = None
    verdict: Literal["higher", "lower", "no difference shown", "not judged"] = "not judged"
    if because is None:
        if is_paired:
            ratios = {host: values[1][host] / values[0][host] for host in common}
            found = interval_of_repetitions(list(ratios.values()))
            largest_host = max(ratios, key=lambda host: ratios[host])
            largest = ratios[largest_host]
        else:
            found = ratio_of_repetitions(list(values[0].values()), list(values[1].values()), same_session=False)
        ratio, low, high = found.value, found.low, found.high
        verdict = "higher" if low > 1 else "lower" if high < 1 else "no difference shown"
    return HostsCompared(
        cell=cell,
        figure=NAMES[name],
        hosts_a=len(values[0]),
        hosts_b=len(values[1]),
        paired=is_paired,
        ratio=ratio,
        low=low,
        high=high,
        verdict=verdict,
        because=because,
        largest=largest,
        largest_host=largest_host,
    )


def _why_not(a: list[HostPool], b: list[HostPool], values: list[dict[str, float]]) -> str | None:
    loops = {row.loop_iterations for pool in (*a, *b) for row in pool.rows}
    if len(loops) > 1:
        return "the loops did different work: measure with --loop-of"
    fewest = min(len(side) for side in values)
    if fewest < REPETITIONS_MIN:
        return f"there are fewer than {REPETITIONS_MIN} hosts with it ({fewest})"
    if min(value for side in values for value in side.values()) <= 0.0:
        return "it is 0 on a host"
    return None


def lines_of(comparison: HostsComparison) -> list[tuple[str, ...]]:
    """Give a row for each figure: cell, figure, hosts, ratio with interval, verdict, and the host that changed most."""
    rows: list[tuple[str, ...]] = []
    last = ""
    for one in comparison.figures:
        hosts = f"{one.hosts_a} (each with itself)" if one.paired else f"{one.hosts_a}, {one.hosts_b}"
        told = "-"
        if one.ratio is not None and one.low is not None and one.high is not None:
            told = f"{notation.ratio(one.ratio)} ({notation.ratio(one.low)} to {notation.ratio(one.high)})"
        verdict = one.verdict if one.because is None else f"not judged, because {one.because}"
        most = "" if one.largest is None else f"{one.largest_host} {notation.ratio(one.largest)}"
        rows.append(("" if one.cell == last else one.cell, one.figure, hosts, told, verdict, most))
        last = one.cell
    return rows
