"""What the CPU gives, as an option says it."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from stealtime.schedulability.longest import not_longer
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import NANOSECONDS, format_duration, parse_duration_ns
from stealtime.vocabulary.service import ObservedService

if TYPE_CHECKING:
    from stealtime._core import SupplyDict

_HINT = "dedicated, BUDGET/PERIOD such as 6ms/10ms, BUDGET/PERIOD/DEADLINE such as 6ms/10ms/8ms, or windows:FILE"


@dataclass(frozen=True)
class Supply:
    """A dedicated CPU, a reservation, windows of a table, or what was observed."""

    kind: Literal["dedicated", "periodic", "observed", "windows"]
    parameters: tuple[int, ...] = ()
    """periodic: period, budget, deadline in ns; observed: how long, in ns; windows: the major frame in ns."""
    gaps: tuple[tuple[int, int], ...] = ()
    """observed: begin and length of each stretch without service in ns, in order, since the begin; windows: begin and
    length of each window."""
    source: str = ""
    """observed: what it was seen in; windows: whose they are."""

    @property
    def text(self) -> str:
        if self.kind == "dedicated":
            return "a dedicated CPU"
        if self.kind == "observed":
            (observed,) = self.parameters
            elapsed = f"{observed / NANOSECONDS['s']:.1f} s"
            return f"what {self.source} got in {elapsed}: empirical, bounds only what was observed"
        if self.kind == "windows":
            (frame,) = self.parameters
            served = format_duration(sum(length for _, length in self.gaps))
            count = "one window" if len(self.gaps) == 1 else f"{len(self.gaps)} windows"
            return f"{count} of {self.source}: {served} of every {format_duration(frame)}, at any phase"
        period, budget, deadline = map(format_duration, self.parameters)
        within = "" if deadline == period else f", within {deadline}"
        return f"{budget} of every {period}{within}"

    def for_core(self) -> "SupplyDict":
        return {"kind": self.kind, "parameters": list(self.parameters), "gaps": list(self.gaps)}


DEDICATED = Supply("dedicated")


def observed_supply(service: ObservedService) -> Supply:
    source = f"{service.machine} ({100 * service.served_share:.2f} % of a CPU, without {service.without})"
    return Supply("observed", (service.observed_ns,), service.gaps, source)


def without_rarest_gaps(supply: Supply, share: Fraction, window_ns: int) -> tuple[Supply, int | None]:
    """Leave out the longest gaps of an observed supply, as many as few of its windows meet.

    A window of length w that begins at any moment meets a gap of length g where it begins in the w before it or in it:
    the gaps that are left out have a sum of w + g that is at most the share of all moments at which a window may begin.
    Where windows meet two of them this counts them twice, so that the share is never exceeded.

    Args:
        supply: Any; one that was not observed is given back.
        share: Of the windows.
        window_ns: The length of each.

    Returns:
        The supply, and how many gaps were left out; None where it was not observed.
    """
    if supply.kind != "observed":
        return supply, None
    (observed_ns,) = supply.parameters
    room = share * max(0, observed_ns - window_ns)
    longest_first = sorted(range(len(supply.gaps)), key=lambda number: -supply.gaps[number][1])
    left_out: set[int] = set()
    for number in longest_first:
        room -= window_ns + supply.gaps[number][1]
        if room < 0:
            break
        left_out.add(number)
    kept = tuple(gap for number, gap in enumerate(supply.gaps) if number not in left_out)
    return replace(supply, gaps=kept), len(left_out)


def parse_supply(text: str) -> Supply:
    """Read ``dedicated``, ``6ms/10ms`` or ``6ms/10ms/8ms``.

    Raises:
        UsageError: It is none of them, or no reservation can be so.
    """
    if text == "dedicated":
        return DEDICATED
    parts = text.split("/")
    if len(parts) not in (2, 3):
        raise UsageError(f"--supply: {text!r} is no supply", hint=_HINT)
    try:
        budget, period, *deadlines = (not_longer(parse_duration_ns(part)) for part in parts)
    except ValueError as error:
        raise UsageError(f"--supply: {error}", hint=_HINT) from None
    deadline = deadlines[0] if deadlines else period
    if not budget <= deadline <= period:
        raise UsageError(
            f"--supply: {text!r} has a budget of {format_duration(budget)} within {format_duration(deadline)} "
            f"of every {format_duration(period)}",
            hint="the budget must be at most the deadline, and the deadline at most the period",
        )
    return Supply("periodic", (period, budget, deadline))
