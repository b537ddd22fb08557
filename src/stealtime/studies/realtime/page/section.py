"""The part of the report that is about real time."""

from collections.abc import Sequence

from markupsafe import Markup

from stealtime.report import notation
from stealtime.report.page.section import Section
from stealtime.studies.realtime.analysis.model import RealTimeCell
from stealtime.studies.realtime.wording import NOTES, set_words


def section(cells: Sequence[RealTimeCell]) -> Section:
    """Draw the table of missed deadlines."""
    rows = [
        (
            set_words(cell),
            cell.scenario,
            cell.platform,
            str(cell.released),
            str(cell.missed),
            notation.ABSENT if cell.urgent_latency_ns is None else notation.duration(cell.urgent_latency_ns.max),
        )
        for cell in cells
    ]
    head = ("task set", "scenario", "platform", "jobs", "missed", "latest start of the most urgent task")
    header = Markup("").join(Markup("<th>{}</th>").format(name) for name in head)
    lines = (Markup("").join(Markup("<td>{}</td>").format(word) for word in row) for row in rows)
    table = Markup("").join(Markup("<tr>{}</tr>").format(line) for line in lines)
    body = Markup('<section id="deadlines"><h2>Deadlines</h2><p>{}</p><table><tr>{}</tr>{}</table></section>').format(
        " ".join(NOTES), header, table
    )
    return Section(
        question="Are deadlines met?",
        links=(("deadlines", "Deadlines"),),
        body=body,
        contents="no single jobs: they are in the run's folder, and `stealtime export` writes them",
    )
