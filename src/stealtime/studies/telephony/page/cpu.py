"""CPU against load, as in the source's figures 2 and 3. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from stealtime.report.page.line_figure import Axis, Line, LineFigure, Point, round_values
from stealtime.report.palette import distinct_looks
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.parameters import ServerParameters
from stealtime.studies.telephony.wording import cell_words, server_words, transport_words

_LOAD = "offered_per_s"
_SIDES = (("server_cpu_percent", "server", "solid"), ("host_cpu_percent", "host side", "dash"))
"""Both lines of a server have its colour."""


def cpu_figure(cells: Sequence[TelephonyFigures]) -> LineFigure | None:
    """Draw the CPU of server and host side against registrations a second; None where nothing is to be drawn.

    A server of another size, state or weight is left out where it had one load alone: tables tell of it.
    """
    all_groups: dict[str, list[TelephonyFigures]] = {}
    for cell in cells:
        if cell.figure("server_cpu_percent").p50 is not None:
            all_groups.setdefault(f"{server_words(cell)}, {transport_words(cell)}", []).append(cell)
    groups = {name: own for name, own in all_groups.items() if len(own) > 1 or ServerParameters.of(own[0]).is_usual}
    if not groups:
        return None
    lines = [
        Line(f"{name}: {words}", replace(look, dash=dash), points)
        for (name, own), look in zip(groups.items(), distinct_looks(len(groups)), strict=True)
        for figure, words, dash in _SIDES
        if (points := _points(own, figure))
    ]
    found = [point for line in lines for point in line.points if point is not None]
    return LineFigure(
        "CPU of server and host side against registrations a second",
        _axis("registrations a second", max(point.x for point in found), ""),
        _axis("of one CPU", max(point.y for point in found), " %"),
        tuple(lines),
    )


def _points(cells: Sequence[TelephonyFigures], figure: str) -> tuple[Point, ...]:
    points = [
        Point(load, percent, f"{cell_words(cell)}: {percent:.3g} % at {load:.0f}/s")
        for cell in cells
        if (load := cell.figure(_LOAD).p50) is not None and (percent := cell.figure(figure).p50) is not None
    ]
    return tuple(sorted(points, key=lambda point: point.x))


def _axis(title: str, largest: float, unit: str) -> Axis:
    high = 1.05 * max(largest, 1.0)
    return Axis(title, 0.0, high, tuple((value, f"{value:,g}{unit}") for value in round_values(0.0, high, 6)))
