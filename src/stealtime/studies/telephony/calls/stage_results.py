"""What is stored of calls through two stages whose primaries lost hosts, told apart by primary. Times are in ns."""

from collections.abc import Callable, Collection, Sequence
from typing import Literal

from stealtime.campaigns.driven_result import DrivenResult
from stealtime.studies.telephony.calls.results import Dialogues, RegistrationsMeanwhile, StreamVoice, Voice
from stealtime.studies.telephony.parameters import PrimaryVictim
from stealtime.studies.telephony.results import PrimaryUsers, longest_silence, primaries_lost
from stealtime.vocabulary.readings import Model


class PrimaryCalls(Model):
    """The calls that one of several primaries proxied and relayed: it is that of the user who was called."""

    host: str
    """Where it was before the fault."""
    standby: str
    """The host that backs it."""
    calls: int
    """All of them were answered."""
    kept: int
    """Whose BYE was answered with 200: the server still knew them."""
    streams_heard: int
    """Of two of each call: those of which anything came."""
    streams_unended: int
    """Of which nothing came any more after their longest silence, though they had not told their end."""
    sent: int
    """Packets of the streams that were heard, as far as their receivers know."""
    received: int
    late: int
    """Of those received: too late to be played."""
    silence_ns: int | None
    """The longest of any of its streams; it contains the 20 ms between two packets. None: it had none."""
    silence_began_ns: int | None

    @property
    def lost(self) -> int:
        """Packets that never came."""
        return self.sent - self.received


class TwoStageCallFailover(DrivenResult):
    """Hosts of primaries behind fronts were lost while calls were up, with their voice, and some phones registered."""

    kind: Literal["two-stage-call-failover"] = "two-stage-call-failover"
    victim: PrimaryVictim = "primary"
    host: str
    """That was lost; where several were, their names with commas between."""
    survived: str
    """That took over what was lost; where several did, their names with commas between."""
    fault_ns: int
    running_ns: int
    """When the guest ran again; of several, the last one."""
    lost_within_ns: int
    """Where several hosts were lost: how long after the first one the last one was."""
    clock_error_ns: int = 0
    """How far moments of hosts can be off, where clocks of other machines told them."""
    seed: int
    """Of the callers' choice of a front."""
    fronts: dict[str, int]
    """How many callers turned to each front, by what the name server said."""
    dialogues: Dialogues
    """Of all calls."""
    voice: Voice
    """Of all calls."""
    calls: list[PrimaryCalls]
    """Of each primary, in the order in which they were added: where the host of one was lost, that of the first."""
    registrations: RegistrationsMeanwhile
    """Of all phones that registered meanwhile; their silences are told by primary."""
    users: list[PrimaryUsers]
    """Of each primary, those that registered meanwhile."""

    @property
    def _died(self) -> int:
        return primaries_lost(self.victim, len(self.calls))

    @property
    def died(self) -> list[PrimaryCalls]:
        """Of the primaries whose hosts were lost."""
        return self.calls[: self._died]

    @property
    def others(self) -> list[PrimaryCalls]:
        return self.calls[self._died :]

    @property
    def gap_ns(self) -> int | None:
        """The longest silence of any end of their calls, where it holds the fault; else the failover was not heard."""
        silent = max(
            (one for one in self.died if one.silence_ns is not None), key=lambda one: one.silence_ns or 0, default=None
        )
        if silent is None or silent.silence_began_ns is None or silent.silence_ns is None:
            return None
        is_it = silent.silence_began_ns <= self.running_ns and (
            silent.silence_began_ns + silent.silence_ns >= self.fault_ns
        )
        return silent.silence_ns if is_it else None

    @property
    def others_voice_silence_ns(self) -> int | None:
        """The longest silence of any end of the others' calls, whenever it was."""
        return max((one.silence_ns for one in self.others if one.silence_ns is not None), default=None)

    @property
    def silence_ns(self) -> int | None:
        """The longest time in which no user of what was lost was acknowledged; None: it had no end."""
        return longest_silence(one.silence_ns for one in self.users[: self._died])

    @property
    def others_silence_ns(self) -> int | None:
        """The same of the users of that other primary which had the longest."""
        return longest_silence(one.silence_ns for one in self.users[self._died :])

    @property
    def others_silence_before_ns(self) -> int | None:
        """Of the same users, before the fault: few register, so that some time passes between any two."""
        others = self.users[self._died :]
        return max((one.silence_before_ns for one in others if one.silence_before_ns is not None), default=None)


def calls_by_primary(
    streams: Sequence[StreamVoice], owner: Callable[[int], int], primaries: int
) -> list[list[StreamVoice]]:
    """Deal the streams that were heard to the primaries that relayed them.

    Args:
        streams: They name their calls.
        owner: Gives the number of the primary of a call.
        primaries: How many there are.
    """
    dealt: list[list[StreamVoice]] = [[] for _ in range(primaries)]
    for stream in streams:
        if stream.call is not None:
            dealt[owner(stream.call)].append(stream)
    return dealt


def primary_calls(
    host: str, standby: str, calls: Sequence[int], kept: Collection[int], streams: Sequence[StreamVoice]
) -> PrimaryCalls:
    """Put together what became of the calls of a primary.

    Args:
        host: Where it was.
        standby: The host that backs it.
        calls: The numbers of its calls.
        kept: Of all primaries' calls, those that were ended with 200.
        streams: That were heard of its calls.
    """
    silent = max(
        (one for one in streams if one.silence_ns is not None), key=lambda one: one.silence_ns or 0, default=None
    )
    return PrimaryCalls(
        host=host,
        standby=standby,
        calls=len(calls),
        kept=sum(call in kept for call in calls),
        streams_heard=len(streams),
        streams_unended=sum(not one.silence_ended for one in streams),
        sent=sum(one.sent for one in streams),
        received=sum(one.received for one in streams),
        late=sum(one.late for one in streams),
        silence_ns=None if silent is None else silent.silence_ns,
        silence_began_ns=None if silent is None else silent.silence_began_ns,
    )
