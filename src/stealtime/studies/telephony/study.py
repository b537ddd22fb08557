"""How the study of telephony is registered. What it computes and shows is loaded once that is asked for."""

from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from stealtime.campaigns.probe import Probe
from stealtime.studies.telephony.probes import PROBES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stealtime.report.claims.measurement import Measurement
    from stealtime.report.comparison import CellComparison
    from stealtime.report.page.section import Section
    from stealtime.report.summary import RunSummary
    from stealtime.store.model import TrialRecord
    from stealtime.store.run import Run, Trial
    from stealtime.studies.telephony.figures import TelephonyFigures


class TelephonyStudy:
    """What a SIP server carries and costs, and what phones see when its host dies."""

    name = "telephony"
    probes: tuple[Probe, ...] = PROBES

    @property
    def campaigns(self) -> Traversable:
        """``telephony2011``: the evaluation of a protected SIP server."""
        return resources.files("stealtime.studies.telephony") / "campaigns"

    @property
    def published(self) -> Traversable | None:
        """Figures of a protected IP telephony server."""
        return resources.files("stealtime.studies.telephony") / "published"

    @property
    def figures(self) -> "type[TelephonyFigures]":
        """Figures over repetitions."""
        from stealtime.studies.telephony.figures import TelephonyFigures

        return TelephonyFigures

    def unusable(self, records: "Sequence[TrialRecord]") -> "Sequence[Sequence[str]]":
        """Say what speaks against the voice that was heard."""
        from stealtime.studies.telephony.figures import unusable

        return unusable(records)

    def summarize_cell(self, trials: "Sequence[Trial]") -> "TelephonyFigures":
        """Put each figure's repetitions together."""
        from stealtime.studies.telephony.figures import summarize_cell

        return summarize_cell(trials)

    def relate(self, cells: "Sequence[TelephonyFigures]") -> "Sequence[TelephonyFigures]":
        """Nothing: each cell stands for itself."""
        return cells

    def tables(self, summary: "RunSummary") -> "RenderableType":
        """Give a table for each probe."""
        from stealtime.studies.telephony.figures import TelephonyFigures
        from stealtime.studies.telephony.terminal.tables import report_of

        return report_of([cell for cell in summary.cells if isinstance(cell, TelephonyFigures)])

    def measurement(self, cell: "TelephonyFigures", figure: str) -> "Measurement":
        """Give the median of a figure over the repetitions."""
        from stealtime.report.claims.measurement import Measurement

        found = cell.figure(figure)
        return Measurement(value=found.p50, of_repetitions=tuple(found.of_repetitions))

    def explanation(self, run: "Run") -> "RenderableType | None":
        """Give nothing: the tables say it all."""
        return None

    def section(self, run: "Run", summary: "RunSummary") -> "Section":
        """Draw tables, box plots, curves and time lines."""
        from stealtime.studies.telephony.figures import TelephonyFigures
        from stealtime.studies.telephony.page.section import section

        return section([cell for cell in summary.cells if isinstance(cell, TelephonyFigures)])

    def compare_cells(self, a: "TelephonyFigures", b: "TelephonyFigures") -> "CellComparison":
        """Compare each figure's repetitions."""
        from stealtime.studies.telephony.figures import compare_cells

        return compare_cells(a, b)


STUDY = TelephonyStudy()
