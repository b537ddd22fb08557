"""How the study is registered. What it computes and shows is loaded once that is asked for."""

from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

from stealtime.report.study import ReportedStudy
from stealtime.studies.realtime.probes import RTLOAD

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stealtime.report.claims.measurement import Measurement
    from stealtime.report.comparison import CellComparison
    from stealtime.report.page.section import Section
    from stealtime.report.summary import RunSummary
    from stealtime.report.tails.series import TailSeries
    from stealtime.schedulability.measured import MeasuredOverheads
    from stealtime.store.run import Run, Trial
    from stealtime.studies.realtime.analysis.model import RealTimeCell


class RealTimeStudy(ReportedStudy):
    """Do periodic real-time tasks meet their deadlines in a virtual machine, and how late do they begin?"""

    name = "realtime"
    probes = (RTLOAD,)
    folder = resources.files("stealtime.studies.realtime")

    @property
    def figures(self) -> "type[RealTimeCell]":
        """Missed deadlines and latencies."""
        from stealtime.studies.realtime.analysis.model import RealTimeCell

        return RealTimeCell

    def summarize_cell(self, trials: "Sequence[Trial]") -> "RealTimeCell":
        """Compute what became of the jobs."""
        from stealtime.studies.realtime.analysis.cell import figures_of

        return figures_of(trials)

    def tables(self, summary: "RunSummary") -> "RenderableType":
        """Give missed deadlines and latencies, with the circumstances."""
        from stealtime.report.terminal.circumstances import with_circumstances
        from stealtime.studies.realtime.terminal.tables import render

        own = self.own(summary)
        return with_circumstances(render(own), summary, own)

    def measurement(self, cell: "RealTimeCell", figure: str) -> "Measurement":
        """Give the share of missed deadlines, over all jobs and in each repetition."""
        from stealtime.report.claims.measurement import Measurement

        if figure != "missed_share":
            raise ValueError(f"{figure!r} is no figure of {self.name}")
        return Measurement(
            value=None if cell.missed_share is None else cell.missed_share.share,
            of_repetitions=tuple(one.missed / one.released for one in cell.repetitions if one.released),
        )

    def tail_series(self, cell: "RealTimeCell", trials: "Sequence[Trial]") -> "TailSeries | None":
        """Give the start latencies of the most urgent task."""
        from stealtime.studies.realtime.analysis.tail_series import tail_series

        return tail_series(cell, trials)

    def explanation(self, run: "Run") -> "RenderableType | None":
        """Split start latencies of traced trials into parts."""
        from stealtime.studies.realtime.analysis.decomposition import decompose
        from stealtime.studies.realtime.analysis.overhead_source import measured_trials
        from stealtime.studies.realtime.analysis.tracing_shift import tracing_sentences
        from stealtime.studies.realtime.terminal.parts import render_parts

        measured = measured_trials(run)
        parts = decompose(measured.of_condition)
        return render_parts(parts, measured.unmeasured, tracing_sentences(run)) if parts else None

    def section(self, run: "Run", summary: "RunSummary") -> "Section":
        """Draw missed deadlines, overheads, latencies in parts and curves."""
        from stealtime.studies.realtime.analysis.gathered import gather
        from stealtime.studies.realtime.page.section import section

        return section(self.own(summary), gather(run))

    def measured_overheads(self, run: "Run") -> "MeasuredOverheads":
        """Give what the kernels of a run took, by machine and number of tasks, and what could not be measured."""
        from stealtime.studies.realtime.analysis.overhead_source import measured_overheads

        return measured_overheads(run)

    def compare_cells(self, a: "RealTimeCell", b: "RealTimeCell") -> "CellComparison":
        """Compare latencies and missed deadlines."""
        from stealtime.studies.realtime.analysis.compare import compare_cells

        return compare_cells(a, b)


STUDY = RealTimeStudy()
