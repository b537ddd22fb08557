"""``run --max-overhead``: each cell passed each threshold, is over it, or was not judged, and why.

What is not judged is no pass: nothing here takes the absence of a value for a value that is small enough.
"""

import math
from collections.abc import Sequence
from typing import Literal

from stealtime.campaigns.registry import probes
from stealtime.campaigns.threshold import Threshold
from stealtime.report import notation
from stealtime.report.cells.figures import Figures, NamedCell
from stealtime.report.cells.model import Bounded, CellFigures

GateVerdict = Literal["passed", "exceeded", "not judged", "base"]
"""``base``: a cell that others are held against, which has nothing to be held against itself."""
CONFIDENCE = 0.95


class GatedCell(NamedCell):
    """A cell beside a threshold."""

    traced: bool
    threshold: str
    """As it was given: ``100us``, ``p99.9=50us``."""
    statistic: str
    """``max``, or a percentile: ``p99.9``."""
    quantity: str
    """What of it was judged, in words."""
    value_ns: float | None
    """None where nothing was seen, or where something had no end."""
    at_most_ns: int
    over_ns: float | None
    """How far beyond the threshold; None where it is not, and where something had no end."""
    verdict: GateVerdict
    because: str | None
    """Why it is not judged, or what had no end."""
    not_alone: str | None = None
    """Who was beside it that nobody asked for: what is over a threshold may be theirs, and is over it all the same."""

    @property
    def words(self) -> str:
        """The cell with its value, or why it has none."""
        value = self.because if self.value_ns is None or self.because else f"{self.value_ns / 1000:.1f} us"
        return f"{self.platform} {self.probe}: {value}{self._company}"

    @property
    def sentence(self) -> str:
        """How it went, with everybody who was beside it."""
        if self.verdict == "not judged":
            return f"not judged: {self.because}"
        if self.verdict == "exceeded" and (self.value_ns is None or self.over_ns is None):
            return f"{self.quantity} has no end: {self.because}"
        bar = notation.trimmed_duration(self.at_most_ns)
        if self.over_ns is None:
            return f"{self.quantity} is {notation.duration(self.value_ns)}, not over {bar}"
        over = notation.duration(self.over_ns)
        return f"{self.quantity} is {notation.duration(self.value_ns)}, by {over} over {bar}{self._company}"

    @property
    def brief(self) -> str:
        """How it went, in one line of a list: the statistic stands for what it is of."""
        if self.verdict == "not judged" or self.value_ns is None:
            return str(self.because)
        bar = notation.trimmed_duration(self.at_most_ns)
        value = f"{self.statistic} {notation.duration(self.value_ns)}"
        if self.over_ns is None:
            return f"{value}, not over {bar}"
        beside = "" if self.not_alone is None else " (not alone)"
        return f"{value}, {notation.duration(self.over_ns)} over {bar}{beside}"

    @property
    def _company(self) -> str:
        return f" ({self.not_alone})" if self.not_alone is not None and self.verdict == "exceeded" else ""


class Gate(Figures):
    """A run held against thresholds."""

    thresholds: list[str]
    verdict: Literal["passed", "exceeded", "not judged"]
    """The worst: exceeded, not judged, passed."""
    cells: list[GatedCell]
    """Each cell of the run with each threshold, in the order of the cells."""

    def of(self, verdict: GateVerdict, threshold: str | None = None) -> list[GatedCell]:
        """Give those with a verdict, of one threshold or of all."""
        own = [cell for cell in self.cells if threshold in (None, cell.threshold)]
        return [cell for cell in own if cell.verdict == verdict]

    def of_cell(self, number: int) -> list[GatedCell]:
        """Give what was judged of a cell of the run, by its place."""
        return self.cells[number * len(self.thresholds) : (number + 1) * len(self.thresholds)]

    @property
    def remarks(self) -> list[str]:
        remarks = []
        for threshold in self.thresholds:
            if over := self.of("exceeded", threshold):
                remarks.append(f"over --max-overhead {threshold}: {_listed(over)}")
            if unknown := self.of("not judged", threshold):
                remarks.append(f"not judged by --max-overhead {threshold}: {_listed(unknown)}")
            elif not (over or self.of("passed", threshold)):
                remarks.append(
                    f"--max-overhead {threshold} judged nothing: the run has no cell that can be held against it"
                )
        return remarks


