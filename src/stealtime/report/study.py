"""The interface of a study: what is computed and shown of its trials. The laboratory uses nothing else of it."""

from abc import abstractmethod
from collections.abc import Sequence
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

from stealtime.campaigns.study import Study

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stealtime.report.catalogue.model import Catalogue
    from stealtime.report.cells.model import CellFigures
    from stealtime.report.claims.measurement import Measurement
    from stealtime.report.comparison import CellComparison
    from stealtime.report.page.section import Section
    from stealtime.report.summary import RunSummary
    from stealtime.report.tails.series import TailSeries
    from stealtime.store.run import Run, Trial


class ReportedStudy(Study):
    """One question, with its own probes, results, analysis and pages.

    One whose figures are declared extends ``report.catalogue.study.CatalogueStudy``, which has all of the rest.
    """

    @property
    def published(self) -> Traversable | None:
        """The folder of figures that others have published, a TOML and a CSV file each; None where it has none."""
        folder = self.folder / "published"
        return folder if folder.is_dir() else None

    @property
    def catalogue(self) -> "Catalogue | None":
        """What its figures are; None where they are not declared but computed by itself."""
        return None

    @property
    @abstractmethod
    def figures(self) -> "type[CellFigures]":
        """What its cells hold; the key ``study`` of it is the name of the study."""

    @abstractmethod
    def summarize_cell(self, trials: "Sequence[Trial]") -> "CellFigures":
        """Compute the figures of one of its cells from all its trials, at least one."""

    def relate(self, cells: Sequence[Any]) -> "Sequence[CellFigures]":
        """Complete its cells of one run, as ``summarize_cell`` gave them, by what one of them alone does not tell."""
        return cells

    def own(self, summary: "RunSummary") -> list[Any]:
        """Give its cells of a run."""
        return [cell for cell in summary.cells if isinstance(cell, self.figures) and cell.study == self.name]

    @abstractmethod
    def tables(self, summary: "RunSummary") -> "RenderableType":
        """Give what is printed of its cells."""

    @abstractmethod
    def measurement(self, cell: Any, figure: str) -> "Measurement":
        """Give a figure of one of its cells, as its published figures name it, so that it can stand beside theirs."""

    def tail_series(self, cell: Any, trials: "Sequence[Trial]") -> "TailSeries | None":
        """Give the values of a cell whose tail can be estimated, by its measured trials in order; None without any."""
        return None

    def explanation(self, run: "Run") -> "RenderableType | None":
        """Give what takes longer to find out than ``tables``; None where there is nothing to explain."""
        return None

    @abstractmethod
    def section(self, run: "Run", summary: "RunSummary") -> "Section":
        """Draw its part of the report; ``run`` holds its own trials alone, ``summary`` the figures of the whole run."""

    @abstractmethod
    def compare_cells(self, a: Any, b: Any) -> "CellComparison":
        """Compare one of its cells, as ``figures`` hold it, in two runs."""
