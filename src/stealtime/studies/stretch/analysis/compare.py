"""A cell of two runs: whether its work took longer."""

from statistics import geometric_mean

from stealtime.report import notation
from stealtime.report.comparison import CellComparison, StatisticComparison, judged
from stealtime.report.interval import REPETITIONS_MIN, ratio_of_repetitions
from stealtime.studies.stretch.analysis.model import StretchCell


class ElapsedComparison(StatisticComparison):
    """The elapsed time of the whole work."""

    a_s: float | None
    """The geometric mean of the repetitions; None where there is none."""
    b_s: float | None

    @property
    def words(self) -> tuple[str, str, str]:
        """Its name, and its value in each run."""
        a, b = (notation.duration(None if one is None else one * 1e9) for one in (self.a_s, self.b_s))
        return "elapsed", a, b


def compare_cells(a: StretchCell, b: StretchCell) -> CellComparison:
    """Compare the elapsed times of a cell that two runs have in common; the ratio is of ``b`` to ``a``."""
    because = _why_not(a, b)
    ratio = None if because else ratio_of_repetitions(a.elapsed_s, b.elapsed_s, same_session=False)
    means = [geometric_mean(cell.elapsed_s) if cell.repetitions else None for cell in (a, b)]
    elapsed = ElapsedComparison(
        statistic="elapsed",
        a_s=means[0],
        b_s=means[1],
        **judged(ratio, because, "Welch's t on logarithms of repetitions, with a variance between sessions"),
    )
    return CellComparison.of(a, (len(a.repetitions), len(b.repetitions)), [elapsed])


def _why_not(a: StretchCell, b: StretchCell) -> str | None:
    fewest = min(len(a.repetitions), len(b.repetitions))
    if fewest < REPETITIONS_MIN:
        return f"one run has {fewest} valid repetitions: measure with --repetitions {REPETITIONS_MIN}"
    if len({one.checksum for one in (*a.repetitions, *b.repetitions)}) > 1:
        return "the checksums differ: it was not the same work"
    return None
