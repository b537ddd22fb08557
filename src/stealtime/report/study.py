"""The interface of a study: what is computed and shown of its trials. The laboratory uses nothing else of it."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

from stealtime.campaigns.study import Study

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stealtime.report.answer import Answer
    from stealtime.report.catalogue.model import Catalogue
    from stealtime.report.cells.model import CellFigures
    from stealtime.report.claims.measurement import Measurement, SeenPeriods
    from stealtime.report.claims.statements import JudgedStatement
    from stealtime.report.comparison import CellComparison
    from stealtime.report.interval import Interval
    from stealtime.report.marks import Track, TrialMarks
    from stealtime.report.moment import Moment
    from stealtime.report.page.section import Section
    from stealtime.report.summary import RunSummary
    from stealtime.report.tails.series import TailSeries
    from stealtime.store.host_line import HostLine
    from stealtime.store.run import Run, Trial


class ReportedStudy(Study):
    """One question, with its own probes, results, analysis and pages.

    What computes and draws is named by :func:`late`. One whose figures are declared extends
    ``report.catalogue.study.CatalogueStudy``, which has all of the rest.
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
        return [cell for cell in summary.cells_of(self.figures) if cell.study == self.name]

    def answer(self, summary: "RunSummary") -> "Answer":
        """Give its verdict on its cells of a run, at least one: it stands before everything else."""
        from stealtime.report.answer_of_lines import answer_of_lines

        return answer_of_lines(self.name, summary, self.own(summary))

    @abstractmethod
    def tables(self, summary: "RunSummary") -> "RenderableType":
        """Give what is printed of its cells."""

    def overview(self, summary: "RunSummary") -> "RenderableType":
        """Give what is printed where not all is asked for: what of ``tables`` has room on a screen."""
        return self.tables(summary)

    @abstractmethod
    def measurement(self, cell: Any, figure: str) -> "Measurement":
        """Give a figure of one of its cells, as its published figures name it, so that it can stand beside theirs."""

    def periods(self, cell: Any) -> "SeenPeriods | None":
        """Give what comes again after a time in one of its cells; None where nobody looks for that."""
        return None

    def judged_statements(self, run: "Run", words: Mapping[str, str]) -> "Sequence[JudgedStatement]":
        """Judge what others say in words by a run, each statement by its name and of each machine that it is about."""
        return ()

    def tail_series(self, cell: Any, trials: "Sequence[Trial]") -> "TailSeries | None":
        """Give the values of a cell whose tail can be estimated, by its measured trials in order; None without any."""
        return None

    def explanation(self, run: "Run") -> "RenderableType | None":
        """Give what takes longer to find out than ``tables``; None where there is nothing to explain."""
        return None

    def moment(self, trial: "Trial") -> "Moment | None":
        """Explain the first sample of a trial over the threshold of ``run --on-threshold``; None without one."""
        return None

    def intervals(self, cell: Any) -> "Mapping[str, Interval]":
        """Give the figures of one of its cells that have an interval, each with the value that the interval is of."""
        found: Mapping[str, Interval] = cell.intervals
        return found

    def host_line(self, trial: "Trial") -> "HostLine | None":
        """Give where a trial lies on the host's clock, where its record alone does not tell; None where it does."""
        return None

    def marks(self, trial: "Trial", line: "HostLine", root: "Track") -> "TrialMarks":
        """Draw a trial on the run's time line, by ``export --perfetto``, below the track of the trial."""
        from stealtime.report.marks import TrialMarks

        return TrialMarks(line)

    @abstractmethod
    def section(self, run: "Run", summary: "RunSummary") -> "Section":
        """Draw its part of the report; ``run`` holds its own trials alone, ``summary`` the figures of the whole run."""

    @abstractmethod
    def compare_cells(self, a: Any, b: Any) -> "CellComparison":
        """Compare one of its cells, as ``figures`` hold it, in two runs."""


class _Late:
    """A part of a study, by the place of its module within the package of the study."""

    def __init__(self, place: str) -> None:
        self._module, _, self._name = place.partition(":")

    def __set_name__(self, study: type, _attribute: str) -> None:
        if not self._module.startswith("stealtime."):
            self._module = f"{study.__module__.rpartition('.')[0]}.{self._module}"

    def __get__(self, study: object | None, _class: type) -> Any:
        return self if study is None else getattr(import_module(self._module), self._name)


def late(place: str) -> Any:
    """Have a study use a part of its package that is loaded once it is asked for: a run needs nothing that draws.

    Args:
        place: ``MODULE:NAME``, such as ``analysis.cell:summarize_cell``; one that begins with ``stealtime.`` is in
            another room. A function is called without the study.
    """
    return _Late(place)
