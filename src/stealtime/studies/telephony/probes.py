"""What ``[[probes]]`` takes of this study's probes. They are carried out by :mod:`.driver`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, JsonValue, model_validator

from stealtime.campaigns.booted import Booted
from stealtime.campaigns.planned import PlannedBoot
from stealtime.campaigns.probe import Driver, Probe, ProbeCells, ShortProbe, whole
from stealtime.lab.platforms.traits import PlatformTraits
from stealtime.lab.scenarios.placement import Placement
from stealtime.studies.telephony.calls.numbers import BEGUN_PER_S, CALLS_MAX, STREAMS_OF_A_CALL
from stealtime.studies.telephony.registrations.saturation import HELD_TRIES
from stealtime.vocabulary.quantities import DurationNs

Interval = Annotated[DurationNs, Field(ge=5_000_000)]
TransportName = Literal["udp", "tcp-one", "tcp-each"]
ModeName = Literal["off", "no-net", "net", "net+bypass", "replicated"]
SurvivingModeName = Literal["no-net", "net", "net+bypass", "replicated"]
SurvivingFrontedModeName = Literal["no-net", "net", "net+bypass"]
CallModeName = Literal["off", "no-net", "net", "net+bypass", "net+no-net", "replicated"]
SurvivingCallModeName = Literal["no-net", "net", "net+bypass", "net+no-net", "replicated"]
RolesName = Literal["together", "apart"]
Rate = Annotated[float, Field(gt=0, le=100_000)]
Share = Annotated[float, Field(gt=0, le=10)]
Primaries = Annotated[int, Field(ge=2, le=3)]
"""The laboratory has a host for each of so many, beside the one that backs them."""
Streams = Annotated[int, Field(ge=STREAMS_OF_A_CALL, le=CALLS_MAX * STREAMS_OF_A_CALL, multiple_of=STREAMS_OF_A_CALL)]
Advertisement = Annotated[DurationNs, Field(ge=10_000_000, le=40_950_000_000)]
"""VRRP counts hundredths of a second in twelve bits (RFC 5798, section 5.2.7)."""
DEFAULT_INTERVAL_NS = 100_000_000
DEFAULT_ADVERTISEMENT_NS = 1_000_000_000
"""What keepalived does unless it is told otherwise; the other server takes over when three of them are missing."""
ROLES_ONLY: Mapping[str, RolesName] = {"net+no-net": "apart", "replicated": "together"}
"""The modes that there are only with these roles."""


class ServerCells(ProbeCells):
    """Cells of servers that are protected in several modes, each with everything that is asked of them."""

    mode: Sequence[CallModeName]
    interval_ns: list[Interval] = Field(default=[DEFAULT_INTERVAL_NS], alias="interval", min_length=1)
    """The times from one checkpoint to the next."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """Every server with every load."""
        return [{**server, **load} for server, load in product(self.servers(), self.loads())]

    def servers(self) -> list[dict[str, JsonValue]]:
        """Give the parameters of each server: every mode with every interval and roles, and those unprotected.

        The interval of ``replicated`` is that from one advertisement to the next. That signalling and media are
        together is not said.
        """
        advertisements_ns = getattr(self, "advertisement_ns", [DEFAULT_ADVERTISEMENT_NS])
        sets: list[dict[str, JsonValue]] = []
        for roles, mode in product(getattr(self, "roles", ["together"]), self.mode):
            where = {} if roles == "together" else {"roles": roles}
            if roles != ROLES_ONLY.get(mode, roles):
                continue
            if mode == "off":
                sets.append({"mode": mode, **where})
            else:
                times_ns = advertisements_ns if mode == "replicated" else self.interval_ns
                sets += [{"mode": mode, "interval_ns": interval_ns, **where} for interval_ns in times_ns]
        return sets

    def loads(self) -> list[dict[str, JsonValue]]:
        """Give every combination of what is asked of a server."""
        return [
            {name: number(value) if isinstance(value, float) else value for name, value in one.items()}
            for one in self.combined(leave_out=_OF_SERVERS)
        ]


_OF_SERVERS = ("mode", "interval_ns", "advertisement_ns", "roles")


def number(value: float) -> int | float:
    """Give a whole number as such: it stands in the names of cells."""
    return int(value) if value == int(value) else value


class RegistrationRateCells(ServerCells):
    """``registration-rate``: how many registrations a second a server bears without a failure, searched."""

    probe: Literal["registration-rate"]
    """The name of the probe. The duration is that of each try; what is found is held for three times as long."""
    transport: list[TransportName] = Field(default=["udp", "tcp-one", "tcp-each"], min_length=1)
    """How phones reach the server: over one UDP socket, over one TCP connection, or with a TCP connection each."""
    mode: list[ModeName] = Field(default=["off"], min_length=1)
    """How the server's guest is protected; natively only ``off`` is measured. ``replicated``: two guests that are not
    protected and tell each other what they know."""


class SessionRateCells(ServerCells):
    """``session-rate``: how many sessions a second a server bears without a failure, each established and ended."""

    probe: Literal["session-rate"]
    """The name of the probe. The duration is that of each try; what is found is held for three times as long."""
    mode: list[ModeName] = Field(default=["off"], min_length=1)
    """As of ``registration-rate``."""


class ShortRate(ShortProbe):
    """``[short.registration-rate]``."""

    transport: list[TransportName] | None = Field(default=None, min_length=1)
    """Replaces its transports."""


class ShortRegister(ShortRate):
    """``[short.register]``."""

    mode: list[ModeName] | None = Field(default=None, min_length=1)
    """Replaces its modes."""
    share: list[Share] | None = Field(default=None, min_length=1)
    """Replaces its shares."""


class ShortFailover(ShortRate):
    """``[short.register-failover]``."""

    mode: list[SurvivingModeName] | None = Field(default=None, min_length=1)
    """Replaces its modes."""


class RegisterCells(ServerCells):
    """``register``: phones register at a rate; how long that takes them, and what it costs the server and its host."""

    probe: Literal["register"]
    """The name of the probe."""
    transport: list[TransportName] = Field(default=["udp"], min_length=1)
    """As of ``registration-rate``."""
    mode: list[ModeName] = Field(default=["off", "net"], min_length=1)
    """As of ``registration-rate``."""
    rate_per_s: list[Rate] = Field(default=[], alias="rate")
    """Registrations a second."""
    share: list[Share] = Field(default=[])
    """Shares of what the unprotected server bears over this transport, which is searched first if it is not known."""

    def loads(self) -> list[dict[str, JsonValue]]:
        """Every transport at every rate and share."""
        rates: list[dict[str, JsonValue]] = [{"rate_per_s": number(rate)} for rate in self.rate_per_s]
        shares: list[dict[str, JsonValue]] = [{"share": number(share)} for share in self.share]
        loads = [*rates, *shares] or [{"rate_per_s": 100}]
        return [{"transport": transport, **load} for transport, load in product(self.transport, loads)]


class RegisterFailoverCells(ServerCells):
    """``register-failover``: the host of a protected server dies while phones register."""

    probe: Literal["register-failover"]
    """The name of the probe. Phones register for the duration before the fault, and as long after it."""
    transport: list[TransportName] = Field(default=["udp"], min_length=1)
    """As of ``registration-rate``."""
    mode: list[SurvivingModeName] = Field(default=["net"], min_length=1)
    """How the server's guest is protected. ``no-net`` may lose what was acknowledged. ``replicated``: it is not, but
    there are two guests which replicate registrations and calls, and an address that moves."""
    advertisement_ns: list[Advertisement] = Field(
        default=[DEFAULT_ADVERTISEMENT_NS], alias="advertisement", min_length=1
    )
    """With ``replicated``: the times from one VRRP advertisement to the next, which stand for the interval there."""
    rate_per_s: list[Rate] = Field(default=[100.0], alias="rate", min_length=1)
    """Registrations a second."""
    users: int | None = Field(default=None, ge=2, le=1_000_000)
    """How many phones register in all, instead of as many as there is time for; the fault falls in the middle."""


class TwoStageFailoverCells(ServerCells):
    """``two-stage-failover``: one of several primaries behind fronts is added, then the host of another one dies."""

    probe: Literal["two-stage-failover"]
    """The name of the probe. Phones register for the duration before the fault, and as long after it."""
    primaries: list[Primaries] = Field(default=[2], min_length=1)
    """How many there are when the host dies; the last one of them is added while phones register."""
    transport: list[TransportName] = Field(default=["udp"], min_length=1)
    """As of ``registration-rate``; over TCP fronts reach primaries over TCP, too."""
    mode: list[SurvivingFrontedModeName] = Field(default=["net"], min_length=1)
    """How each primary is protected."""
    rate_per_s: list[Rate] = Field(default=[100.0], alias="rate", min_length=1)
    """Registrations a second, at all fronts together."""


class ShortTwoStageFailover(ShortRate):
    """``[short.two-stage-failover]``."""

    mode: list[SurvivingFrontedModeName] | None = Field(default=None, min_length=1)
    """Replaces its modes."""
    primaries: list[Primaries] | None = Field(default=None, min_length=1)
    """Replaces its numbers of primaries."""


class _CallCells(ServerCells):
    renamed: ClassVar[Mapping[str, str]] = {"placement": "roles"}  # old name

    streams: list[Streams] = Field(default=[10], min_length=1)
    """How many streams of voice the server relays, one way each: a call has two of them."""
    roles: list[RolesName] = Field(default=["together"], min_length=1)
    """Whether signalling and media share a guest, or have one each beside each other on the same host (``apart``).
    The mode ``net+no-net`` is for two guests only, ``replicated`` for servers that do both."""
    advertisement_ns: list[Advertisement] = Field(
        default=[DEFAULT_ADVERTISEMENT_NS], alias="advertisement", min_length=1
    )
    """As of ``register-failover``."""

    @model_validator(mode="after")
    def _every_mode_has_its_roles(self) -> Self:
        for mode in self.mode:
            only = ROLES_ONLY.get(mode)
            if only is not None and only not in self.roles:
                raise ValueError(f"the mode {mode!r} needs the roles {only!r}")
        return self


class CallCells(_CallCells):
    """``call``: calls are up at once, with their voice relayed by the server; what both ends hear."""

    probe: Literal["call"]
    """The name of the probe. The duration is how long both ends of every call speak."""
    mode: list[CallModeName] = Field(default=["no-net", "net", "net+bypass"], min_length=1)
    """How the server's guest is protected; natively only ``off`` is measured. In ``net+bypass`` voice is not held.
    ``net+no-net``: signalling in net, media in no-net, in two guests."""


class ShortCalls(ShortProbe):
    """``[short.call]``."""

    streams: list[Streams] | None = Field(default=None, min_length=1)
    """Replaces its numbers of streams."""
    mode: list[CallModeName] | None = Field(default=None, min_length=1)
    """Replaces its modes."""
    roles: list[RolesName] | None = Field(default=None, min_length=1)
    """Replaces its roles."""
    interval_ns: list[Interval] | None = Field(default=None, alias="interval", min_length=1)
    """Replaces its intervals."""


class CallFailoverCells(_CallCells):
    """``call-failover``: the host of a protected server dies while calls are up and some phones register."""

    probe: Literal["call-failover"]
    """The name of the probe. Both ends speak for the duration before the fault, and for that and
    three seconds after it."""
    mode: list[SurvivingCallModeName] = Field(default=["net+bypass"], min_length=1)
    """As of ``call``. ``no-net`` may lose what was acknowledged."""


class ShortCallFailover(ShortProbe):
    """``[short.call-failover]``."""

    streams: list[Streams] | None = Field(default=None, min_length=1)
    """Replaces its numbers of streams."""
    mode: list[SurvivingCallModeName] | None = Field(default=None, min_length=1)
    """Replaces its modes."""
    roles: list[RolesName] | None = Field(default=None, min_length=1)
    """Replaces its roles."""


def suits(traits: PlatformTraits, parameters: Mapping[str, JsonValue]) -> bool:
    """Tell whether a server of this mode can be had on a platform: without a guest there is nothing to protect."""
    return not traits.is_native or (parameters["mode"] == "off" and "roles" not in parameters)


@asynccontextmanager
async def _boot(boot: PlannedBoot, placement: Placement, folder: Path) -> AsyncIterator[Booted]:
    from stealtime.studies.telephony.driver import telephony_driver

    async with telephony_driver(boot, placement, folder) as driver:
        yield driver


def _refuse(boot: PlannedBoot, placement: Placement) -> None:
    from stealtime.studies.telephony.driver import refuse

    refuse(boot, placement)


# As seen on a host of 2 CPUs. A server that is another one than that of the last cell is booted in its first trial.
_BOOT_S = 4.0
_SETTING_UP_S = 6.0
_ASKING_S = 3.0
_ADDED_S = 12.0
_TRIES_OF_A_RATE = 12
_UNANSWERED_S = 8.0


def _searched_beyond_s(_parameters: Mapping[str, JsonValue], duration_s: float) -> float:
    return _BOOT_S + (_TRIES_OF_A_RATE + HELD_TRIES - 1) * duration_s + _UNANSWERED_S


def _registered_beyond_s(_parameters: Mapping[str, JsonValue], _duration_s: float) -> float:
    return _BOOT_S


def _registered_failover_beyond_s(_parameters: Mapping[str, JsonValue], duration_s: float) -> float:
    return _BOOT_S + duration_s + _ASKING_S


def _added_and_failed_over_beyond_s(parameters: Mapping[str, JsonValue], duration_s: float) -> float:
    return whole(parameters["primaries"]) * _BOOT_S + _ADDED_S + duration_s + 2 * _ASKING_S


def _called_beyond_s(parameters: Mapping[str, JsonValue], _duration_s: float) -> float:
    # As many phones as calls are registered first.
    return _BOOT_S + _SETTING_UP_S + 2 * (whole(parameters["streams"]) / STREAMS_OF_A_CALL) / BEGUN_PER_S


def _called_failover_beyond_s(parameters: Mapping[str, JsonValue], duration_s: float) -> float:
    return _called_beyond_s(parameters, duration_s) + duration_s + _ASKING_S


TELEPHONY = Driver(scenario="telephony", takes_real_hosts=True, boot=_boot, refuse=_refuse, suits=suits)
_SILENCE_OF_PHONES = "the longest time in which no phone was answered"
_SILENCE_OF_VOICE = "the longest silence of any caller or phone"
PROBES = (
    Probe(
        name="registration-rate",
        cells=RegistrationRateCells,
        short=ShortRate,
        driver=TELEPHONY,
        beyond_s=_searched_beyond_s,
    ),
    Probe(name="session-rate", cells=SessionRateCells, driver=TELEPHONY, beyond_s=_searched_beyond_s),
    Probe(
        name="register",
        cells=RegisterCells,
        short=ShortRegister,
        driver=TELEPHONY,
        beyond_s=_registered_beyond_s,
        bounded="the longest registration",
    ),
    Probe(
        name="register-failover",
        cells=RegisterFailoverCells,
        short=ShortFailover,
        driver=TELEPHONY,
        beyond_s=_registered_failover_beyond_s,
        bounded=_SILENCE_OF_PHONES,
    ),
    Probe(
        name="two-stage-failover",
        cells=TwoStageFailoverCells,
        short=ShortTwoStageFailover,
        driver=TELEPHONY,
        beyond_s=_added_and_failed_over_beyond_s,
        bounded=_SILENCE_OF_PHONES,
    ),
    Probe(
        name="call",
        cells=CallCells,
        short=ShortCalls,
        driver=TELEPHONY,
        beyond_s=_called_beyond_s,
        bounded=_SILENCE_OF_VOICE,
    ),
    Probe(
        name="call-failover",
        cells=CallFailoverCells,
        short=ShortCallFailover,
        driver=TELEPHONY,
        beyond_s=_called_failover_beyond_s,
        bounded=_SILENCE_OF_VOICE,
    ),
)
