"""The interface of a study: the laboratory uses nothing else of it."""

from collections.abc import Sequence
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, Protocol

from stealtime.campaigns.probe import Probe

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stealtime.report.cells.model import CellFigures
    from stealtime.report.claims.measurement import Measurement
    from stealtime.report.comparison import CellComparison
    from stealtime.report.page.section import Section
    from stealtime.report.summary import RunSummary
    from stealtime.store.model import TrialRecord
    from stealtime.store.run import Run, Trial


class Study(Protocol):
    """One question, with its own probes, results, analysis and pages."""

    @property
    def name(self) -> str:
        """The name that distinguishes its results from those of other studies."""
        ...

    @property
    def probes(self) -> tuple[Probe, ...]:
        """In the order in which tables and figures show them; no two studies have one of the same name."""
        ...

    @property
    def campaigns(self) -> Traversable:
        """The folder of its builtin campaigns, a TOML file each."""
        ...

    @property
    def published(self) -> Traversable | None:
        """The folder of figures that others have published, a TOML and a CSV file each; None where it has none."""
        ...

    @property
    def figures(self) -> "type[CellFigures]":
        """What its cells hold; the key ``study`` of it is the name of the study."""
        ...

    def unusable(self, records: "Sequence[TrialRecord]") -> "Sequence[Sequence[str]]":
        """Say of each trial of one of its cells why it may not be used, beyond what holds for every study.

        Args:
            records: Of those trials against which nothing speaks so far, in order, without their tables: what only
                tables show, ``summarize_cell`` finds.
        """
        ...

    def summarize_cell(self, trials: "Sequence[Trial]") -> "CellFigures":
        """Compute the figures of one of its cells from all its trials, at least one."""
        ...

    def relate(self, cells: "Sequence[Any]") -> "Sequence[CellFigures]":
        """Complete its cells of one run, as ``summarize_cell`` gave them, by what one of them alone does not tell."""
        ...

    def tables(self, summary: "RunSummary") -> "RenderableType":
        """Give what is printed of its cells."""
        ...

    def measurement(self, cell: Any, figure: str) -> "Measurement":
        """Give a figure of one of its cells, as its published figures name it, so that it can stand beside theirs."""
        ...

    def explanation(self, run: "Run") -> "RenderableType | None":
        """Give what takes longer to find out than ``tables``; None where there is nothing to explain."""
        ...

    def section(self, run: "Run", summary: "RunSummary") -> "Section":
        """Draw its part of the report; ``run`` holds its own trials alone, ``summary`` the figures of the whole run."""
        ...

    def compare_cells(self, a: Any, b: Any) -> "CellComparison":
        """Compare one of its cells, as ``figures`` hold it, in two runs."""
        ...
