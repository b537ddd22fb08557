"""The answer that stands at the top of the page: what each platform costs, in sentences."""

from dataclasses import dataclass

from stealtime.lab.platforms.traits import traits_of
from stealtime.report import notation
from stealtime.report.circumstances.limits import some_names
from stealtime.studies.latency.page.content import DrawnRow, Group, ReportContent
from stealtime.studies.latency.probes.catalogue import PROBES
from stealtime.studies.latency.wording.wording import interval_words


@dataclass(frozen=True)
class Cost:
    """What one platform costs, a sentence a probe."""

    platform: str
    sentences: tuple[str, ...]


def answer(content: ReportContent) -> list[Cost]:
    """Answer "what does virtualization cost here?", the platforms other than native one by one."""
    others = [platform for platform in content.platforms if not traits_of(platform).is_native]
    return [Cost(platform, tuple(_costs_of(platform, content))) for platform in others]


def _costs_of(platform: str, content: ReportContent) -> list[str]:
    """Give the sentences of one platform: of each probe its cost, where scenarios differ in the worst of them."""
    costs: dict[str, list[str]] = {}
    invalid = []
    for title in content.probe_titles:
        own = [group for group in content.groups if group.title == title and group.row_of(platform) is not None]
        rows = [(group, row) for group in own if (row := group.row_of(platform)) is not None]
        invalid += [_group_name(content, group) for group, row in rows if not row.cell.valid]
        valid = [(group, row) for group, row in rows if row.cell.valid]
        if not valid:
            continue
        worst_group, worst = max(valid, key=lambda pair: _leading_ns(pair[1]))
        words = f"{_figures(worst)} ({worst_group.parameter})"
        if len(valid) > 1:
            least_group, least = min(valid, key=lambda pair: _leading_ns(pair[1]))
            words += f", in the worst scenario, {worst_group.scenario}; in the best one, {least_group.scenario}, "
            words += _figures(least)
        costs.setdefault(worst_group.probe, []).append(words)
    sentences = [f"{PROBES[probe].answer} {figures}." for probe, several in costs.items() for figures in several]
    if invalid:
        sentences.append(f"Not judged, because invalid: {some_names(invalid)}.")
    return sentences


def _group_name(content: ReportContent, group: Group) -> str:
    """Name a group: by its probe, and by its scenario where there are several."""
    return group.title if len(content.scenarios) == 1 else f"{group.title} in {group.scenario}"


def _leading_ns(row: DrawnRow) -> float:
    """What scenarios are ordered by: the steady figure where there is one."""
    return row.tail_ns if row.tail_ns is not None else row.cell.worst_overhead_ns or 0.0


def _figures(row: DrawnRow) -> str:
    """Give the overhead of one probe, what is steady of it first."""
    longest = f"the longest by {notation.duration(row.cell.worst_overhead_ns, 3)}"
    if row.tail_ns is None:
        return f"more than these samples can resolve; {longest}"
    return f"{notation.duration(row.tail_ns, 3)} or more, {_compared(row)}; {longest}"


def _compared(row: DrawnRow) -> str:
    ratio = row.tail_ratio
    if ratio is None:
        return "no ratio to native"
    beside = "" if row.not_alone is None else ", not alone"
    return f"{notation.ratio(ratio.value)} native ({interval_words(ratio, notation.ratio)}{beside})"
