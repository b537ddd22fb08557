"""The figures of the page: overheads against the number of tasks, latencies in parts, deadlines missed. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stealtime.report import notation
from stealtime.report.page.bar_figure import Bar, BarFigure
from stealtime.report.page.bar_figure import Part as BarPart
from stealtime.report.page.dot_figure import DotFigure, Group
from stealtime.report.page.dot_figure import Row as DotRow
from stealtime.report.page.line_figure import Axis, Line, LineFigure, Point, decades, duration_axis, round_values
from stealtime.report.palette import distinct_looks, looks_of
from stealtime.schedulability.measured import MeasuredCondition, Statistic, equal_count, statistic_of
from stealtime.studies.realtime.analysis.decomposition import PARTS, Decomposition
from stealtime.studies.realtime.analysis.model import RealTimeCell
from stealtime.studies.realtime.analysis.quantities import taken_of
from stealtime.studies.realtime.wording import describe

OVERHEADS = {
    "scheduling": "Scheduling overhead",
    "context_switch": "Context-switch overhead",
    "event_latency": "Event latency",
    "release": "Release overhead",
}
"""In the order of the figures of Aichouch, Prevotet and Nouvel (2013): 4 and 5, 6 and 7, 8 and 9, 10 and 11."""
_STATISTICS: dict[Statistic, str] = {"average": "average", "worst": "worst"}


@dataclass(frozen=True)
class Row:
    """One overhead: a figure for each machine, side by side on the same axes."""

    title: str
    figures: tuple[tuple[str, LineFigure], ...]
    """By machine."""
    boundary: str | None
    """What the samples are instead, where they begin or end otherwise than the name says."""
    is_finer: bool = False
    """Whether all kernels tell LITMUS^RT's own boundaries, and the samples are those."""


def overhead_rows(conditions: Sequence[MeasuredCondition]) -> list[Row]:
    """Draw average and worst of each overhead against the number of tasks, native first."""
    machines = sorted({one.machine for one in conditions}, key=lambda name: (not name.startswith("native"), name))
    rows = []
    for name, title in OVERHEADS.items():
        taken = taken_of(name, conditions)
        own = [one for one in conditions if taken in one.samples and len(one.samples[taken].ns)]
        if not own:
            continue
        # A maximum of more samples is larger: all are compared on as many as the one with the fewest has.
        count = min(len(one.samples[taken].ns) for one in own)
        values = [_value(one, taken, statistic, count) for one in own for statistic in _STATISTICS]
        x, y = _count_axis([one.tasks for one in own]), duration_axis(title.lower(), values)
        rows.append(
            Row(
                title,
                tuple(
                    (machine, _overhead_figure(f"{title}, {machine}", (x, y), here, taken, count))
                    for machine in machines
                    if (here := [one for one in own if one.machine == machine])
                ),
                next((one.boundaries[taken] for one in own if taken in one.boundaries), None),
                taken != name,
            )
        )
    return rows


def _value(condition: MeasuredCondition, name: str, statistic: Statistic, count: int) -> float:
    return statistic_of(equal_count(condition.samples[name].ns, count, seed=1), statistic)


def _overhead_figure(
    label: str, axes: tuple[Axis, Axis], own: Sequence[MeasuredCondition], name: str, count: int
) -> LineFigure:
    ordered = sorted(own, key=lambda one: one.tasks)
    lines = []
    for (statistic, words), look in zip(_STATISTICS.items(), distinct_looks(len(_STATISTICS)), strict=True):
        points = (_duration_point(one.tasks, _value(one, name, statistic, count), count) for one in ordered)
        lines.append(Line(words, look, tuple(points)))
    return LineFigure(f"{label}, against the number of tasks", *axes, tuple(lines))


def _duration_point(tasks: int, value_ns: float, samples: int) -> Point:
    words = f"{notation.duration(value_ns)} with {tasks} tasks, {samples:,} samples"
    return Point(tasks, decades(value_ns), words)


def _count_axis(counts: Sequence[int]) -> Axis:
    low, high = min(counts) - 1, max(counts) + 1
    marks = [value for value in round_values(low, high, 10) if value == int(value) and value > 0]
    return Axis("tasks on the CPU", low, high, tuple((value, f"{value:g}") for value in marks))


