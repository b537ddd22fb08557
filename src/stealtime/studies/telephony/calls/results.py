"""What is stored of a trial with calls. Times are in ns; moments are those of one monotonic clock."""

from collections.abc import Sequence
from statistics import quantiles
from typing import Literal

from pydantic import Field

from stealtime.campaigns.driven_result import DrivenResult
from stealtime.hosts.checkpoints import Checkpoints
from stealtime.studies.telephony.appliance.root import Role
from stealtime.studies.telephony.generators.work import StandbyUse, Work
from stealtime.studies.telephony.parameters import SessionVictim
from stealtime.studies.telephony.results import Unprotected
from stealtime.vocabulary.readings import Model


class Spread(Model):
    """Five numbers of many: what a box plot draws."""

    min: float
    q1: float
    median: float
    q3: float
    max: float


def spread_of(values: Sequence[float]) -> Spread | None:
    """Give the five numbers of a box plot; None of nothing."""
    if not values:
        return None
    q1, median, q3 = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return Spread(min=min(values), q1=q1, median=median, q3=q3, max=max(values))


Towards = Literal["phones", "callers"]
"""Who hears."""


class StreamVoice(Model):
    """What one caller or phone heard."""

    towards: Towards = "phones"
    """Runs from before phones spoke have this direction only."""
    call: int | None = None
    """The number of its call; None in older runs."""
    sent: int
    """As far as the receiver knows: what came after the last packet that it got may be missing here."""
    received: int
    late: int
    """Of those received: too late to be played."""
    reordered: int
    delay_ns: Spread | None
    """None where nothing came."""
    jitter_ns: float | None
    """The most that RFC 3550 section 6.4.1 gave at any time."""
    silence_ns: int | None
    """From one packet to the next at most; it contains the 20 ms between two packets."""
    silence_began_ns: int | None = None
    """None of a stream without one, and in older runs."""
    silence_ended: bool = True
    """Whether a packet ended that; if not, nothing was heard any more, though the stream had not told its end."""
    mos: float | None
    """What a listener would say on the average, by the E-model (ITU-T G.107); None of voice that was transcoded, which
    that says nothing of."""


class Direction(Model):
    """The voice towards all phones, or towards all callers."""

    towards: Towards
    sent: int
    received: int
    late: int
    delay_ns: Spread | None
    """None where nothing came."""
    jitter_ns: float | None
    """Of the worst stream."""
    silence_ns: int | None
    """Of the worst stream."""

    @property
    def lost(self) -> int:
        """Packets that never came."""
        return self.sent - self.received


class Transcoded(Model):
    """What tells of voice that the server puts into another codec: a tone in each packet, by which it is known."""

    phones_codec: str
    """What phones speak; callers speak PCMU."""
    heard: int
    """Packets that came in the codec of who heard them."""
    passed_on: int
    """That came in another one."""
    odd: int
    """That are no voice, or of no known place in their stream."""
    judged: int
    """Those heard in the middle of a tone, whose predecessor was heard, too: what they say is known."""
    right: int
    """Of these, the ones that say it: the tone that their stream has at this place."""
    source_changes: int
    """How often a stream got another source number (SSRC) meanwhile."""
    renumbered: int
    """How often what a stream says did not go on with its sequence numbers: who numbers it had begun anew."""


class Voice(Model):
    """What callers and phones heard of each other: two streams of each call, through the relay."""

    streams: int
    """That were sent, one way each."""
    heard: int
    """Of which anything came."""
    sent: int
    """By those that spoke."""
    refused: int
    """By the kernel of who spoke: they are lost to who should hear them, but not on the way."""
    received: int
    duplicated: int
    reordered: int
    late: int
    delay_ns: Spread | None
    """Of all packets."""
    jitter_ns: float | None
    """Of the worst stream."""
    silence_ns: int | None
    """Of the worst stream: from one packet to the next."""
    silence_began_ns: int | None
    sender_late_p99_ns: int | None
    """How late the later one of both senders was itself: less than this says nothing about the path."""
    directions: list[Direction] = Field(default=[])
    """Towards phones, and towards callers; nothing in runs from before phones spoke."""
    each: list[StreamVoice]
    """The streams that were heard."""
    invalid: list[str]
    """Why the figures may not be used; nothing where they may."""
    limits: list[str]
    transcoded: Transcoded | None = None
    """None where the server passes voice on."""

    @property
    def lost(self) -> int:
        """Packets that never came."""
        return self.sent - self.received

    @property
    def lost_share(self) -> float:
        """Of those sent."""
        return self.lost / self.sent if self.sent else 0.0

    @property
    def mos(self) -> list[float]:
        """Of each stream that was heard, where it is known."""
        return [stream.mos for stream in self.each if stream.mos is not None]


