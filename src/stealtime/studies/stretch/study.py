"""How the study is registered. What it computes and shows is loaded once that is asked for."""

from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

from stealtime.report.study import ReportedStudy
from stealtime.studies.stretch.probes import CONTEND

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stealtime.report.claims.measurement import Measurement
    from stealtime.report.comparison import CellComparison
    from stealtime.report.page.section import Section
    from stealtime.report.summary import RunSummary
    from stealtime.store.run import Run, Trial
    from stealtime.studies.stretch.analysis.model import StretchCell


class StretchStudy(ReportedStudy):
    """How much longer work takes in a virtual machine, where the time goes, and what one more machine would cost."""

    name = "stretch"
    probes = (CONTEND,)
    folder = resources.files("stealtime.studies.stretch")

    @property
    def figures(self) -> "type[StretchCell]":
        """Elapsed times and what made them up."""
        from stealtime.studies.stretch.analysis.model import StretchCell

        return StretchCell

    def summarize_cell(self, trials: "Sequence[Trial]") -> "StretchCell":
        """Compute what the work took in each repetition."""
        from stealtime.studies.stretch.analysis.cell import figures_of

        return figures_of(trials)

    def relate(self, cells: "Sequence[StretchCell]") -> "Sequence[StretchCell]":
        """Compute stretch, lost seconds and predictions against the cells that are their bases."""
        from stealtime.studies.stretch.analysis.relate import relate

        return relate(cells)

    def tables(self, summary: "RunSummary") -> "RenderableType":
        """Give stretch, lost seconds and predictions, with the circumstances."""
        from stealtime.report.terminal.circumstances import with_circumstances
        from stealtime.studies.stretch.terminal.tables import render

        own = self.own(summary)
        return with_circumstances(render(own), summary, own)

    def measurement(self, cell: "StretchCell", figure: str) -> "Measurement":
        """Give the elapsed time; of several guests that did the same work that of the fastest, as it is published."""
        from statistics import geometric_mean

        from stealtime.report.claims.measurement import Measurement

        if figure != "elapsed":
            raise ValueError(f"{figure!r} is no figure of {self.name}")
        elapsed_ns = tuple(elapsed_s * 1e9 for elapsed_s in cell.fastest_s)
        return Measurement(value=geometric_mean(elapsed_ns) if elapsed_ns else None, of_repetitions=elapsed_ns)

    def section(self, run: "Run", summary: "RunSummary") -> "Section":
        """Draw the tables and their figures."""
        from stealtime.studies.stretch.analysis.recorded import recordings_of
        from stealtime.studies.stretch.page.section import section

        return section(self.own(summary), recordings_of(run))

    def compare_cells(self, a: "StretchCell", b: "StretchCell") -> "CellComparison":
        """Compare elapsed times."""
        from stealtime.studies.stretch.analysis.compare import compare_cells

        return compare_cells(a, b)


STUDY = StretchStudy()
