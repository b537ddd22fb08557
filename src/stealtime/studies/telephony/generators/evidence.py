"""What is seen of a load while it is offered: of its generators, the network and the server. Pure.

A generator that does not run cannot send in time, and cannot see that an answer came in time. So each exchange that
failed is held against the times in which a generator stood still, by two things: its sends against their plan (call k
begins at t0 + k / rate), and its watchdog (:mod:`stealtime.studies.telephony.sipp.stalls`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stealtime.hosts.drops import Drops
from stealtime.studies.telephony.generators.limit import Evidence
from stealtime.studies.telephony.lengths import ANSWERED_BY_NS
from stealtime.studies.telephony.parameters import Transport
from stealtime.studies.telephony.sipp.program import SippUse
from stealtime.studies.telephony.sipp.stalls import Window

LATE_NS = 100_000_000
"""A send that is so late tells that its generator stood still. It is a fifth of the time in which an answer has to
come: less than that cannot explain an answer that is late."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and the answer that ends it."""

    sent_ns: int
    answered_ns: int | None
    """None: it was refused, or never answered."""
    may_wait: bool = False
    """Whether a provisional answer keeps the client from sending again, as that to an INVITE does."""

    @property
    def has_failed(self) -> bool:
        if self.answered_ns is None:
            return True
        return not self.may_wait and self.answered_ns - self.sent_ns > ANSWERED_BY_NS


@dataclass(frozen=True)
class Sends:
    """When a generator sent its requests, and how many it was to send in a second."""

    at_ns: Sequence[int]
    rate_per_s: float

    @property
    def late_ns(self) -> list[int]:
        """How late each was, in the order in which they were sent; the one that was earliest has 0."""
        steps = [at_ns - round(number * 1e9 / self.rate_per_s) for number, at_ns in enumerate(sorted(self.at_ns))]
        first = min(steps, default=0)
        return [step - first for step in steps]


@dataclass(frozen=True, kw_only=True)
class Offering:
    """How a load was offered, and what came of it.

    Attributes:
        transport: How phones reach the server.
        rate_per_s: How many were to be sent in a second, by all generators.
        offered_per_s: How many were.
        retransmissions: Of all generators.
        sends: Of each generator.
        exchanges: Of all of them.
    """

    transport: Transport
    rate_per_s: float
    offered_per_s: float
    retransmissions: int
    sends: Sequence[Sends]
    exchanges: Sequence[Exchange]


def evidence_of(offering: Offering, uses: Sequence[SippUse], drops: Drops, server_cpu_percent: float) -> Evidence:
    """Put together what was seen.

    Args:
        offering: The load.
        uses: What each SIPp had of its machine, also those that are called.
        drops: What was lost meanwhile.
        server_cpu_percent: Of all CPUs that the server has.
    """
    late = sorted(late_ns for one in offering.sends for late_ns in one.late_ns)
    stalls = [stall for use in uses for stall in use.stalls]
    windows = _joined([*stalls, *(window for one in offering.sends for window in _late_windows(one))])
    failed = [one for one in offering.exchanges if one.has_failed]
    scheduled = [(use.scheduled, use.elapsed_ns) for use in uses if use.scheduled is not None and use.elapsed_ns]
    return Evidence(
        generators=len(offering.sends),
        cpu_percent=max((100.0 * one.used_ns / elapsed_ns for one, elapsed_ns in scheduled), default=None),
        waiting_percent=max((100.0 * one.waited_ns / elapsed_ns for one, elapsed_ns in scheduled), default=None),
        late_p99_ns=late[-(-99 * len(late) // 100) - 1] if late else 0,
        late_max_ns=late[-1] if late else 0,
        late_timers=len(stalls),
        datagrams_dropped=drops.datagrams,
        segments_sent_again=drops.segments_sent_again,
        frames_dropped=drops.frames,
        server_cpu_percent=server_cpu_percent,
        failed=len(failed),
        failed_while_late=sum(_was_under_way(one, windows) for one in failed),
    )


def _late_windows(sends: Sends) -> list[Window]:
    """Give when a generator that sent late should have sent."""
    return [
        Window(at_ns - late_ns, at_ns)
        for at_ns, late_ns in zip(sorted(sends.at_ns), sends.late_ns, strict=True)
        if late_ns >= LATE_NS
    ]


def _joined(windows: Iterable[Window]) -> list[Window]:
    """Join windows that overlap; give them in ascending order."""
    joined: list[Window] = []
    for window in sorted(windows):
        if joined and window.begin_ns <= joined[-1].end_ns:
            joined[-1] = Window(joined[-1].begin_ns, max(joined[-1].end_ns, window.end_ns))
        else:
            joined.append(window)
    return joined


def _was_under_way(exchange: Exchange, windows: Sequence[Window]) -> bool:
    """Tell whether any of the windows, which are apart and in order, meets the time in which an answer had to come."""
    begun = bisect_right(windows, exchange.sent_ns + ANSWERED_BY_NS, key=lambda window: window.begin_ns)
    return begun > 0 and windows[begun - 1].end_ns >= exchange.sent_ns
