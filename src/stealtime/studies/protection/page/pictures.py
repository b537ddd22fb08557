"""What the page shows of protection beside its tables: a failover as a time line, round trips by mode. Pure."""

from collections.abc import Sequence

from markupsafe import Markup

from stealtime.report import notation
from stealtime.report.page.dot_figure import (
    DotFigure,
    Group,
    Row,
    draw_dots,
    log_duration_axis,
    logarithm,
    time_axis,
)
from stealtime.report.page.section import Pictures
from stealtime.report.page.templates import rendered, templates_of
from stealtime.report.palette import distinct_looks
from stealtime.report.plain_table import cell_title
from stealtime.studies.protection.figures import ProtectionFigures

_PROTOCOLS = ("tcp", "udp")


def pictures(cells: Sequence[ProtectionFigures]) -> Pictures:
    values = {
        "failover": failover_figure([cell for cell in cells if cell.probe == "failover"]),
        "round_trips": round_trip_figure([cell for cell in cells if cell.probe == "roundtrip"]),
        "draw_dots": draw_dots,
    }
    if values["failover"] is None and values["round_trips"] is None:
        return Pictures()
    body: Markup = rendered(templates_of("stealtime.studies.protection.page"), "pictures.html.jinja", values)
    return Pictures(body=body)


def failover_figure(cells: Sequence[ProtectionFigures]) -> DotFigure | None:
    """Draw of each cell the failover whose silence is the middle one, all from the fault on one axis."""
    lines = [(cell, line) for cell in cells if (line := _middle(cell)) is not None]
    if not lines:
        return None
    moments = [
        0.0,
        *(end for _, rows in lines for row in rows for end in (row.at, row.low, row.high) if end is not None),
    ]
    names = _names([cell for cell, _ in lines])
    axis = time_axis("since the fault", moments, notation.signed_duration)
    groups = tuple(Group(name, tuple(rows)) for name, (_, rows) in zip(names, lines, strict=True))
    return DotFigure("Time line of a failover", axis, groups, level=0.0)


def _middle(cell: ProtectionFigures) -> list[Row] | None:
    """Give the rows of one repetition: all figures of it, not of each the median, so that they belong together."""
    silences = cell.figure("silence_tcp_ns").of_repetitions
    if not silences:
        return None
    number = sorted(range(len(silences)), key=lambda index: silences[index])[len(silences) // 2]

    def value(name: str) -> float | None:
        found = cell.figure(name).of_repetitions
        # Where only some repetitions have it, nobody knows which of them these are.
        return found[number] if len(found) == len(silences) else None

    rows = [Row("host dies", "0", 0.0)]
    running, decided = value("fault_to_running_ns"), value("decision_to_running_ns")
    if running is not None and decided is not None:
        rows.append(Row("standby decides", notation.signed_duration(running - decided), running - decided))
    if running is not None:
        rows.append(Row("guest runs", notation.signed_duration(running), running))
    return [
        *rows,
        *(_silence(name, value(f"silence_{name}_ns"), value(f"fault_to_answer_{name}_ns")) for name in _PROTOCOLS),
    ]


def _silence(protocol: str, length: float | None, end: float | None) -> Row:
    name = f"{protocol.upper()} silent"
    if length is None:
        return Row(name, "not known")
    words = notation.duration(length, 3)
    if end is None:
        return Row(name, f"{words}; when was not stored")
    return Row(name, f"{words}, until {notation.signed_duration(end)}", low=end - length, high=end)


def round_trip_figure(cells: Sequence[ProtectionFigures]) -> DotFigure | None:
    """Draw median and 99th percentile by mode, the unprotected guest first, TCP and UDP apart on one axis."""
    ordered = sorted(cells, key=lambda cell: (cell.platform, cell.figure("tcp_p50_ns").p50 or 0.0))
    trips = [
        (cell, protocol, middle, end)
        for protocol in _PROTOCOLS
        for cell in ordered
        if (middle := cell.figure(f"{protocol}_p50_ns").p50) and (end := cell.figure(f"{protocol}_p99_ns").p50)
    ]
    if not trips:
        return None
    names = dict(zip((cell.key for cell in ordered), _names(ordered), strict=True))
    looks = dict(zip(names, distinct_looks(len(names)), strict=True))
    groups = [
        Group(
            protocol.upper(),
            tuple(
                Row(
                    names[cell.key],
                    f"{notation.duration(middle, 3)}; 99 % within {notation.duration(end, 3)}",
                    at=logarithm(middle),
                    low=logarithm(middle),
                    high=logarithm(end),
                    look=looks[cell.key],
                )
                for cell, own, middle, end in trips
                if own == protocol
            ),
        )
        for protocol in _PROTOCOLS
    ]
    axis = log_duration_axis("round trip", [one for _, _, middle, end in trips for one in (middle, end)])
    return DotFigure("Round trips by mode", axis, tuple(groups))


def _names(cells: Sequence[ProtectionFigures]) -> list[str]:
    """Name cells by what differs: how they are protected, and the platform where there are several."""
    titles = [cell_title(cell.probe, cell.parameters).removeprefix(cell.probe).strip() for cell in cells]
    if len({cell.platform for cell in cells}) == 1:
        return titles
    return [f"{cell.platform} {title}" for cell, title in zip(cells, titles, strict=True)]
