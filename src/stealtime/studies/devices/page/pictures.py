"""What the page shows above the tables: the way of requests as stacked bars, and how long they took. Pure."""

from collections.abc import Sequence

from markupsafe import Markup

from stealtime.report import notation
from stealtime.report.page.bar_figure import Bar, BarFigure, Part, draw_bars
from stealtime.report.page.dot_figure import DotFigure, Group, Row, draw_dots, log_duration_axis, logarithm
from stealtime.report.page.line_figure import Axis, round_values
from stealtime.report.page.section import Pictures
from stealtime.report.page.templates import rendered, templates_of
from stealtime.report.palette import distinct_looks
from stealtime.studies.devices.catalogue import part_figure
from stealtime.studies.devices.figures import DeviceFigures
from stealtime.studies.devices.rows import short_words
from stealtime.studies.devices.wording import STAGES


def pictures(cells: Sequence[DeviceFigures]) -> Pictures:
    values = {
        "ways": way_figure(cells),
        "percentiles": percentile_figure(cells),
        "draw_bars": draw_bars,
        "draw_dots": draw_dots,
    }
    if values["ways"] is None and values["percentiles"] is None:
        return Pictures()
    body: Markup = rendered(templates_of("stealtime.studies.devices.page"), "pictures.html.jinja", values)
    return Pictures(body=body)


def way_figure(cells: Sequence[DeviceFigures]) -> BarFigure | None:
    """Draw the mean request of each cell, a piece for each stage of its way."""
    bars = [bar for cell in cells if (bar := _bar(cell)) is not None]
    if not bars:
        return None
    # Room for the words at a bar's end.
    high = 1.15 * max(sum(part.value for part in bar.parts) for bar in bars)
    ticks = tuple(
        (value, notation.trimmed_duration(round(value)) if value else "0") for value in round_values(0, high, 6)
    )
    there = {part.name for bar in bars for part in bar.parts}
    looks = zip(STAGES, distinct_looks(len(STAGES)), strict=True)
    return BarFigure(
        "The way of a request, in the mean",
        Axis("mean of all transfers", 0.0, high, ticks),
        tuple(bars),
        {stage: look for stage, look in looks if stage in there},
    )


def _bar(cell: DeviceFigures) -> Bar | None:
    stages = {
        stage: sum(cell.figure(part_figure(part)).p50 or 0.0 for part in parts) for stage, parts in STAGES.items()
    }
    parts = [Part(stage, value, notation.duration(value, 3)) for stage, value in stages.items() if value]
    if not parts:
        return None
    return Bar(_name(cell), tuple(parts), notation.duration(sum(part.value for part in parts), 3))


def percentile_figure(cells: Sequence[DeviceFigures]) -> DotFigure | None:
    """Draw the median of each cell and the line up to the 99th percentile, by scenario."""
    found = [
        (cell, middle, end)
        for cell in cells
        if (middle := cell.figure("p50_ns").p50) and (end := cell.figure("p99_ns").p50)
    ]
    if not found:
        return None
    names = list(dict.fromkeys(_device(cell) for cell, _, _ in found))
    looks = dict(zip(names, distinct_looks(len(names)), strict=True))
    groups = []
    for scenario in dict.fromkeys(cell.scenario for cell, _, _ in found):
        rows = [
            Row(
                _device(cell),
                f"{notation.duration(middle, 3)}; 99 % within {notation.duration(end, 3)}",
                at=logarithm(middle),
                low=logarithm(middle),
                high=logarithm(end),
                look=looks[_device(cell)],
            )
            for cell, middle, end in found
            if cell.scenario == scenario
        ]
        groups.append(Group(scenario, tuple(rows)))
    axis = log_duration_axis("transfer", [one for _, middle, end in found for one in (middle, end)])
    return DotFigure("How long transfers take", axis, tuple(groups))


def _device(cell: DeviceFigures) -> str:
    return f"{cell.platform} {short_words(cell)}"


def _name(cell: DeviceFigures) -> str:
    return f"{_device(cell)} ({cell.scenario.removeprefix('device-')})"
