"""One SIPp or several offer a load together, and what is around them is counted meanwhile."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stealtime.hosts.drops import Drops, read_drops
from stealtime.hosts.frame_counters import Traffic
from stealtime.hosts.host import CpuTimes
from stealtime.studies.telephony.generators.evidence import Offering, Sends, evidence_of
from stealtime.studies.telephony.generators.judgement import judge
from stealtime.studies.telephony.generators.limit import Limit
from stealtime.studies.telephony.generators.work import Work
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.sipp.log import LoggedMessage
from stealtime.studies.telephony.sipp.program import Finished, SippOrder, SippUse
from stealtime.studies.telephony.sipp.statistics import SippCounts
from stealtime.studies.telephony.sipp.together import started_together


@dataclass(frozen=True)
class Offered:
    """What SIPps saw that offered a load together, and what was used and lost from their start to their end."""

    orders: tuple[SippOrder, ...]
    each: tuple[Finished, ...]
    """What each of them saw."""
    used: CpuTimes
    """By the server and its host."""
    elapsed_ns: int
    begun_ns: int
    """Of our monotonic clock."""
    drops: Drops
    server_cpus: int
    traffic: Traffic | None = None
    """Of the phones' link; None where others use it, too."""

    @property
    def work(self) -> Work | None:
        """What the servers did of it."""
        return Work.of(self.traffic, self.drops.connections_opened, [one.use for one in self.each])

    @property
    def counts(self) -> SippCounts:
        """What all of them counted."""
        return SippCounts.sum(one.counts for one in self.each)

    @property
    def messages(self) -> list[LoggedMessage]:
        """What all of them logged, in order of time; users have the same names as there."""
        return sorted((message for one in self.each for message in one.messages), key=lambda message: message.at_ns)

    @property
    def numbered(self) -> list[LoggedMessage]:
        """The same, where each SIPp has numbers of its own instead of names: they are told apart by a first number."""
        return sorted(
            (
                replace(message, user=f"{number}-{message.user}")
                for number, one in enumerate(self.each)
                for message in one.messages
            ),
            key=lambda message: message.at_ns,
        )

    @property
    def said(self) -> str:
        return " | ".join(one.said for one in self.each)

    @property
    def sends(self) -> list[Sends]:
        """When each of them sent its requests first."""
        return [
            Sends([message.at_ns for message in one.messages if message.kind == "sent"], order.begun_per_s)
            for order, one in zip(self.orders, self.each, strict=True)
        ]

    def limit_of(self, offering: Offering, called: Sequence[SippUse] = ()) -> Limit:
        """Judge what kept the load from being borne.

        Args:
            offering: The load, and what came of it.
            called: What those SIPps had that are called, if any are: an answer may be theirs to give.
        """
        percent = 100.0 * self.used.server_ns / (self.elapsed_ns * self.server_cpus)
        return judge(offering, evidence_of(offering, [*(one.use for one in self.each), *called], self.drops, percent))


def offer(place: Place, orders: Sequence[SippOrder], folder: Path) -> Offered:
    """Have SIPps offer their shares of a load, all at once; wait until all have ended.

    Args:
        place: Has the server; it answers.
        orders: What each of them does.
        folder: For their files.

    Raises:
        StealtimeError: One of them fails.
    """
    lost, passed = read_drops(place.client), place.client.traffic()
    before, begin_ns = place.cpu_times(), time.monotonic_ns()
    with started_together(place.client, orders, folder) as running:
        each = tuple(sipp.wait() for sipp in running)
    used, elapsed_ns = place.cpu_times().since(before), time.monotonic_ns() - begin_ns
    passes = place.client.traffic()
    traffic = None if passes is None or passed is None else passes.since(passed)
    return Offered(
        tuple(orders), each, used, elapsed_ns, begin_ns, read_drops(place.client).since(lost), place.cpus, traffic
    )
