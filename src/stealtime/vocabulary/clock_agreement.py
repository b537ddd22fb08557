"""Whether a machine's clock is right, and how that was checked.

Two comparisons over each trial, each of which may find nothing because the two clocks are one:

- *kernel*: the time-stamp counter with the machine's own ``CLOCK_MONOTONIC_RAW`` (the agent's check). It finds a
  counter that stops, jumps or changes its rate, unless the kernel keeps its time with that counter. It never finds a
  kernel whose second is wrong: the counter's rate was measured by that second.
- *host*: the clock of the samples with the host's ``CLOCK_MONOTONIC_RAW``, by the exchanges before and after the trial.
  It finds a wrong second. Natively the host's clock is the machine's own.

That the host's own second is right is not shown by either.
"""

from collections.abc import Sequence
from typing import Literal

from stealtime.vocabulary.alignment import Alignment
from stealtime.vocabulary.clocks import ClockRecord
from stealtime.vocabulary.readings import Absent, Model

LIMIT_PPM = 500.0
"""As the agent's (``crates/probe/src/clock.rs``): NTP steers a clock by no more."""

ClockState = Literal["agreed", "disagreed", "not checked", "not independent"]
"""``not checked``: the bound of the comparison is wider than what is allowed."""

_ROUNDING_NS = 2.0
"""Both clocks are read in whole ns, twice."""
_BY_TROUBLE: tuple[ClockState, ...] = ("agreed", "not independent", "not checked", "disagreed")
_COUNTS_THE_TSC = ("tsc", "kvm-clock", "xen", "hyperv_clocksource_tsc_page", "hyperv_clocksource")
"""Clock sources of Linux that are computed from the time-stamp counter (``arch/x86/kernel/tsc.c``, ``kvmclock.c``,
``pvclock.c``, ``drivers/clocksource/hyperv_timer.c``); ``tsc-early`` begins like the first."""
_READS_THE_HOST = "timer"
"""The clock source of User-Mode Linux (``arch/um/kernel/time.c``)."""


class ClockAgreement(Model):
    """A clock beside another one over one trial."""

    state: ClockState
    reason: str
    """Half a sentence: figures, or why there is none."""
    disagreement_ppm: float | None = None
    """How much faster than the other it ran; None where they were not compared."""
    error_ppm: float | None = None
    """A bound of what the comparison can be wrong by."""
    limit_ppm: float = LIMIT_PPM
    """A disagreement over this and the bound is one."""

    @property
    def at_most_ppm(self) -> float:
        """How far apart the two can have run; 0 where they were not compared."""
        return abs(self.disagreement_ppm or 0.0) + (self.error_ppm or 0.0)


def kernel_agreement(clock: ClockRecord) -> ClockAgreement:
    """Say what the agent's check of the time-stamp counter against its kernel's clock is worth."""
    check = clock.check
    source = clock.facts.get("clocksource", Absent(absent="this version did not record it"))
    same = None
    if isinstance(source, Absent):
        same = f"it is not known what the kernel kept its time with ({source.absent})"
    elif str(source.value).startswith(_COUNTS_THE_TSC):
        same = f"the kernel kept its time with the counter itself (clock source {source.value})"
    elif source.value == _READS_THE_HOST:
        same = "the kernel kept its time with its host's clock, and that may be computed from the counter"
    return _judge(check.disagreement_ppm, check.error_ppm, check.limit_ppm, same)


def host_agreement(
    name: str, units_per_s: float, before: Alignment, after: Alignment, *, is_host: bool
) -> ClockAgreement:
    """Compare the rate of a machine's clock with the host's.

    Each exchange knows the machine's clock to half its round trip; so their rate is known to both halves over the time
    between them, whatever the directions cost.

    Args:
        name: Of the clock: ``tsc`` or ``monotonic``.
        units_per_s: The rate that it is taken to have.
        before: The exchange before the trial.
        after: The exchange after it.
        is_host: Whether the machine is the host, so that both clocks are one.
    """
    if name == "tsc":
        units = after.machine_tsc - before.machine_tsc
    elif before.machine_monotonic_ns is None or after.machine_monotonic_ns is None:
        return ClockAgreement(state="not checked", reason="this version did not exchange the clock of the samples")
    else:
        units = after.machine_monotonic_ns - before.machine_monotonic_ns
    host_ns = after.host_monotonic_raw_ns - before.host_monotonic_raw_ns
    if host_ns <= 0:
        return ClockAgreement(state="not checked", reason=f"{host_ns} ns passed between the exchanges")
    disagreement_ppm = (units * 1e9 / units_per_s / host_ns - 1) * 1e6
    # A moment of the host that is uncertain by this is so many of the machine's own, perhaps faster, seconds.
    error_ns = (before.error_ns + after.error_ns) * (1 + LIMIT_PPM / 1e6) + _ROUNDING_NS
    error_ppm = error_ns / host_ns * 1e6
    same = "the host's clock is the machine's own" if is_host else None
    return _judge(disagreement_ppm, error_ppm, LIMIT_PPM, same)


def worst(agreements: Sequence[ClockAgreement]) -> ClockAgreement | None:
    """Give the one that says the least good; of the same state, the one that allows the largest difference."""
    return max(agreements, key=lambda one: (_BY_TROUBLE.index(one.state), one.at_most_ppm), default=None)


def _judge(disagreement_ppm: float, error_ppm: float, limit_ppm: float, same: str | None) -> ClockAgreement:
    """Judge a comparison.

    Args:
        disagreement_ppm: As measured.
        error_ppm: A bound of its error.
        limit_ppm: What is allowed beside that.
        same: Why the clocks are one, so that agreement says nothing.
    """
    apart_ppm = abs(disagreement_ppm)
    measured = f"{disagreement_ppm:+,.0f} ppm, known to within {error_ppm:,.0f} ppm"
    state: ClockState
    # Written so that a disagreement that is no number is one.
    if not apart_ppm <= limit_ppm + error_ppm:
        state, reason = "disagreed", f"ran apart: {measured}, allowed are {limit_ppm:g} ppm"
    elif same is not None:
        state, reason = "not independent", same
    elif error_ppm > limit_ppm:
        state, reason = "not checked", f"not to better than {apart_ppm + error_ppm:,.0f} ppm: the trial was too short"
    else:
        state, reason = "agreed", measured
    return ClockAgreement(
        state=state, reason=reason, disagreement_ppm=disagreement_ppm, error_ppm=error_ppm, limit_ppm=limit_ppm
    )
