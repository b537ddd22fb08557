"""What the CPU gives, as an option says it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import NANOSECONDS, format_duration, parse_duration_ns
from stealtime.vocabulary.service import ObservedService

if TYPE_CHECKING:
    from stealtime._core import SupplyDict

_HINT = "dedicated, BUDGET/PERIOD such as 6ms/10ms, or BUDGET/PERIOD/DEADLINE such as 6ms/10ms/8ms"


@dataclass(frozen=True)
class Supply:
    """A dedicated CPU, a reservation, or what was observed."""

    kind: Literal["dedicated", "periodic", "observed"]
    parameters: tuple[int, ...] = ()
    """periodic: period, budget, deadline in ns; observed: how long, in ns."""
    gaps: tuple[tuple[int, int], ...] = ()
    """observed: begin and length of each stretch without service in ns, in order, since the begin."""
    source: str = ""
    """observed: what it was seen in."""

    @property
    def text(self) -> str:
        """As people read it."""
        if self.kind == "dedicated":
            return "a dedicated CPU"
        if self.kind == "observed":
            (observed,) = self.parameters
            elapsed = f"{observed / NANOSECONDS['s']:.1f} s"
            return f"what {self.source} got in {elapsed}: empirical, bounds only what was observed"
        period, budget, deadline = map(format_duration, self.parameters)
        within = "" if deadline == period else f", within {deadline}"
        return f"{budget} of every {period}{within}"

    def for_core(self) -> "SupplyDict":
        """Give it as the analysis takes it."""
        return {"kind": self.kind, "parameters": list(self.parameters), "gaps": list(self.gaps)}


DEDICATED = Supply("dedicated")


def observed_supply(service: ObservedService) -> Supply:
    """Give what was observed as a supply."""
    source = f"{service.machine} ({100 * service.served_share:.2f} % of a CPU, without {service.without})"
    return Supply("observed", (service.observed_ns,), service.gaps, source)


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
        budget, period, *deadlines = map(parse_duration_ns, parts)
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
