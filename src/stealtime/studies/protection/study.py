"""How the study of protection is registered. What it computes and shows is loaded once that is asked for."""

from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from stealtime.campaigns.probe import Probe
from stealtime.studies.protection.probes import PROBES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stealtime.report.claims.measurement import Measurement
    from stealtime.report.comparison import CellComparison
    from stealtime.report.page.section import Section
    from stealtime.report.summary import RunSummary
    from stealtime.store.model import TrialRecord
    from stealtime.store.run import Run, Trial
    from stealtime.studies.protection.figures import ProtectionFigures


class ProtectionStudy:
    """What protection costs, and what a client sees when a host dies."""

    name = "protection"
    probes: tuple[Probe, ...] = PROBES
    published: Traversable | None = None

    @property
    def campaigns(self) -> Traversable:
        """``protection``: failovers and cost."""
        return resources.files("stealtime.studies.protection") / "campaigns"

    @property
    def figures(self) -> "type[ProtectionFigures]":
        """Figures over repetitions."""
        from stealtime.studies.protection.figures import ProtectionFigures

        return ProtectionFigures

    def unusable(self, records: "Sequence[TrialRecord]") -> "Sequence[Sequence[str]]":
        """Say nothing: a trial that has a result counts."""
        return [()] * len(records)

    def summarize_cell(self, trials: "Sequence[Trial]") -> "ProtectionFigures":
        """Put each figure's repetitions together."""
        from stealtime.studies.protection.figures import summarize_cell

        return summarize_cell(trials)

    def relate(self, cells: "Sequence[ProtectionFigures]") -> "Sequence[ProtectionFigures]":
        """Nothing: each cell stands for itself."""
        return cells

    def tables(self, summary: "RunSummary") -> "RenderableType":
        """Give failovers, cost, and cost against an unprotected guest."""
        from stealtime.studies.protection.shown import tables

        return tables(summary)

    def measurement(self, cell: "ProtectionFigures", figure: str) -> "Measurement":
        """Give the median of a figure over the repetitions."""
        from stealtime.report.claims.measurement import Measurement

        found = cell.figure(figure)
        return Measurement(value=found.p50, of_repetitions=tuple(found.of_repetitions))

    def explanation(self, run: "Run") -> "RenderableType | None":
        """Give nothing: the tables say it all."""
        return None

    def section(self, run: "Run", summary: "RunSummary") -> "Section":
        """Draw the tables."""
        from stealtime.studies.protection.shown import section

        return section(summary)

    def compare_cells(self, a: "ProtectionFigures", b: "ProtectionFigures") -> "CellComparison":
        """Compare each figure's repetitions."""
        from stealtime.studies.protection.figures import compare_cells

        return compare_cells(a, b)


STUDY = ProtectionStudy()
