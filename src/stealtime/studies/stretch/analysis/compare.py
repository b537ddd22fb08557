"""A cell of two runs: whether its work took longer."""

from stealtime.report import notation
from stealtime.report.catalogue.comparison import compare_repetitions
from stealtime.report.catalogue.model import Figure
from stealtime.report.comparison import CellComparison
from stealtime.studies.stretch.analysis.model import StretchCell

_COMPARED = {
    "elapsed": Figure("elapsed", lambda one: one.elapsed_s, write=lambda elapsed_s: notation.duration(elapsed_s * 1e9))
}
"""Taken from repetitions."""


def compare_cells(a: StretchCell, b: StretchCell) -> CellComparison:
    """Compare the elapsed times of a cell that two runs have in common; the ratio is of ``b`` to ``a``."""
    is_same_work = len({one.checksum for one in (*a.repetitions, *b.repetitions)}) <= 1
    because = None if is_same_work else "the checksums differ: it was not the same work"
    elapsed = compare_repetitions(_COMPARED, a.repetitions, b.repetitions, because)
    return CellComparison.of(a, (len(a.repetitions), len(b.repetitions)), elapsed)
