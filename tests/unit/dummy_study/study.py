"""How the study is registered, and what it shows."""

from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.table import Table

from dummy_study.probe import ECHO
from dummy_study.results import EchoFigures, compare_cells, figures_of, measurement
from dummy_study.stored import Echoes
from stealtime.campaigns.probe import Probe
from stealtime.report.claims.measurement import Measurement
from stealtime.report.comparison import CellComparison
from stealtime.report.page.section import Section
from stealtime.report.plain_table import cell_title, new_table
from stealtime.report.summary import RunSummary
from stealtime.report.terminal.circumstances import circumstances, limits
from stealtime.store.model import TrialRecord
from stealtime.store.run import Run, Trial


class DummyStudy:
    name = "echo"
    probes: tuple[Probe, ...] = (ECHO,)
    campaigns: Traversable = resources.files("dummy_study") / "campaigns"
    published: Traversable = resources.files("dummy_study") / "published"
    figures = EchoFigures

    def unusable(self, records: Sequence[TrialRecord]) -> Sequence[Sequence[str]]:
        return [()] * len(records)

    def summarize_cell(self, trials: Sequence[Trial]) -> EchoFigures:
        return figures_of(trials)

    def relate(self, cells: Sequence[EchoFigures]) -> Sequence[EchoFigures]:
        return cells

    def tables(self, summary: RunSummary) -> RenderableType:
        table = _table("Echoes", [(cell, sum(cell.echoes)) for cell in _own(summary)])
        return Group(table, *circumstances(summary), *limits(_own(summary)))

    def measurement(self, cell: EchoFigures, figure: str) -> Measurement:
        return measurement(cell, figure)

    def explanation(self, run: Run) -> RenderableType | None:
        return f"{len(run.measured)} trials echoed for want of a reply"

    def section(self, run: Run, summary: RunSummary) -> Section:
        total = sum(trial.result(Echoes).came_back for trial in run.measured)
        body = Markup('<section id="echoes"><h2>Echoes</h2><p>{} came back.</p></section>').format(total)
        return Section(question="What comes back?", links=(("echoes", "Echoes"),), body=body, contents="no echo at all")

    def compare_cells(self, a: EchoFigures, b: EchoFigures) -> CellComparison:
        return compare_cells(a, b)


def _own(summary: RunSummary) -> list[EchoFigures]:
    return [cell for cell in summary.cells if isinstance(cell, EchoFigures)]


def _table(title: str, rows: list[tuple[EchoFigures, int]]) -> Table:
    table = new_table(title)
    table.add_column("platform")
    table.add_column("cell")
    table.add_column("echoes", justify="right")
    for cell, count in rows:
        table.add_row(cell.platform, cell_title(cell.probe, cell.parameters), str(count))
    return table


STUDY = DummyStudy()
