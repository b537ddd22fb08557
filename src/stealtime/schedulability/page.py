"""The page of ``stealtime sched curve -o``: one HTML file that needs nothing else and runs no script."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from stealtime import __version__
from stealtime.report.page.file import check_place, write_page
from stealtime.report.page.line_figure import Axis, Line, LineFigure, Point, draw, round_values
from stealtime.report.page.templates import source, templates_of
from stealtime.report.palette import distinct_looks
from stealtime.schedulability import wording
from stealtime.schedulability.document import CurveDocument, CurveShare

_TICKS = 10


def write_curve(document: CurveDocument, command: Sequence[str], path: Path) -> int:
    """Write the page of a curve; a file that is there is replaced when the new one is whole.

    Returns:
        The size in bytes.

    Raises:
        StealtimeError: ``path`` cannot be written.
    """
    check_place(path)
    page = render_curve(document, command).encode()
    write_page(path, page)
    return len(page)


def render_curve(document: CurveDocument, command: Sequence[str]) -> str:
    return (
        templates_of("stealtime.schedulability")
        .get_template("curve.html.jinja")
        .render(
            document=document,
            wording=wording,
            figure=draw(curve_figure(document)),
            command=shlex.join(command),
            version=__version__,
            # A file of this package, not what a user wrote.
            style=Markup(source(templates_of("stealtime.report.page"), "style.css")),  # noqa: S704
        )
    )


def curve_figure(document: CurveDocument) -> LineFigure:
    """Draw the share of schedulable sets against utilization, a line with its band for each condition."""
    last = max(point.utilization for point in document.points)
    looks = distinct_looks(len(document.conditions))
    return LineFigure(
        label="Share of schedulable sets against utilization, for each condition with its confidence band",
        x=Axis("utilization of the tasks", 0.0, last, _percent(round_values(0.0, last, _TICKS))),
        y=Axis("schedulable sets", 0.0, 1.0, _percent(round_values(0.0, 1.0, _TICKS))),
        lines=tuple(
            Line(
                name,
                look,
                tuple(_point(point.utilization, point.conditions[number]) for point in document.points),
            )
            for number, (name, look) in enumerate(zip(document.conditions, looks, strict=True))
        ),
    )


def _point(utilization: float, one: CurveShare) -> Point | None:
    if one.schedulable_share is None:
        return None
    words = f"{wording.share_words(one)} % of the sets of utilization {100 * utilization:g} %"
    return Point(utilization, one.schedulable_share, words, one.low, one.high)


def _percent(values: Sequence[float]) -> tuple[tuple[float, str], ...]:
    return tuple((value, f"{100 * value:g} %") for value in values)
