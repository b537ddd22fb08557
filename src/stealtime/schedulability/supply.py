"""What the CPU gives, as an option says it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from stealtime import _core
from stealtime.schedulability.longest import not_longer
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.quantities import NANOSECONDS, format_duration, parse_duration_ns
from stealtime.vocabulary.service import Observation, ObservedService

if TYPE_CHECKING:
    from stealtime._core import SupplyDict

_HINT = "dedicated, BUDGET/PERIOD such as 6ms/10ms, BUDGET/PERIOD/DEADLINE such as 6ms/10ms/8ms, or windows:FILE"
_MOST_POINTS, _LEAST_POINTS = 4_096, 512
_MOST_STEPS = 4_000_000_000
"""Each point goes through all gaps, some 1 ns for each: with many gaps there are fewer points, and more is left out."""


@dataclass(frozen=True)
class Supply:
    """A dedicated CPU, a reservation, windows of a table, or what was observed."""

    kind: Literal["dedicated", "periodic", "observed", "combined", "windows"]
    parameters: tuple[int, ...] = ()
    """periodic: period, budget, deadline in ns; windows: the major frame in ns."""
    windows: tuple[tuple[int, int], ...] = ()
    """windows: begin and length of each, in ns."""
    observations: tuple[Observation, ...] = ()
    """observed: all that was seen; the least of any of them counts."""
    source: str = ""
    """observed: what it was seen in; periodic: who gives it, where that is not a host;
    windows: whose they are."""
    parts: tuple["Supply", ...] = ()
    """combined: what each of several who take time would leave alone."""
    has_kernel_limits: bool = False
    """Whether it was looked at what the kernel that runs the tasks takes from real-time threads."""

    @property
    def text(self) -> str:
        if self.kind == "combined":
            return ", and of it ".join(one.text for one in self.parts)
        if self.kind == "dedicated":
            return "a dedicated CPU"
        if self.kind == "observed":
            count = len(self.observations)
            elapsed_s = sum(one.observed_ns for one in self.observations) / NANOSECONDS["s"]
            trials = "one trial" if count == 1 else f"{count} trials, together"
            words = f"the least that {self.source} got in any window of {trials} {elapsed_s:.1f} s"
            return f"{words}: empirical, bounds only what was observed"
        if self.kind == "windows":
            (frame,) = self.parameters
            served = format_duration(sum(length for _, length in self.windows))
            windows = "one window" if len(self.windows) == 1 else f"{len(self.windows)} windows"
            return f"{windows} of {self.source}: {served} of every {format_duration(frame)}, at any phase"
        period, budget, deadline = map(format_duration, self.parameters)
        within = "" if deadline == period else f", within {deadline}"
        source = f" ({self.source})" if self.source else ""
        return f"{budget} of every {period}{within}{source}"

    @property
    def observed_ns(self) -> int:
        """How long the longest observation is."""
        return max((one.observed_ns for one in self.observations), default=0)

    @property
    def has_observed(self) -> bool:
        """Whether it, or a part of it, was observed."""
        return self.kind == "observed" or any(one.has_observed for one in self.parts)

    def for_core(self) -> "SupplyDict":
        if self.kind == "combined":
            parts = [one.for_core() for one in self.parts]
            return {"kind": "combined", "parameters": [], "points": [], "parts": parts}
        if self.kind == "windows":
            return {"kind": "windows", "parameters": list(self.parameters), "points": list(self.windows), "parts": []}
        if self.kind != "observed":
            return {"kind": self.kind, "parameters": list(self.parameters), "points": [], "parts": []}
        missing = [number for one in self.observations for number in (one.missing_ns, one.observed_ns)]
        return {"kind": "observed", "parameters": missing, "points": self._envelope, "parts": []}

    @cached_property
    def _envelope(self) -> list[tuple[int, int]]:
        gaps = sum(len(one.begin_ns) for one in self.observations)
        most_points = min(_MOST_POINTS, max(_LEAST_POINTS, _MOST_STEPS // max(1, gaps)))
        seen = [(one.observed_ns, one.begin_ns, one.length_ns, one.slip_ns) for one in self.observations]
        try:
            return _core.service_envelope(seen, most_points)
        except ValueError as error:
            raise StealtimeError(f"{self.source}: {error}", hint="measure it again, with the probe tick") from None


DEDICATED = Supply("dedicated")


def observed_supply(service: ObservedService) -> Supply:
    source = f"{service.machine} (at least {100 * service.least_served_share:.2f} % of a CPU, {service.without})"
    return Supply("observed", observations=tuple(service.observations), source=source)


def without_rarest_gaps(supply: Supply, share: Fraction, window_ns: int) -> tuple[Supply, int | None]:
    """Leave out the longest gaps of an observed supply, as many as few of its windows meet.

    A window of length w that begins at any moment meets a gap of length g where it begins in the w before it or in it:
    the gaps that are left out have a sum of w + g that is at most the share of all moments at which a window may begin.
    Where windows meet two of them this counts them twice, so that the share is never exceeded.

    Args:
        supply: Any; one that was not observed is given back.
        share: Of the windows of all observations together.
        window_ns: The length of each.

    Returns:
        The supply, and how many gaps were left out; None where it was not observed.
    """
    if supply.kind == "combined":
        found = [without_rarest_gaps(one, share, window_ns) for one in supply.parts]
        counts = [count for _, count in found if count is not None]
        return replace(supply, parts=tuple(one for one, _ in found)), sum(counts) if counts else None
    if supply.kind != "observed":
        return supply, None
    seen = supply.observations
    room = share * sum(max(0, one.observed_ns - window_ns) for one in seen)
    lengths = np.concatenate([one.length_ns.astype(np.int64) for one in seen])
    longest_first = np.argsort(-lengths, kind="stable")
    met_ns = np.cumsum(lengths[longest_first] + window_ns)
    count = int(np.searchsorted(met_ns, int(room), side="right"))
    if not count:
        return supply, 0
    left_out = np.zeros(len(lengths), np.bool_)
    left_out[longest_first[:count]] = True
    parts = np.split(left_out, np.cumsum([len(one.length_ns) for one in seen])[:-1])
    kept: Sequence[Observation] = [one.without(part) for one, part in zip(seen, parts, strict=True)]
    return replace(supply, observations=tuple(kept)), count


def combined(supplies: Sequence[Supply]) -> Supply:
    """Give what is left where each of several takes its time, and none knows of the others."""
    parts = [part for one in supplies for part in (one.parts if one.kind == "combined" else (one,))]
    looked_at = any(one.has_kernel_limits for one in (*supplies, *parts))
    taking = [one for one in parts if one.kind != "dedicated"]
    if not taking:
        return replace(DEDICATED, has_kernel_limits=looked_at)
    if len(taking) == 1:
        return replace(taking[0], has_kernel_limits=looked_at)
    return Supply("combined", parts=tuple(taking), has_kernel_limits=looked_at)


def parse_supply(text: str, option: str = "--supply") -> Supply:
    """Read ``dedicated``, ``6ms/10ms`` or ``6ms/10ms/8ms``, which an option says.

    Raises:
        UsageError: It is none of them, or no reservation can be so.
    """
    if text == "dedicated":
        return DEDICATED
    parts = text.split("/")
    if len(parts) not in (2, 3):
        raise UsageError(f"{option}: {text!r} is no supply", hint=_HINT)
    try:
        budget, period, *deadlines = (not_longer(parse_duration_ns(part)) for part in parts)
    except ValueError as error:
        raise UsageError(f"{option}: {error}", hint=_HINT) from None
    deadline = deadlines[0] if deadlines else period
    if not budget <= deadline <= period:
        raise UsageError(
            f"{option}: {text!r} has a budget of {format_duration(budget)} within {format_duration(deadline)} "
            f"of every {format_duration(period)}",
            hint="the budget must be at most the deadline, and the deadline at most the period",
        )
    return Supply("periodic", (period, budget, deadline))
