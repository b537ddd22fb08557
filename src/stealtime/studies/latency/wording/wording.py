"""The report in words: what each probe asks, and the answer in sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stealtime.lab.platforms.traits import traits_of
from stealtime.report import notation
from stealtime.report.circumstances.limits import some_names
from stealtime.report.interval import CONFIDENCE, Interval
from stealtime.studies.latency.analysis.model import Period
from stealtime.studies.latency.page.content import DrawnRow, Group, ReportContent
from stealtime.studies.latency.probes.catalogue import PROBES
from stealtime.vocabulary.readings import Facts, Value

HYPERVISOR_FACT = "hypervisor"
"""Under which a machine says whether its CPU reports a hypervisor (CPUID leaf 1, ECX bit 31)."""


def describe_nativeness(host: Facts) -> str:
    """Say whether what is called native is itself a virtual machine, and how we know."""
    reading = host.get(HYPERVISOR_FACT)
    if not isinstance(reading, Value):
        return "The CPU's hypervisor flag was not read: whether this host is itself a virtual machine is not known."
    if reading.value:
        return (
            "The CPU's hypervisor flag is set: this host is itself a virtual machine. "
            "\N{LEFT DOUBLE QUOTATION MARK}Native\N{RIGHT DOUBLE QUOTATION MARK} here means without our virtual "
            "machine; what the host's own hypervisor takes is contained in every figure, native ones too."
        )
    return "The CPU's hypervisor flag is not set: native is the bare machine, as far as the CPU tells."


def describe_periods(periods: Sequence[Period]) -> tuple[str, ...]:
    if not periods:
        return ("no period was found",)
    return tuple(_describe_period(period) for period in periods)


def _describe_period(period: Period) -> str:
    every = notation.duration(period.period_s * 1e9)
    often = f"{period.rate_hz:,.4g} times a second (every {every})" if period.rate_hz >= 1.5 else f"every {every}"
    return (
        f"{often}, costing {notation.duration(period.cost_p50_ns, 3)} each time (90 % cost at most "
        f"{notation.duration(period.cost_p90_ns, 3)}); seen {period.events:,} times, in {period.coverage:.0%} of the "
        f"cycles; explains {period.lost_share:.1%} of all time over the floor; found in {period.found_in_repetitions} "
        f"of {period.searched_repetitions} repetitions"
    )


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
        invalid += [group_name(content, group) for group, row in rows if not row.cell.valid]
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


def group_name(content: ReportContent, group: Group) -> str:
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


def interval_words(interval: Interval, write: Callable[[float], str]) -> str:
    """Write an interval: ``95 %: 1.2 to 1.9``."""
    return f"{CONFIDENCE:.0%}: {write(interval.low)} to {write(interval.high)}".replace("%:", " %:")
