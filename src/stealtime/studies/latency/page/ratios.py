"""The first picture: what each platform costs in each probe, as dots with intervals on one logarithmic axis. Pure."""

from collections.abc import Iterable

from stealtime.lab.platforms.traits import traits_of
from stealtime.report import notation
from stealtime.report.interval import CONFIDENCE, Interval
from stealtime.report.page.dot_figure import (
    DotFigure,
    Group,
    Row,
    log_duration_axis,
    logarithm,
    ratio_axis,
)
from stealtime.studies.latency.page import content
from stealtime.studies.latency.page.content import DrawnRow, ReportContent, ScenarioGroups

_CONFIDENCE = f"{CONFIDENCE:.0%}".replace("%", " %")
RATIO_WORDS = (
    "The overhead that one sample in a thousand exceeds (the 99.9th percentile), as a multiple of native's. Dot: the "
    f"geometric mean of the repetitions; line: its {_CONFIDENCE} interval; dashed: as natively. Logarithmic."
)
OVERHEAD_WORDS = (
    "The overhead that one sample in a thousand exceeds (the 99.9th percentile); line: its "
    f"{_CONFIDENCE} interval over the repetitions. There is no ratio to native to be drawn. Logarithmic."
)


def cost_figure(shown: ReportContent, scenario: ScenarioGroups) -> tuple[DotFigure, str] | None:
    """Draw the ratios to native of a scenario; overheads where there is no ratio, None where there is nothing.

    Returns:
        The figure and what it shows, in words. Those of all scenarios have one axis.
    """
    rows = [row for group in shown.groups for row in group.rows]
    ratios = [one for row in rows if row.cell.valid and (one := row.tail_ratio) is not None]
    label = f"Overhead at the 99.9th percentile, {scenario.name}"
    if ratios:
        axis = ratio_axis("times native", [end for one in ratios for end in (one.low, one.value, one.high)])
        groups = (_ratios_of(shown, group) for group in scenario.groups)
        return DotFigure(label, axis, tuple(one for one in groups if one.rows), level=0.0), RATIO_WORDS
    ends = [end for row in rows if row.cell.valid for end in _ends(row)]
    if not ends:
        return None
    groups = (_overheads_of(shown, group) for group in scenario.groups)
    return DotFigure(label, log_duration_axis("overhead", ends), tuple(groups)), OVERHEAD_WORDS


def _ratios_of(shown: ReportContent, group: content.Group) -> Group:
    """Give a row for each platform but native, whose overhead stands in the title."""
    native = next((row for row in group.rows if traits_of(row.cell.platform).is_native), None)
    base = "" if native is None or native.tail_ns is None else f"; native {notation.duration(native.tail_ns, 3)}"
    return Group(f"{group.title}{base}", tuple(_ratio_row(shown, row) for row in group.rows if row is not native))


def _ratio_row(shown: ReportContent, row: DrawnRow) -> Row:
    name, look = row.cell.platform, shown.looks[row.cell.platform]
    if not row.cell.valid:
        return Row(name, "invalid, not judged", look=look)
    ratio = row.tail_ratio
    if ratio is None:
        overhead = "too few samples" if row.tail_ns is None else notation.duration(row.tail_ns, 3)
        return Row(name, f"no ratio; {overhead}", look=look)
    words = f"{notation.ratio(ratio.value)} ({_span(ratio)}){'' if row.not_alone is None else ', not alone'}"
    low, high = (logarithm(end) for end in (ratio.low, ratio.high))
    return Row(name, words, logarithm(ratio.value), low, high, look)


def _overheads_of(shown: ReportContent, group: content.Group) -> Group:
    return Group(group.title, tuple(_overhead_row(shown, row) for row in group.rows))


def _overhead_row(shown: ReportContent, row: DrawnRow) -> Row:
    name, look = row.cell.platform, shown.looks[row.cell.platform]
    if not row.cell.valid:
        return Row(name, "invalid, not judged", look=look)
    longest = f"longest {notation.duration(row.cell.worst_overhead_ns, 3)}"
    if row.tail_ns is None:
        return Row(name, f"too few samples; {longest}", look=look)
    words = f"{notation.duration(row.tail_ns, 3)}; {longest}{'' if row.not_alone is None else '; not alone'}"
    places = [logarithm(max(end, 1.0)) for end in _ends(row)]
    return Row(name, words, places[0], min(places), max(places), look)


def _ends(row: DrawnRow) -> Iterable[float]:
    """Give the overhead and the ends of its interval, as far as they are known."""
    if row.tail_ns is not None:
        yield row.tail_ns
    if row.tail is not None:
        yield from (row.tail.low, row.tail.high)


def _span(ratio: Interval) -> str:
    low, high = (notation.ratio(end).removesuffix("\N{MULTIPLICATION SIGN}") for end in (ratio.low, ratio.high))
    return f"{low} to {high}"
