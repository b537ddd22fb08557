"""What ``[[probes]]`` takes of this study's probes. They are carried out by :mod:`.driver`."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from stealtime.campaigns.probe import Driver, Percentiles, Probe
from stealtime.hosts.host import FaultKind
from stealtime.lab.platforms.share import MAXIMUM_WEIGHT, MINIMUM_WEIGHT
from stealtime.studies.telephony.calls.plan import CALLS_MAX
from stealtime.studies.telephony.lengths import (
    APPLIANCES_MAX,
    FIRST_STAGE_CALL,
    GENERATORS_MAX,
    REGISTERED_MAX,
    STREAMS_OF_A_CALL,
)
from stealtime.studies.telephony.loads import (
    CallFailoverParameters,
    CallParameters,
    RegisterFailoverParameters,
    RegisterParameters,
    RegistrationRateParameters,
    SessionFailoverParameters,
    SessionRateParameters,
    TwoStageCallFailoverParameters,
    TwoStageFailoverParameters,
)
from stealtime.studies.telephony.parameters import (
    DEFAULT_ADVERTISEMENT_NS,
    DEFAULT_TIMER_F_NS,
    Media,
    Mode,
    PrimaryVictim,
    Roles,
    SessionVictim,
    StageVictim,
    Transport,
    Victim,
)
from stealtime.studies.telephony.server_cells import OF_SERVERS, ServerCells
from stealtime.vocabulary.quantities import DurationNs

ModeName = Literal["off", "no-net", "net", "net+bypass", "replicated"]
SurvivingModeName = Literal["no-net", "net", "net+bypass", "replicated"]
SurvivingFrontedModeName = Literal["no-net", "net", "net+bypass"]
SurvivingCallModeName = Literal["no-net", "net", "net+bypass", "net+no-net", "replicated"]
Rate = Annotated[float, Field(gt=0, le=100_000)]
Share = Annotated[float, Field(gt=0, le=10)]
Primaries = Annotated[int, Field(ge=2, le=3)]
"""The laboratory has a host for each of so many, beside the one that backs them."""
Standbys = Annotated[int, Field(ge=1, le=2)]
"""The laboratory has a second one beside three primaries."""
Streams = Annotated[int, Field(ge=STREAMS_OF_A_CALL, le=CALLS_MAX * STREAMS_OF_A_CALL, multiple_of=STREAMS_OF_A_CALL)]
StageStreams = Annotated[Streams, Field(le=(CALLS_MAX - FIRST_STAGE_CALL) * STREAMS_OF_A_CALL)]
Faults = list[FaultKind]
Generators = Annotated[int, Field(ge=1, le=GENERATORS_MAX)]
Appliances = Annotated[int, Field(ge=1, le=APPLIANCES_MAX)]
Weight = Annotated[int, Field(ge=MINIMUM_WEIGHT, le=MAXIMUM_WEIGHT)]


def _has_room(registered: int) -> int:
    if registered > REGISTERED_MAX:
        raise ValueError(
            f"{registered:,} users do not fit into the memory of the server in a guest; give at most {REGISTERED_MAX:,}"
        )
    return registered


RegisteredUsers = Annotated[int, Field(ge=0), AfterValidator(_has_room)]
TimerF = Annotated[DurationNs, Field(ge=500_000_000, le=DEFAULT_TIMER_F_NS)]
"""A phone that gives up before T1 has not even sent its request again."""
Advertisement = Annotated[DurationNs, Field(ge=10_000_000, le=40_950_000_000)]
"""VRRP counts hundredths of a second in twelve bits (RFC 5798, section 5.2.7)."""


class RegistrationRateCells(ServerCells):
    """``registration-rate``: how many registrations a second a server bears without a failure, searched."""

    parameters = RegistrationRateParameters

    probe: Literal["registration-rate"]
    """The name of the probe. The duration is that of each try; what is found is held for three times as long."""
    transport: list[Transport] = Field(default=["udp", "tcp-one", "tcp-each"], min_length=1)
    """How phones reach the server: over one UDP socket, over one TCP connection, or with a TCP connection each."""
    auth: list[bool] = Field(default=[False], min_length=1)
    """Whether the server challenges each phone and takes its password (digest, RFC 3261 section 22), or asks nobody. A
    registration is two requests then; it counts from the first one to the 200."""
    generators: list[Generators] = Field(default=[1], min_length=1)
    """How many SIPps offer each rate together: phones are dealt among them, as is the rate. More than one CPU can then
    offer it."""
    mode: list[ModeName] = Field(default=["off"], min_length=1)
    """How the server's guest is protected; natively only ``off`` is measured. ``replicated``: two guests that are not
    protected and tell each other what they know."""
    appliances: list[Appliances] = Field(default=[1], min_length=1)
    """How many of it are on the same host, each in a guest of its own; all have the same standby. The rate is that of
    all together."""


class SessionRateCells(ServerCells):
    """``session-rate``: how many sessions a second a server bears without a failure, each established and ended."""

    parameters = SessionRateParameters

    probe: Literal["session-rate"]
    """The name of the probe. The duration is that of each try; what is found is held for three times as long."""
    transport: list[Transport] = Field(default=["udp"], min_length=1)
    """As of ``registration-rate``, of callers; the server reaches phones over UDP, or over one TCP connection."""
    generators: list[Generators] = Field(default=[1], min_length=1)
    """As of ``registration-rate``, of callers; all phones that are called are those of one more."""
    mode: list[ModeName] = Field(default=["off"], min_length=1)
    """As of ``registration-rate``."""


_USUAL_LOAD = [{"rate_per_s": 100.0}]


class _RateOrShare(ServerCells):
    rate_per_s: list[Rate] = Field(default=[], alias="rate")
    """How many begin in a second; 100 where no share is given either."""
    share: list[Share] = Field(default=[])
    """Shares of what the unprotected server of one virtual CPU bears over this transport, which is searched first if it
    is not known; larger servers have the same loads."""

    def loads(self) -> list[dict[str, Any]]:
        """Every rate and share, with every combination of what else is asked for."""
        loads = [{"rate_per_s": rate} for rate in self.rate_per_s] + [{"share": share} for share in self.share]
        others = self.combined(leave_out=(*OF_SERVERS, "rate_per_s", "share"))
        return [{**other, **load} for other in others for load in loads or _USUAL_LOAD]


class RegisterCells(_RateOrShare):
    """``register``: phones register at a rate; how long that takes them, and what it costs the server and its host."""

    parameters = RegisterParameters

    probe: Literal["register"]
    """The name of the probe."""
    transport: list[Transport] = Field(default=["udp"], min_length=1)
    """As of ``registration-rate``."""
    auth: list[bool] = Field(default=[False], min_length=1)
    """As of ``registration-rate``; a share is then one of the rate of such registrations."""
    generators: list[Generators] = Field(default=[1], min_length=1)
    """As of ``registration-rate``."""
    mode: list[ModeName] = Field(default=["off", "net"], min_length=1)
    """As of ``registration-rate``."""
    appliances: list[Appliances] = Field(default=[1], min_length=1)
    """As of ``registration-rate``, but each has the load for itself: of two at 100 a second 200 register."""
    registered: list[RegisteredUsers] = Field(default=[0], min_length=1)
    """How many users the server knows before the load: they register as fast as it takes them, once it answers."""
    host_weight: list[Weight] = Field(default=[])
    """Weights of the CPU group into which the host side is put (members, daemons, and QEMU but for its virtual CPUs),
    as of cgroup v2: 100 is as much as any other group or task of the usual priority has. Where none is given, it is in
    no group of ours."""


class RegisterFailoverCells(_RateOrShare):
    """``register-failover``: a host of a protected server is lost while phones register."""

    parameters = RegisterFailoverParameters

    probe: Literal["register-failover"]
    """The name of the probe. Phones register for the duration before the fault, and as long after it."""
    transport: list[Transport] = Field(default=["udp"], min_length=1)
    """As of ``registration-rate``."""
    mode: list[SurvivingModeName] = Field(default=["net"], min_length=1)
    """How the server's guest is protected. ``no-net`` may lose what was acknowledged. ``replicated``: it is not, but
    there are two guests which replicate registrations and calls, and an address that moves."""
    advertisement_ns: list[Advertisement] = Field(
        default=[DEFAULT_ADVERTISEMENT_NS], alias="advertisement", min_length=1
    )
    """With ``replicated``: the times from one VRRP advertisement to the next, which stand for the interval there."""
    fault: Faults = Field(default=["killed"], min_length=1)
    """How the host is lost: ``killed``: the server's member and QEMU by SIGKILL; ``silent``: all its links lose all
    frames and its processes are gone (on a real host they stand still); ``planned``: its operator moves the server away
    (``stealtime protect failover``). ``replicated`` has the first only."""
    registered: list[RegisteredUsers] = Field(default=[0], min_length=1)
    """As of ``register``. Some of them are asked for after the failover, too."""
    victim: list[Victim] = Field(default=["primary"], min_length=1)
    """Which host is lost: ``primary``: where the server runs; ``standby``: the one that backs it. Phones then register
    until the server has been protected again for the duration. A host that fell silent comes back after the
    duration."""
    users: int | None = Field(default=None, ge=2, le=1_000_000)
    """How many phones register in all, instead of as many as there is time for; the fault falls in the middle."""

    @model_validator(mode="after")
    def _users_are_of_a_load_with_an_end(self) -> Self:
        if self.users is not None and "standby" in self.victim:
            raise ValueError(
                f"{self.users} users are not possible with the victim 'standby': phones register until the server is "
                "protected again"
            )
        return self


class SessionFailoverCells(_RateOrShare):
    """``session-failover``: a host of a protected server is lost while sessions are established and ended at once."""

    parameters = SessionFailoverParameters

    probe: Literal["session-failover"]
    """The name of the probe. Sessions begin for the duration before the fault, and as long after it."""
    transport: list[Transport] = Field(default=["udp"], min_length=1)
    """As of ``session-rate``, of which shares are."""
    fault: Faults = Field(default=["killed"], min_length=1)
    """As of ``register-failover``."""
    victim: list[SessionVictim] = Field(default=["primary"], min_length=1)
    """As of ``register-failover``, but that sessions begin for the duration after the fault, and no longer; a silent
    host comes back when they are over. Of the roles ``hosts`` ``primary`` is both hosts at once, and ``signalling`` or
    ``media`` that of one side alone."""
    roles: list[Roles] = Field(default=["together"], min_length=1)
    """As of ``call``."""
    mode: list[SurvivingCallModeName] = Field(default=["net"], min_length=1)
    """As of ``register-failover``, and ``net+no-net`` as of ``call``."""
    advertisement_ns: list[Advertisement] = Field(
        default=[DEFAULT_ADVERTISEMENT_NS], alias="advertisement", min_length=1
    )
    """As of ``register-failover``."""


class TwoStageFailoverCells(ServerCells):
    """``two-stage-failover``: one of several primaries behind fronts is added, then a host or a front is lost."""

    parameters = TwoStageFailoverParameters

    probe: Literal["two-stage-failover"]
    """The name of the probe. Phones register for the duration before the fault, and as long after it."""
    primaries: list[Primaries] = Field(default=[2], min_length=1)
    """How many there are when the host dies; the last one of them is added while phones register."""
    standbys: list[Standbys] = Field(default=[1], min_length=1)
    """How many hosts back them: the first primary has the first of these, the second one the second, and so on in
    turn."""
    transport: list[Transport] = Field(default=["udp"], min_length=1)
    """As of ``registration-rate``; over TCP fronts reach primaries over TCP, too."""
    fault: Faults = Field(default=["killed"], min_length=1)
    """As of ``register-failover``."""
    mode: list[SurvivingFrontedModeName] = Field(default=["net"], min_length=1)
    """How each primary is protected."""
    victim: list[StageVictim] = Field(default=["primary"], min_length=1)
    """What is lost: ``primary``: the host of the first primary; ``all-primaries``: the hosts of all primaries at once,
    which have one standby; ``front``: one of the fronts, whose phones turn to the next target of their own SRV order
    (RFC 3263, section 4.3)."""
    timer_f_ns: list[TimerF] = Field(default=[DEFAULT_TIMER_F_NS], alias="timer_f", min_length=1)
    """With the victim ``front``: how long phones wait for an answer before they turn to the next target."""
    rate_per_s: list[Rate] = Field(default=[100.0], alias="rate", min_length=1)
    """Registrations a second, at all fronts together."""

    def loads(self) -> list[dict[str, Any]]:
        """Every load; how long phones wait tells cells apart where a front is lost, and nowhere else."""
        loads = super().loads()
        return [
            one if one["victim"] == "front" else {**one, "timer_f_ns": DEFAULT_TIMER_F_NS}
            for one in loads
            if one["victim"] == "front" or one["timer_f_ns"] == self.timer_f_ns[0]
        ]


class TwoStageCallFailoverCells(ServerCells):
    """``two-stage-call-failover``: hosts of primaries behind fronts are lost while calls are up through both stages."""

    parameters = TwoStageCallFailoverParameters

    probe: Literal["two-stage-call-failover"]
    """The name of the probe. Both ends speak for the duration before the fault, and for that and three seconds after
    it; some phones register meanwhile. All over UDP."""
    primaries: list[Primaries] = Field(default=[2], min_length=1)
    """How many there are."""
    standbys: list[Standbys] = Field(default=[1], min_length=1)
    """As of ``two-stage-failover``."""
    streams: list[StageStreams] = Field(default=[20], min_length=1)
    """As of ``call``, of all primaries together."""
    fault: Faults = Field(default=["killed"], min_length=1)
    """As of ``register-failover``."""
    mode: list[SurvivingFrontedModeName] = Field(default=["net+bypass"], min_length=1)
    """How each primary is protected."""
    victim: list[PrimaryVictim] = Field(default=["primary"], min_length=1)
    """What is lost: ``primary``: the host of the first primary; ``all-primaries``: the hosts of all at once."""


class _CallCells(ServerCells):
    renamed: ClassVar[Mapping[str, str]] = {"placement": "roles"}  # old name

    streams: list[Streams] = Field(default=[10], min_length=1)
    """How many streams of voice the server relays, one way each: a call has two of them."""
    transport: list[Transport] = Field(default=["udp"], min_length=1)
    """Of signalling, as of ``session-rate``. Voice is always over UDP."""
    media: list[Media] = Field(default=["relay"], min_length=1)
    """What the server does with voice: ``relay``: it passes packets on; ``transcoding``: phones speak G.722 and callers
    G.711, and it puts what either says into the other's codec. Both are asked of the same server."""
    roles: list[Roles] = Field(default=["together"], min_length=1)
    """Whether signalling and media share a guest, have one each beside each other on the same host (``apart``), or
    each on a host of its own (``hosts``), which one more host backs. The mode ``net+no-net`` is for two guests only,
    ``replicated`` for servers that do both."""
    advertisement_ns: list[Advertisement] = Field(
        default=[DEFAULT_ADVERTISEMENT_NS], alias="advertisement", min_length=1
    )
    """As of ``register-failover``."""