class Dialogues(Model):
    """What the callers saw of their calls."""

    begun: int
    answered: int
    """With 200, and a port of the relay for the voice."""
    ended: int
    """Whose BYE was answered with 200: the server still knew them."""
    ended_anew: int = 0
    """Over TCP, of the others those whose BYE was answered over a new connection: theirs was lost."""
    retransmissions: int
    """Of the callers' requests, because no answer came in time."""
    callee_retransmissions: int
    """Of the phones' answers."""
    connections_lost: int = 0
    """Over TCP, of callers and phones, as far as they were told."""
    failed: int
    """As SIPp counts them: an unexpected answer, or none at all."""
    answer_ns: Spread | None
    """From the INVITE to its 200."""
    end_ns: Spread | None
    """From the BYE to its 200."""

    @property
    def kept(self) -> int:
        """Calls that the server still knew."""
        return self.ended + self.ended_anew


class HostOfCalls(Model):
    """A host that kept guests of a server, while the voice went on."""

    host: str
    runs: list[Role]
    """What each guest did that ran there when it began; none where the host only stood by."""
    guests_ns: int
    """CPU time of the virtual CPUs of the guests that ran there."""
    side_ns: int | None
    """Of the rest: of QEMUs, members and the host's daemon."""


class _WithCalls(DrivenResult):
    dialogues: Dialogues
    voice: Voice


class Calls(_WithCalls):
    """Calls that were all up at once, each with its voice, and were then hung up."""

    kind: Literal["calls"] = "calls"
    server_cpu_ns: int
    """That the server used while the voice went on: its guests' virtual CPUs together, or its processes."""
    host_cpu_ns: int | None
    """That the host side used for it: the rest of QEMU, and the members; None natively."""
    elapsed_ns: int
    """Of both."""
    checkpoints: Checkpoints | None = None
    """Of its guests, while the voice went on; None without protection, and in older runs."""
    hosts: list[HostOfCalls] = Field(default=[])
    """Each that kept guests; none natively, and in older runs."""
    weighed: str | None = None
    """As of :class:`stealtime.studies.telephony.results.Registrations`, like all that follows."""
    work: Work | None = None
    standby: StandbyUse | None = None


class Moment(Model):
    """Something that happened in a failover."""

    what: str
    at_ns: int


class RegistrationsMeanwhile(Model):
    """Phones that registered over UDP while the host died."""

    sent: int
    acknowledged: int
    """With 200."""
    lost: int
    """Of those acknowledged: users that the surviving server does not know."""
    silence_ns: int | None = None
    """The longest time between two acknowledgements that ends after the fault; None: none came any more, or an older
    run."""
    silence_before_ns: int | None = None
    """The longest one before the fault; None: there were no two, or an older run."""


class CallFailover(_WithCalls):
    """Calls were up with their voice while their host was lost, or the one that backs it."""

    kind: Literal["call-failover"] = "call-failover"
    victim: SessionVictim = "primary"
    unprotected: Unprotected | None = None
    """Where the standby was lost."""
    registrations: RegistrationsMeanwhile
    fault_ns: int
    running_ns: int | None
    """When the guest ran again; None where it ran on, as its standby was lost."""
    moments: list[Moment]
    """In their order."""
    clock_error_ns: int = 0
    """How far moments of hosts can be off, where clocks of other machines told them."""

    @property
    def gap_ns(self) -> int | None:
        """The longest silence of any caller or phone, where it holds the fault; else the failover was not heard."""
        voice = self.voice
        if voice.silence_ns is None or voice.silence_began_ns is None:
            return None
        ends_ns = voice.silence_began_ns + voice.silence_ns
        is_it = voice.silence_began_ns <= self.over_ns and ends_ns >= self.fault_ns
        return voice.silence_ns if is_it else None

    @property
    def over_ns(self) -> int:
        """When the server could be heard again: its guest ran, or it was alone and nothing was held any more."""
        if self.running_ns is not None:
            return self.running_ns
        return self.fault_ns + (0 if self.unprotected is None else self.unprotected.fault_to_alone_ns)
