"""What the callers' SIPp writes down of each call: where the relay hears its voice, and that it was ended.

A line for each thing that happens, as ``scenarios/caller.xml`` has them; the caller's media port names the call.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stealtime.studies.telephony.sipp.log import LoggedMessage
from stealtime.vocabulary.errors import StealtimeError


@dataclass(frozen=True)
class Answers:
    """The calls so far, each by its caller's own media port; moments are those of the monotonic clock."""

    begun_ns: dict[int, int] = field(default_factory=dict)
    relays: dict[int, str] = field(default_factory=dict)
    """``ADDRESS:PORT`` to which each caller shall send."""
    answered_ns: dict[int, int] = field(default_factory=dict)
    left_ns: dict[int, int] = field(default_factory=dict)
    """When it began to hang up."""
    ended_ns: dict[int, int] = field(default_factory=dict)
    """When its BYE was answered with 200."""

    def destinations(self, caller_ports: Sequence[int], relay: str) -> str:
        """Give the file for ``stealtime-agent rtp send --destinations``: the relay's port of each caller.

        Args:
            caller_ports: In the order of the lines.
            relay: The address where the relay must be.

        Raises:
            StealtimeError: A call has no relay of its own.
        """
        missing = [port for port in caller_ports if port not in self.relays]
        if missing:
            raise StealtimeError(f"{len(missing)} of {len(caller_ports)} calls were not answered")
        strangers = [one for one in self.relays.values() if one.rpartition(":")[0] != relay]
        if strangers:
            raise StealtimeError(
                f"the voice of a call would go to {strangers[0]} and not to the relay at {relay}",
                hint="its proxy does not put its relay into the session descriptions",
            )
        if len(set(self.relays.values())) < len(self.relays):
            raise StealtimeError("the relay gave one port to two calls")
        return "".join(f"{self.relays[port]}\n" for port in caller_ports)

    @property
    def answer_times_ns(self) -> list[float]:
        """From the INVITE of each call to its 200."""
        return [float(at_ns - self.begun_ns[call]) for call, at_ns in self.answered_ns.items()]

    @property
    def end_times_ns(self) -> list[float]:
        """From the BYE of each call to its 200."""
        return [float(at_ns - self.left_ns[call]) for call, at_ns in self.ended_ns.items()]


def gather(messages: Iterable[LoggedMessage]) -> Answers:
    """Put the lines of the log together, call by call.

    Raises:
        StealtimeError: A call was answered twice, with different relays.
    """
    found = Answers()
    moments = {
        "begun": found.begun_ns,
        "answered": found.answered_ns,
        "leaving": found.left_ns,
        "ended": found.ended_ns,
    }
    for message in messages:
        call = int(message.user)
        moments[message.kind].setdefault(call, message.at_ns)
        if message.kind == "answered" and found.relays.setdefault(call, message.status) != message.status:
            raise StealtimeError(f"the call from port {call} was answered twice, with different relays")
    return found