class CallCells(_CallCells):
    """``call``: calls are up at once, with their voice relayed by the server; what both ends hear."""

    parameters = CallParameters

    probe: Literal["call"]
    """The name of the probe. The duration is how long both ends of every call speak."""
    mode: list[Mode] = Field(default=["no-net", "net", "net+bypass"], min_length=1)
    """How the server's guest is protected; natively only ``off`` is measured. In ``net+bypass`` voice is not held.
    ``net+no-net``: signalling in net, media in no-net, in two guests."""
    registered: list[RegisteredUsers] = Field(default=[0], min_length=1)
    """As of ``register``."""
    host_weight: list[Weight] = Field(default=[])
    """As of ``register``."""
    while_borne: bool = False
    """Whether a number of streams is tried only as long as the same server has not lost more than 3 % of the voice of
    fewer: so a sweep ends at the machine's limit, and what is not tried says so."""


class CallFailoverCells(_CallCells):
    """``call-failover``: a host of a protected server is lost while calls are up and some phones register."""

    parameters = CallFailoverParameters

    probe: Literal["call-failover"]
    """The name of the probe. Both ends speak for the duration before the fault, and for that and
    three seconds after it; where the standby is lost, for eight seconds after there is a host for the next one."""
    mode: list[SurvivingCallModeName] = Field(default=["net+bypass"], min_length=1)
    """As of ``call``. ``no-net`` may lose what was acknowledged."""
    fault: Faults = Field(default=["killed"], min_length=1)
    """As of ``register-failover``."""
    victim: list[SessionVictim] = Field(default=["primary"], min_length=1)
    """Which host is lost: ``primary``: where the server runs, of the roles ``hosts`` both at once; ``signalling`` or
    ``media``: of these roles that of one side alone; ``standby``: the one that backs it. A silent standby comes back
    after the duration."""


