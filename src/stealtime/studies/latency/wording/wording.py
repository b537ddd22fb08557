"""The report in words: what each probe asks, and the answer in sentences."""

from collections.abc import Callable, Sequence

from stealtime.report import notation
from stealtime.report.interval import CONFIDENCE, Interval
from stealtime.studies.latency.analysis.model import Period
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


def interval_words(interval: Interval, write: Callable[[float], str]) -> str:
    """Write an interval: ``95 %: 1.2 to 1.9``."""
    return f"{CONFIDENCE:.0%}: {write(interval.low)} to {write(interval.high)}".replace("%:", " %:")
