"""Where the relay hears both ends of each call, as they were told, and what must be true of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.sipp.log import LoggedMessage
from stealtime.vocabulary.errors import StealtimeError


@dataclass(frozen=True)
class Destinations:
    """Where the voice goes: ``ADDRESS:PORT`` of each call, in the order of the calls."""

    of_callers: list[str]
    of_phones: list[str]


@dataclass(frozen=True)
class Relays:
    """``ADDRESS:PORT`` of the relay, by the own media port of who was told it."""

    of_callers: Mapping[int, str]
    """By the 200."""
    of_phones: Mapping[int, str]
    """By the INVITE."""

    def destinations(self, plan: CallPlan, *relays: str) -> Destinations:
        """Put them into the order of the calls.

        Args:
            plan: Of the calls.
            relays: The address where the relay must be, or the addresses of several.

        Raises:
            StealtimeError: An end of a call has no port of the relay of its own.
        """
        found = Destinations(
            _in_order(self.of_callers, plan.caller_ports, relays),
            _in_order(self.of_phones, plan.phones, relays),
        )
        if len({*found.of_callers, *found.of_phones}) < 2 * plan.calls:
            raise StealtimeError("the relay gave one port to two ends of calls")
        return found


def told_relays(messages: Iterable[LoggedMessage], kind: str) -> dict[int, str]:
    """Read where the relay is out of the lines of a kind, by the media port that stands in them.

    Raises:
        StealtimeError: Somebody was told twice, and another one the second time.
    """
    found: dict[int, str] = {}
    for message in messages:
        port = int(message.user)
        if message.kind == kind and found.setdefault(port, message.status) != message.status:
            raise StealtimeError(f"the end of a call at port {port} was told two different relays")
    return found


def _in_order(relays: Mapping[int, str], ports: Sequence[int], known: Sequence[str]) -> list[str]:
    missing = [port for port in ports if port not in relays]
    if missing:
        raise StealtimeError(f"{len(missing)} of {len(ports)} calls were not answered")
    strangers = [one for one in relays.values() if one.rpartition(":")[0] not in known]
    if strangers:
        raise StealtimeError(
            f"the voice of a call would go to {strangers[0]} and not to the relay at {' or '.join(known)}",
            hint="its proxy does not put its relay into the session descriptions",
        )
    return [relays[port] for port in ports]