def part_bars(
    decompositions: Sequence[Decomposition], parts_of: Callable[[Decomposition], dict[str, float]], label: str
) -> BarFigure | None:
    """Stack the parts of start latencies, a bar for each machine and number of tasks; None without any."""
    if not decompositions:
        return None
    bars = []
    for one in decompositions:
        parts = parts_of(one)
        bars.append(
            Bar(
                f"{one.machine}, {one.tasks} task{'s' * (one.tasks != 1)}",
                tuple(BarPart(name, parts[name], notation.duration(parts[name])) for name in PARTS),
                notation.duration(sum(parts.values())),
            )
        )
    # Room for the words at a bar's end.
    high = 1.15 * max(max(sum(part.value for part in bar.parts) for bar in bars), 1.0)
    ticks = tuple(
        (value, notation.trimmed_duration(round(value)) if value else "0") for value in round_values(0, high, 6)
    )
    there = {part.name for bar in bars for part in bar.parts if part.value > 0}
    looks = {name: look for name, look in zip(PARTS, distinct_looks(len(PARTS)), strict=True) if name in there}
    return BarFigure(label, Axis("from release to start", 0.0, high, ticks), tuple(bars), looks)


def missed_figure(cells: Sequence[RealTimeCell]) -> LineFigure | None:
    """Draw the share of jobs that missed their deadline against tasks drawn; None where fewer than two numbers were."""
    series: dict[tuple[str, ...], list[tuple[int, RealTimeCell]]] = {}
    for cell in cells:
        drawn = cell.parameters.get("tasks_per_cpu")
        if isinstance(drawn, int) and cell.missed_share is not None:
            rest = {key: value for key, value in cell.parameters.items() if key != "tasks_per_cpu"}
            words = describe({**rest, "tasks_per_cpu": "n"}).removeprefix("n tasks ")
            series.setdefault((cell.platform, cell.scenario, words), []).append((drawn, cell))
    counts = [count for own in series.values() for count, _ in own]
    if len(set(counts)) < 2:
        return None
    ends = [
        one.missed_share.high or one.missed_share.share for own in series.values() for _, one in own if one.missed_share
    ]
    high = max(0.01, *ends)
    lines = []
    for (key, own), look in zip(series.items(), distinct_looks(len(series)), strict=True):
        name, points = _differing(key, list(series)), []
        for count, cell in sorted(own, key=lambda pair: pair[0]):
            share = cell.missed_share
            assert share is not None  # noqa: S101 - as chosen above
            words = f"{cell.missed} of {cell.released} jobs with {count} tasks"
            points.append(Point(count, share.share, words, share.low, share.high))
        lines.append(Line(name, look, tuple(points)))
    ticks = tuple((value, f"{100 * value:g} %") for value in round_values(0.0, high, 6))
    return LineFigure(
        "Share of jobs that missed their deadline, against the number of tasks",
        _count_axis(counts),
        Axis("jobs that missed their deadline", 0.0, high, ticks),
        tuple(lines),
    )


def _differing(key: tuple[str, ...], keys: Sequence[tuple[str, ...]]) -> str:
    """Name a line by what is not the same of all."""
    differing = [
        part for part, all_of_them in zip(key, zip(*keys, strict=True), strict=True) if len(set(all_of_them)) > 1
    ]
    return ", ".join(differing or key[:1])


def missed_dots(cells: Sequence[RealTimeCell]) -> DotFigure | None:
    """Draw the same share, a row for each cell, where its numbers of tasks make no line; None without any."""
    shown = [(cell, share) for cell in cells if (share := cell.missed_share) is not None]
    if not shown:
        return None
    high = 1.05 * max(0.01, *(share.high or share.share for _, share in shown))
    ticks = tuple((value, f"{100 * value:g} %") for value in round_values(0.0, high, 5))
    platforms = list(dict.fromkeys(cell.platform for cell, _ in shown))
    looks = looks_of(platforms)
    groups: dict[str, list[DotRow]] = {}
    for cell, share in shown:
        traced = ", traced" if cell.traced else ""
        words = f"{notation.percent(share.share)}, {cell.missed} of {cell.released} jobs"
        row = DotRow(f"{cell.platform}{traced}", words, share.share, share.low, share.high, looks[cell.platform])
        groups.setdefault(f"{describe(cell.parameters)}, {cell.scenario}", []).append(row)
    return DotFigure(
        "Share of jobs that missed their deadline",
        Axis("jobs that missed", -0.03 * high, high, ticks),
        tuple(Group(title, tuple(rows)) for title, rows in groups.items()),
    )
