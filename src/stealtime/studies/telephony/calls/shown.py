"""What is shown of calls beside the study's tables: the recommendation, the box plots and the failovers."""

from collections.abc import Sequence

from markupsafe import Markup

from stealtime.report.page.templates import rendered, source, templates_of
from stealtime.studies.telephony.calls.pictures import (
    Drawn,
    delay_figure,
    draw_boxes,
    draw_time_line,
    loss_figure,
    time_line,
)
from stealtime.studies.telephony.calls.recommendation import Recommendation

VOICE_NOTE = (
    "Callers and phones both speak; a stream is the voice of one of them. Delay (one way), loss and MOS (ITU-T G.107) "
    "are of all streams, by the stamps of both ends, outside of the server. Packets are late if they come 60 ms after "
    "the fastest, as a phone's buffer has it."
)
RECOMMENDED = "What this run speaks for"


def recommendation_lines(found: Sequence[Recommendation]) -> list[str]:
    """Give a line for each load, and one for each bar."""
    lines = []
    for one in found:
        lines.append(f"{one.title}: {one.text}")
        lines += [f"  {judgement.text}" for judgement in one.judgements]
    return lines


def page_part(cells: Sequence[Drawn], found: Sequence[Recommendation]) -> Markup:
    """Draw the part of the page that is about calls; nothing where there are none."""
    if not cells:
        return Markup()
    quiet = [cell for cell in cells if cell.figures.failover is None]
    figures = (
        ("Delay of the voice", delay_figure(quiet), "of all packets; the scale is logarithmic"),
        ("Loss of voice", loss_figure(quiet), "of each stream"),
    )
    values = {
        "boxes": [(title, figure, what) for title, figure, what in figures if figure is not None],
        "failovers": [time_line(cell.name, cell.figures.failover) for cell in cells if cell.figures.failover],
        "recommended": found,
        "heading": RECOMMENDED,
        "note": VOICE_NOTE,
        "draw_boxes": draw_boxes,
        "draw_time_line": draw_time_line,
    }
    return rendered(templates_of("stealtime.studies.telephony.calls"), "calls.html.jinja", values)


def page_style() -> str:
    """Give the styles of that part."""
    return source(templates_of("stealtime.studies.telephony.calls"), "calls.css")
