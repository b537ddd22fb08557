"""What the report shows of stretch: tables, measured beside predicted, and where the seconds went."""

from collections.abc import Sequence
from statistics import median

from stealtime.report import notation
from stealtime.report.page.section import Section
from stealtime.report.page.tables import html_of
from stealtime.report.page.templates import rendered, source, templates_of
from stealtime.studies.stretch import wording
from stealtime.studies.stretch.analysis.model import StretchCell
from stealtime.studies.stretch.analysis.recorded import Recording
from stealtime.studies.stretch.page import figures, over_time
from stealtime.studies.stretch.rows import guests_table, lost_table, prediction_table


def section(cells: Sequence[StretchCell], recordings: Sequence[Recording | None]) -> Section:
    """Draw cells that are related.

    Args:
        cells: All of a run.
        recordings: Of the counters of the host beside each of them, in their order.
    """
    templates = templates_of("stealtime.studies.stretch.page")
    works: dict[str, list[tuple[StretchCell, Recording | None]]] = {}
    for cell, recording in zip(cells, recordings, strict=True):
        works.setdefault(wording.work_words(cell), []).append((cell, recording))
    groups = [_Group(work, [cell for cell, _ in own], [one for _, one in own]) for work, own in works.items()]
    values = {
        "groups": groups,
        "wording": wording,
        "html_of": html_of,
        "notation": notation,
        "median": median,
        "legend": figures.legend(),
        "figures": figures,
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


class _Group:
    """The cells of one kind of work, with their figures.

    Attributes:
        work: The name of the work.
        cells: All of them.
        recordings: Beside each of them, in their order.
    """

    def __init__(self, work: str, cells: list[StretchCell], recordings: list[Recording | None]) -> None:
        self.work, self.cells = work, cells
        self.axis = figures.stretch_axis(cells)
        self.rows = figures.stretch_rows(cells, self.axis)
        self.lost_axis = figures.lost_axis(cells)
        self.bars = figures.lost_bars(cells, self.lost_axis)
        self.guests, self.lost, self.predictions = guests_table(cells), lost_table(cells), prediction_table(cells)
        self.provisioned = [cell for cell in cells if cell.provisioning]
        self.over_time = over_time.charts(cells, recordings)
        self.sentences = [
            wording.bases_sentence(cells),
            *wording.not_judged_sentences(cells),
            *wording.invalid_sentences(cells),
        ]
        self.priorities = wording.priority_sentences(cells)
