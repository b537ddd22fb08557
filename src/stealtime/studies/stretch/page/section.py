"""What the report shows of stretch: tables, measured beside predicted, and where the seconds went."""

from statistics import median

from stealtime.report import notation
from stealtime.report.page.section import Section
from stealtime.report.page.templates import rendered, source, templates_of
from stealtime.studies.stretch import wording
from stealtime.studies.stretch.analysis.lost import PARTS
from stealtime.studies.stretch.analysis.model import StretchCell
from stealtime.studies.stretch.page import figures


def section(cells: list[StretchCell]) -> Section:
    """Draw cells that are related."""
    templates = templates_of("stealtime.studies.stretch.page")
    works = dict.fromkeys(map(wording.work_words, cells))
    groups = [_Group(work, [cell for cell in cells if wording.work_words(cell) == work]) for work in works]
    values = {
        "groups": groups,
        "wording": wording,
        "parts": PARTS,
        "notation": notation,
        "median": median,
        "legend": figures.legend(),
        "figures": figures,
    }
    return Section(
        links=(("stretch", "Stretch"), ("lost-seconds", "Lost seconds"), ("predicted", "Predicted")),
        body=rendered(templates, "stretch.html.jinja", values),
        style=source(templates, "stretch.css"),
        contents="of contention, the figures of each cell; each iteration is in the run's Parquet files",
    )


class _Group:
    """The cells of one kind of work, with their figures.

    Attributes:
        work: The name of the work.
        cells: All of them.
    """

    def __init__(self, work: str, cells: list[StretchCell]) -> None:
        self.work, self.cells = work, cells
        self.axis = figures.stretch_axis(cells)
        self.rows = figures.stretch_rows(cells, self.axis)
        self.lost_axis = figures.lost_axis(cells)
        self.bars = figures.lost_bars(cells, self.lost_axis)
        self.predicted = [cell for cell in cells if cell.predicted is not None and cell.against_alone is not None]
        self.sentences = [
            wording.bases_sentence(cells),
            *wording.not_judged_sentences(cells),
            *wording.invalid_sentences(cells),
        ]
        self.together = [cell for cell in cells if cell.alike]
        self.priorities = wording.priority_sentences(cells)
