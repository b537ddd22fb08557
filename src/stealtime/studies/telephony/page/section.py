"""What the report shows of telephony: tables, box plots, CPU against load, and each failover as a time line."""

from collections.abc import Sequence

from markupsafe import Markup

from stealtime.report.page.line_figure import draw
from stealtime.report.page.section import Section
from stealtime.report.page.templates import rendered, source, templates_of
from stealtime.studies.telephony.calls.pictures import Drawn
from stealtime.studies.telephony.calls.shown import page_part, page_style
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.page import boxes, time_line
from stealtime.studies.telephony.page.cpu import cpu_figure
from stealtime.studies.telephony.terminal.tables import tables_of
from stealtime.studies.telephony.wording import QUESTION, cell_words, explanations, recommendations, server_words


def section(cells: Sequence[TelephonyFigures]) -> Section:
    """Draw all cells of a run."""
    if not cells:
        return Section(question=QUESTION, links=(), body=Markup())
    drawn = [Drawn(server_words(cell), cell.calls) for cell in cells if cell.calls is not None]
    templates = templates_of("stealtime.studies.telephony.page")
    loads = [cell for cell in cells if cell.probe == "register"]
    curves = cpu_figure(loads)
    values = {
        "tables": tables_of(cells),
        "remarks": [
            *explanations(cells),
            *(f"{cell_words(cell)}: {text}" for cell in cells for text in cell.limits),
        ],
        "figures": boxes,
        "time_line": time_line,
        "responses": boxes.response_boxes(loads),
        "cpu": None if curves is None else draw(curves),
        "failovers": time_line.charts(cells),
    }
    return Section(
        question=QUESTION,
        links=(("telephony", "Telephony"), *((("calls", "Calls"),) if drawn else ())),
        body=rendered(templates, "telephony.html.jinja", values) + page_part(drawn, recommendations(cells)),
        style=source(templates, "telephony.css") + page_style(),
    )