TELEPHONY = Driver(scenario="telephony", takes_real_hosts=True, module="stealtime.studies.telephony.driver")
_SILENCE_OF_PHONES = "the longest time in which no phone was answered"
_SILENCE_OF_VOICE = "the longest silence of any caller or phone"
PROBES = (
    Probe(name="registration-rate", cells=RegistrationRateCells, short=("transport", "auth"), driver=TELEPHONY),
    Probe(name="session-rate", cells=SessionRateCells, short=("transport",), driver=TELEPHONY),
    Probe(
        name="register",
        cells=RegisterCells,
        short=("transport", "mode", "min_interval_ns", "share", "auth"),
        driver=TELEPHONY,
        bounded="the longest registration",
        percentiles=Percentiles("a registration's time", ("50", "99")),
    ),
    Probe(
        name="register-failover",
        cells=RegisterFailoverCells,
        short=("transport", "mode", "fault", "victim"),
        driver=TELEPHONY,
        bounded=_SILENCE_OF_PHONES,
    ),
    Probe(
        name="session-failover",
        cells=SessionFailoverCells,
        short=("transport", "mode", "fault", "victim", "roles"),
        driver=TELEPHONY,
        bounded="the longest time in which no caller was answered",
    ),
    Probe(
        name="two-stage-failover",
        cells=TwoStageFailoverCells,
        short=("transport", "mode", "fault", "victim", "primaries", "standbys"),
        driver=TELEPHONY,
        bounded=_SILENCE_OF_PHONES,
    ),
    Probe(
        name="two-stage-call-failover",
        cells=TwoStageCallFailoverCells,
        short=("streams", "mode", "fault", "victim", "primaries", "standbys"),
        driver=TELEPHONY,
        bounded=_SILENCE_OF_VOICE,
    ),
    Probe(
        name="call",
        cells=CallCells,
        short=("streams", "transport", "mode", "roles", "interval_ns", "media"),
        driver=TELEPHONY,
        bounded=_SILENCE_OF_VOICE,
    ),
    Probe(
        name="call-failover",
        cells=CallFailoverCells,
        short=("streams", "transport", "mode", "fault", "victim", "roles", "media"),
        driver=TELEPHONY,
        bounded=_SILENCE_OF_VOICE,
    ),
)
