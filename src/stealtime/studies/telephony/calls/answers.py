"""What the callers' SIPp writes down of each call: where the relay hears its voice, and that it was ended.

A line for each thing that happens, as ``scenarios/caller.xml`` has them; the caller's media port names the call.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from stealtime.studies.telephony.calls.relays import told_relays
from stealtime.studies.telephony.sipp.log import LoggedMessage


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
    dialogues: dict[int, str] = field(default_factory=dict)
    """Call-ID, tags of caller and phone, route and target of each, with commas between them."""

    @property
    def answer_times_ns(self) -> list[float]:
        """From the INVITE of each call to its 200."""
        return [float(at_ns - self.begun_ns[call]) for call, at_ns in self.answered_ns.items()]

    @property
    def end_times_ns(self) -> list[float]:
        """From the BYE of each call to its 200."""
        return [float(at_ns - self.left_ns[call]) for call, at_ns in self.ended_ns.items()]

    def left_before(self, at_ns: int) -> list[int]:
        """Give the calls that began to hang up before a moment."""
        return [call for call, left_ns in self.left_ns.items() if left_ns < at_ns]


def gather(messages: Iterable[LoggedMessage]) -> Answers:
    """Put the lines of the callers' log together, call by call.

    Raises:
        StealtimeError: A call was answered twice, with different relays.
    """
    known = list(messages)
    found = Answers(relays=told_relays(known, "answered"))
    moments = {
        "begun": found.begun_ns,
        "answered": found.answered_ns,
        "leaving": found.left_ns,
        "ended": found.ended_ns,
    }
    for message in known:
        if message.kind == "dialogue":
            found.dialogues[int(message.user)] = message.status
            continue
        moments[message.kind].setdefault(int(message.user), message.at_ns)
    return found
