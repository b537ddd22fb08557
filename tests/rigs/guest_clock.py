"""A guest's clocks beside the host's, asked over the network that holds its answers."""

import time
from dataclasses import dataclass
from typing import Self

from two_hosts import TwoHosts


@dataclass(frozen=True)
class GuestClocks:
    """What a guest's clocks showed at a moment of the host, all in seconds."""

    host_s: float
    bound_s: float
    """The moment is known to half of this: how long the question took."""
    real_s: float
    """How far CLOCK_REALTIME was before the host's."""
    monotonic_s: float
    raw_s: float
    """CLOCK_MONOTONIC_RAW, which nothing steers."""

    @classmethod
    def read(cls, hosts: TwoHosts) -> Self:
        """Ask; the answer that came soonest of a few."""
        return min((cls._read_once(hosts) for _ in range(5)), key=lambda clocks: clocks.bound_s)

    @classmethod
    def _read_once(cls, hosts: TwoHosts) -> Self:
        asked_s, asked_real_s = time.monotonic(), time.time()
        told = hosts.ask("status")
        bound_s = time.monotonic() - asked_s
        return cls(
            host_s=asked_s + bound_s / 2,
            bound_s=bound_s,
            real_s=told["guest_realtime_ns"] / 1e9 - asked_real_s - bound_s / 2,
            monotonic_s=told["guest_monotonic_ns"] / 1e9,
            raw_s=told["guest_monotonic_raw_ns"] / 1e9,
        )
