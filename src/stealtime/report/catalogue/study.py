"""A study that declares its figures: whatever the laboratory asks of it follows from its catalogue."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stealtime.report.catalogue.shown import ShownStudy
from stealtime.report.study import ReportedStudy, late

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stealtime.report.answer import Answer
    from stealtime.report.catalogue.cell import CatalogueCell
    from stealtime.report.claims.measurement import Measurement
    from stealtime.report.page.section import Section
    from stealtime.report.summary import RunSummary
    from stealtime.store.model import TrialRecord
    from stealtime.store.run import Run, Trial


class CatalogueStudy(ShownStudy, ReportedStudy):
    """A study by its probes and its catalogue; what computes and draws is loaded once that is asked for."""

    figures = late("cell:CountedCell")
    compare_cells = late("comparison:compare_cells")

    def unusable(self, records: "Sequence[TrialRecord]") -> "Sequence[Sequence[str]]":
        from stealtime.report.catalogue.validity import unusable

        return unusable(self.catalogue, records)

    def summarize_cell(self, trials: "Sequence[Trial]") -> "CatalogueCell":
        from stealtime.report.catalogue.cell import summarize_cell

        return summarize_cell(self.name, self.catalogue, self.figures, trials)

    def answer(self, summary: "RunSummary") -> "Answer":
        from stealtime.report.catalogue.answer import answer_of

        return answer_of(self, summary, self.own(summary))

    def tables(self, summary: "RunSummary") -> "RenderableType":
        from stealtime.report.catalogue.terminal import report_of
        from stealtime.report.terminal.circumstances import with_circumstances

        own = self.own(summary)
        return with_circumstances(report_of(self, own), summary, own)

    def overview(self, summary: "RunSummary") -> "RenderableType":
        from stealtime.report.catalogue.rows import short_tables_of
        from stealtime.report.terminal.short import overview

        own = self.own(summary)
        return overview(*short_tables_of(self, own), own)

    def section(self, _run: "Run", summary: "RunSummary") -> "Section":
        from stealtime.report.catalogue.page import section_of

        return section_of(self, self.own(summary))

    def measurement(self, cell: Any, figure: str) -> "Measurement":
        from stealtime.report.claims.measurement import Measurement

        found = cell.figure(figure)
        return Measurement(value=found.p50, of_repetitions=tuple(found.of_repetitions))
