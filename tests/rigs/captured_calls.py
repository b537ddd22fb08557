"""What a tap in the client's namespace saw of calls: their voice in each direction, and the messages of signalling."""

from collections.abc import Sequence
from dataclasses import dataclass

from media_tap import Datagram

from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.results import Spread, spread_of


@dataclass(frozen=True)
class CapturedDirection:
    """The voice of one direction on the wire, each packet once."""

    said: int
    """On its way to the relay."""
    delays_ns: list[int]
    """Of those that came from the relay: from the speaker's stamp to the kernel's at the listener's device."""

    @property
    def delay_ns(self) -> Spread | None:
        """Their five numbers."""
        return spread_of([float(one) for one in self.delays_ns])


def captured_directions(datagrams: Sequence[Datagram], relay: str, plan: CallPlan) -> dict[str, CapturedDirection]:
    """Give what was said and heard in both directions, by who hears.

    Args:
        datagrams: All that the tap saw.
        relay: Its address.
        plan: Of the calls.
    """
    callers, phones = set(plan.caller_ports), set(plan.phones)
    return {
        "phones": _direction(datagrams, relay, callers, phones),
        "callers": _direction(datagrams, relay, phones, callers),
    }


def count_messages(
    datagrams: Sequence[Datagram], message: str, *, source: int = 0, destination: int = 0
) -> tuple[int, int]:
    """Count the messages of a kind from or to a port: different ones, and those that were sent anew, byte for byte."""
    digests = [
        one.digest
        for one in datagrams
        if one.message == message and source in (0, one.source_port) and destination in (0, one.destination_port)
    ]
    return len(set(digests)), len(digests) - len(set(digests))


def _direction(datagrams: Sequence[Datagram], relay: str, speakers: set[int], listeners: set[int]) -> CapturedDirection:
    voice = [(one, one.mark) for one in datagrams if one.mark is not None]
    said = {(mark.stream, mark.index) for one, mark in voice if one.source != relay and one.source_port in speakers}
    came: dict[tuple[int, int], int] = {}
    for one, mark in voice:
        if one.source == relay and one.destination_port in listeners:
            came.setdefault((mark.stream, mark.index), one.at_ns - mark.sent_ns)
    return CapturedDirection(len(said), list(came.values()))
