"""What a machine was seen to get of a CPU."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Observation:
    """When one CPU was seen not to serve who was always ready to run, in one stretch of time without a break."""

    observed_ns: int
    begin_ns: NDArray[np.uint64]
    """Of each stretch without service, in order, since the begin of the observation."""
    length_ns: NDArray[np.uint64]
    """As many; stretches do not overlap."""
    slip_ns: int = 0
    """By how much later each of them may have come: so much is served after each at least."""

    @property
    def missing_ns(self) -> int:
        return int(self.length_ns.sum())

    def without(self, left_out: NDArray[np.bool_]) -> "Observation":
        """Give it without some of its gaps."""
        return Observation(self.observed_ns, self.begin_ns[~left_out], self.length_ns[~left_out], self.slip_ns)


@dataclass(frozen=True, eq=False)
class ObservedService:
    """All that was seen of a machine."""

    machine: str
    """The platform, and where it is not ``alone`` the scenario."""
    observations: Sequence[Observation]
    """At least one."""
    without: str
    """What is no gap, and what was left out, for people."""

    @property
    def least_served_share(self) -> float:
        return min(1 - one.missing_ns / one.observed_ns for one in self.observations)
