"""How the latency study is registered. What it computes and shows is loaded once that is asked for."""

from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

from stealtime.report.study import ReportedStudy
from stealtime.studies.latency.probes.catalogue import PROBES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stealtime.report.claims.measurement import Measurement
    from stealtime.report.comparison import CellComparison
    from stealtime.report.page.section import Section
    from stealtime.report.summary import RunSummary
    from stealtime.report.tails.series import TailSeries
    from stealtime.store.model import TrialRecord
    from stealtime.store.run import Run, Trial
    from stealtime.studies.latency.analysis.model import CellSummary
    from stealtime.vocabulary.service import ObservedService


class LatencyStudy(ReportedStudy):
    """How much longer anything takes in a virtual machine than natively, and whose fault that is."""

    name = "latency"
    probes = tuple(PROBES.values())
    folder = resources.files("stealtime.studies.latency")

    @property
    def figures(self) -> "type[CellSummary]":
        """Statistics of durations."""
        from stealtime.studies.latency.analysis.model import CellSummary

        return CellSummary

    def unusable(self, records: "Sequence[TrialRecord]") -> "Sequence[Sequence[str]]":
        """Say that clocks of different rates count no one series."""
        from stealtime.studies.latency.analysis.clock_rates import unusable

        return unusable(records)

    def summarize_cell(self, trials: "Sequence[Trial]") -> "CellSummary":
        """Compute statistics, periods, clocks and surroundings."""
        from stealtime.studies.latency.analysis.summary import summarize_cell

        return summarize_cell(trials)

    def tables(self, summary: "RunSummary") -> "RenderableType":
        """Give the answer, then every figure."""
        from stealtime.studies.latency.analysis.model import own_part
        from stealtime.studies.latency.terminal.summary import render_summary

        return render_summary(own_part(summary))

    def measurement(self, cell: "CellSummary", figure: str) -> "Measurement":
        """Give the longest sample that no limit explains, or by how much it is over the floor."""
        from stealtime.studies.latency.analysis.claimed import measurement

        return measurement(cell, figure)

    def tail_series(self, cell: "CellSummary", trials: "Sequence[Trial]") -> "TailSeries | None":
        """Give lateness of wake-ups, or what loops take longer than the floor."""
        from stealtime.studies.latency.analysis.tail_series import tail_series

        return tail_series(cell, trials)

    def explanation(self, run: "Run") -> "RenderableType | None":
        """Attribute the traced trials, which takes a second or two each."""
        if not any(trial.record.cell.traced for trial in run.measured):
            return None
        from stealtime.studies.latency.page.causes import gather_causes
        from stealtime.studies.latency.terminal.causes import render_causes

        return render_causes(gather_causes(run))

    def section(self, run: "Run", summary: "RunSummary") -> "Section":
        """Draw the answer, tables, figures and causes."""
        from stealtime.studies.latency.analysis.model import own_part
        from stealtime.studies.latency.page.section import section_of

        return section_of(run, own_part(summary))

    def observed_services(self, run: "Run") -> "list[ObservedService]":
        """Give what the machines of a run got of their CPU while `tick` was busy."""
        from stealtime.studies.latency.analysis.supply import observed_services

        return observed_services(run)

    def compare_cells(self, a: "CellSummary", b: "CellSummary") -> "CellComparison":
        """Compare percentiles and the longest sample."""
        from stealtime.studies.latency.analysis.compare import compare_cells

        return compare_cells(a, b)


STUDY = LatencyStudy()
