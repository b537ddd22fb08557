"""What the page shows of telephony beside its tables: box plots, CPU against load, each failover as a time line."""

from collections.abc import Sequence

from stealtime.report.page.line_figure import draw
from stealtime.report.page.section import Pictures
from stealtime.report.page.templates import rendered, source, templates_of
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.page import boxes, time_line
from stealtime.studies.telephony.page.calls import Drawn, part_of
from stealtime.studies.telephony.page.cpu import cpu_figure
from stealtime.studies.telephony.wording import is_transcoded, recommendations, server_words


def pictures(cells: Sequence[TelephonyFigures]) -> Pictures:
    drawn = [Drawn(_name(cell), cell.calls) for cell in cells if cell.calls is not None]
    templates = templates_of("stealtime.studies.telephony.page")
    loads = [cell for cell in cells if cell.probe == "register"]
    curves = cpu_figure(loads)
    values = {
        "responses": boxes.response_boxes(loads),
        "cpu": None if curves is None else draw(curves),
        "failovers": time_line.charts(cells),
    }
    return Pictures(
        body=rendered(templates, "telephony.html.jinja", values),
        further=part_of(drawn, recommendations(cells)),
        links=(("calls", "Calls"),) if drawn else (),
        style=source(templates, "telephony.css"),
    )


def _name(cell: TelephonyFigures) -> str:
    return f"{server_words(cell)}, transcoding" if is_transcoded(cell) else server_words(cell)
