"""``run --max-overhead``: each cell passed, is over the threshold, or was not judged, and why.

What is not judged is no pass: nothing here takes the absence of a value for a value that is small enough.
"""

from collections.abc import Sequence
from typing import Literal

from stealtime.campaigns.registry import probes
from stealtime.report.cells.figures import Figures, NamedCell
from stealtime.report.cells.model import CellFigures

GateVerdict = Literal["passed", "exceeded", "not judged", "base"]
"""``base``: a cell that others are held against, which has nothing to be held against itself."""


class GatedCell(NamedCell):
    """A cell beside the threshold."""

    traced: bool
    quantity: str
    """What of it was judged, in words."""
    longest_ns: float | None
    """None where nothing was seen, or where something had no end."""
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
        value = self.because if self.longest_ns is None or self.because else f"{self.longest_ns / 1000:.1f} us"
        return f"{self.platform} {self.probe}: {value}{self._company}"

    @property
    def sentence(self) -> str:
        if self.verdict == "not judged":
            return f"not judged: {self.because}"
        if self.longest_ns is None or self.over_ns is None:
            return f"{self.quantity} has no end: {self.because}"
        limit_ns = self.longest_ns - self.over_ns
        return f"{self.quantity} is {self.longest_ns / 1000:.1f} us, over {limit_ns / 1000:.1f} us{self._company}"

    @property
    def _company(self) -> str:
        return f" ({self.not_alone})" if self.not_alone is not None and self.verdict == "exceeded" else ""


class Gate(Figures):
    """A run held against a threshold."""

    at_most_ns: int
    verdict: Literal["passed", "exceeded", "not judged"]
    """The worst: exceeded, not judged, passed."""
    cells: list[GatedCell]

    def of(self, verdict: GateVerdict) -> list[GatedCell]:
        return [cell for cell in self.cells if cell.verdict == verdict]

    @property
    def remarks(self) -> list[str]:
        remarks = []
        if over := self.of("exceeded"):
            remarks.append(f"over --max-overhead {self.at_most_ns / 1000:.1f} us: {_listed(over)}")
        if unknown := self.of("not judged"):
            remarks.append(f"not judged by --max-overhead: {_listed(unknown)}")
        elif self.verdict == "not judged":
            remarks.append("--max-overhead judged nothing: the run has no cell that can be held against it")
        return remarks


def hold(cells: Sequence[CellFigures], at_most_ns: int) -> Gate:
    """Hold the cells of a run against a threshold.

    A value beyond it is exceeded however short it was watched. One that is not beyond it passes only if the cell may be
    used, was watched for as long as was asked for, and nothing may have hidden a longer value.

    Args:
        cells: All of the run.
        at_most_ns: The longest value that is accepted.
    """
    gated = [_gated(cell, at_most_ns) for cell in cells]
    verdicts = {one.verdict for one in gated}
    verdict: Literal["passed", "exceeded", "not judged"] = "not judged"
    if "exceeded" in verdicts:
        verdict = "exceeded"
    elif "passed" in verdicts and "not judged" not in verdicts:
        verdict = "passed"
    return Gate(at_most_ns=at_most_ns, verdict=verdict, cells=gated)


def _gated(cell: CellFigures, at_most_ns: int) -> GatedCell:
    longest_ns, verdict, because = _judged(cell, at_most_ns)
    is_known = verdict == "exceeded" and longest_ns is not None
    return GatedCell(
        **NamedCell.naming(cell),
        traced=cell.traced,
        quantity=probes()[cell.probe].bounded or "nothing",
        longest_ns=longest_ns,
        over_ns=longest_ns - at_most_ns if is_known and longest_ns is not None else None,
        verdict=verdict,
        because=because,
        not_alone=cell.not_alone,
    )


def _judged(cell: CellFigures, at_most_ns: int) -> tuple[float | None, GateVerdict, str | None]:
    if not cell.valid:
        return None, "not judged", "; ".join(cell.reasons)
    bounded = cell.bounded()
    if bounded is None:
        return None, "base", None
    if bounded.endless is not None:
        return None, "exceeded", bounded.endless
    if bounded.longest_ns is None:
        return None, "not judged", bounded.unknown_because or "nothing was measured"
    if bounded.longest_ns > at_most_ns:
        return bounded.longest_ns, "exceeded", None
    if because := bounded.unknown_because or "; ".join(cell.fell_short):
        return bounded.longest_ns, "not judged", because
    return bounded.longest_ns, "passed", None


def _listed(cells: Sequence[GatedCell]) -> str:
    return ", ".join(cell.words for cell in cells)