def hold(cells: Sequence[CellFigures], thresholds: Sequence[Threshold]) -> Gate:
    """Hold the cells of a run against thresholds.

    A value beyond one is exceeded however short it was watched. One that is not beyond it passes only if the cell may
    be used, was watched for as long as was asked for, and nothing may have hidden a longer value. A percentile takes
    enough samples besides, see :func:`fewest_samples`.

    Args:
        cells: All of the run.
        thresholds: At least one, at most one of each statistic.
    """
    gated = [_gated(cell, threshold) for cell in cells for threshold in thresholds]
    worst = [_worst([one.verdict for one in gated if one.threshold == threshold.text]) for threshold in thresholds]
    order: tuple[Literal["exceeded", "not judged", "passed"], ...] = ("exceeded", "not judged", "passed")
    return Gate(
        thresholds=[one.text for one in thresholds],
        verdict=min(worst, key=order.index),
        cells=gated,
    )


def fewest_samples(percentile: str) -> int:
    """Give of how many samples a percentile can be told: as many as are needed for one of them to lie beyond it.

    With fewer, all may lie under it by chance in more than 5 % of all cases, and nothing would be known of what lies
    beyond (S. S. Wilks, Ann. Math. Statist. 12, 1941: tolerance limits).
    """
    return math.ceil(math.log(1.0 - CONFIDENCE) / math.log(float(percentile) / 100.0))


def _worst(verdicts: Sequence[GateVerdict]) -> Literal["passed", "exceeded", "not judged"]:
    if "exceeded" in verdicts:
        return "exceeded"
    return "passed" if "passed" in verdicts and "not judged" not in verdicts else "not judged"


def _gated(cell: CellFigures, threshold: Threshold) -> GatedCell:
    value_ns, verdict, because = _judged(cell, threshold)
    is_known = verdict == "exceeded" and value_ns is not None
    return GatedCell(
        **NamedCell.naming(cell),
        traced=cell.traced,
        threshold=threshold.text,
        statistic=threshold.statistic,
        quantity=_quantity(cell, threshold),
        value_ns=value_ns,
        at_most_ns=threshold.at_most_ns,
        over_ns=value_ns - threshold.at_most_ns if is_known and value_ns is not None else None,
        verdict=verdict,
        because=because,
        not_alone=cell.not_alone,
    )


def _quantity(cell: CellFigures, threshold: Threshold) -> str:
    probe = probes()[cell.probe]
    if threshold.percentile is None:
        return probe.bounded or "nothing"
    return "nothing" if probe.percentiles is None else f"{threshold.statistic} of {probe.percentiles.words}"


def _judged(cell: CellFigures, threshold: Threshold) -> tuple[float | None, GateVerdict, str | None]:
    if not cell.valid:
        return None, "not judged", "; ".join(cell.reasons)
    bounded = cell.bounded() if threshold.percentile is None else cell.at_percentile(threshold.percentile)
    if bounded is None:
        return None, "base", None
    if bounded.endless is not None:
        return None, "exceeded", bounded.endless
    if bounded.longest_ns is None:
        return None, "not judged", bounded.unknown_because or "nothing was measured"
    if (too_few := _too_few(bounded, threshold)) is not None:
        return bounded.longest_ns, "not judged", too_few
    if bounded.longest_ns > threshold.at_most_ns:
        return bounded.longest_ns, "exceeded", None
    if because := bounded.unknown_because or "; ".join(cell.fell_short):
        return bounded.longest_ns, "not judged", because
    return bounded.longest_ns, "passed", None


def _too_few(bounded: Bounded, threshold: Threshold) -> str | None:
    if threshold.percentile is None or bounded.samples is None:
        return None
    fewest = fewest_samples(threshold.percentile)
    if bounded.samples >= fewest:
        return None
    return f"{bounded.samples:,} of {fewest:,} samples for {threshold.statistic}: measure longer"


def _listed(cells: Sequence[GatedCell]) -> str:
    return ", ".join(cell.words for cell in cells)
