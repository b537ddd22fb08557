"""What the report shows of stretch: measured beside predicted, where the seconds went, and the tables of both."""

from collections.abc import Sequence

from stealtime.report.page.section import Section
from stealtime.report.page.tables import folded_html_of, html_of
from stealtime.report.page.templates import rendered, source, templates_of
from stealtime.report.summary import RunSummary
from stealtime.store.run import Run
from stealtime.studies.stretch.analysis.model import StretchCell
from stealtime.studies.stretch.analysis.recorded import Recording, recordings_of
from stealtime.studies.stretch.page import figures, inside, over_time
from stealtime.studies.stretch.rows import Work, works_of


def section_of(run: Run, summary: RunSummary) -> Section:
    return section(summary.cells_of(StretchCell), recordings_of(run))


def section(cells: Sequence[StretchCell], recordings: Sequence[Recording | None]) -> Section:
    """Draw cells that are related.

    Args:
        cells: All of a run.
        recordings: Of the counters of the host beside each of them, in their order.
    """
    templates = templates_of("stealtime.studies.stretch.page")
    beside = dict(zip((cell.key for cell in cells), recordings, strict=True))
    values = {
        "works": [_Drawn(work, [beside[cell.key] for cell in work.cells]) for work in works_of(cells)],
        "html_of": html_of,
        "folded_html_of": folded_html_of,
        "legend": figures.legend(),
        "over_time": over_time,
    }
    return Section(
        question="How much longer does work take in a virtual machine?",
        links=(
            ("stretch", "Stretch"),
            ("lost-seconds", "Lost seconds"),
            ("predicted", "Predicted"),
            ("provisioning", "Provisioning"),
        ),
        body=rendered(templates, "stretch.html.jinja", values),
        style=source(templates, "stretch.css"),
        contents="of contention, the figures of each cell; iterations and counters are in the run's Parquet files",
    )


class _Drawn:
    """A kind of work with its figures.

    Attributes:
        tables: Of its cells.
        recordings: Beside each of its cells, in their order.
    """

    def __init__(self, work: Work, recordings: list[Recording | None]) -> None:
        self.tables, cells = work, work.cells
        self.stretch, self.lost = figures.stretch_figure(cells), figures.lost_figure(cells)
        self.over_time = over_time.charts(cells, recordings)
        told = [(cell.title, one.inside) for cell, one in zip(cells, recordings, strict=True) if one is not None]
        drawn = [(title, inside.panels(one), inside.missing(one)) for title, one in told]
        self.inside = [(title, panels, missing) for title, panels, missing in drawn if panels]
