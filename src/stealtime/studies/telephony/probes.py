"""What ``[[probes]]`` takes of this study's probes. They are carried out by :mod:`.stage`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from stealtime.campaigns.executor import Booted
from stealtime.campaigns.planner import PlannedBoot
from stealtime.campaigns.probe import Probe, ProbeCells, ShortProbe, Stage, given
from stealtime.lab.platforms.traits import PlatformTraits
from stealtime.lab.scenarios.placement import Placement
from stealtime.vocabulary.quantities import DurationNs

Interval = Annotated[DurationNs, Field(ge=5_000_000)]
TransportName = Literal["udp", "tcp-one", "tcp-each"]
ModeName = Literal["off", "no-net", "net", "net+bypass"]
ProtectedModeName = Literal["no-net", "net", "net+bypass"]
Rate = Annotated[float, Field(gt=0, le=100_000)]
Share = Annotated[float, Field(gt=0, le=10)]
Streams = Annotated[int, Field(ge=1, le=2_000)]
DEFAULT_INTERVAL_NS = 100_000_000


def server_sets(modes: list[ModeName], intervals_ns: list[int]) -> list[dict[str, JsonValue]]:
    """Give the parameters of each server: every mode with every interval, and one without protection."""
    sets: list[dict[str, JsonValue]] = []
    for mode in modes:
        if mode == "off":
            sets.append({"mode": mode})
        else:
            sets += [{"mode": mode, "interval_ns": interval_ns} for interval_ns in intervals_ns]
    return sets


def number(value: float) -> int | float:
    """Give a whole number as such: it stands in the names of cells."""
    return int(value) if value == int(value) else value


class RegistrationRateCells(ProbeCells):
    """``registration-rate``: how many registrations a second a server bears without a failure, searched."""

    probe: Literal["registration-rate"]
    """The name of the probe. The duration is that of each try."""
    transport: list[TransportName] = Field(default=["udp", "tcp-one", "tcp-each"], min_length=1)
    """How phones reach the server: over one UDP socket, over one TCP connection, or with a TCP connection each."""
    mode: list[ModeName] = Field(default=["off"], min_length=1)
    """How the server's guest is protected; natively only ``off`` is measured."""
    interval_ns: list[Interval] = Field(default=[DEFAULT_INTERVAL_NS], alias="interval", min_length=1)
    """The times from one checkpoint to the next."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """Every server with every transport."""
        servers = server_sets(self.mode, self.interval_ns)
        return [{**server, "transport": transport} for server, transport in product(servers, self.transport)]


class ShortRate(ShortProbe):
    """``[short.registration-rate]``."""

    transport: list[TransportName] | None = Field(default=None, min_length=1)
    """Replaces its transports."""

    def changes(self) -> dict[str, Any]:
        """Give the changed fields."""
        return {**super().changes(), **given(self, type(self).model_fields)}


class ShortRegister(ShortRate):
    """``[short.register]``."""

    mode: list[ModeName] | None = Field(default=None, min_length=1)
    """Replaces its modes."""
    share: list[Share] | None = Field(default=None, min_length=1)
    """Replaces its shares."""


class ShortFailover(ShortRate):
    """``[short.register-failover]``."""

    mode: list[ProtectedModeName] | None = Field(default=None, min_length=1)
    """Replaces its modes."""


class RegisterCells(ProbeCells):
    """``register``: phones register at a rate; how long that takes them, and what it costs the server and its host."""

    probe: Literal["register"]
    """The name of the probe."""
    transport: list[TransportName] = Field(default=["udp"], min_length=1)
    """As of ``registration-rate``."""
    mode: list[ModeName] = Field(default=["off", "net"], min_length=1)
    """As of ``registration-rate``."""
    interval_ns: list[Interval] = Field(default=[DEFAULT_INTERVAL_NS], alias="interval", min_length=1)
    """The times from one checkpoint to the next."""
    rate_per_s: list[Rate] = Field(default=[], alias="rate")
    """Registrations a second."""
    share: list[Share] = Field(default=[])
    """Shares of what the unprotected server bears over this transport, which is searched first if it is not known."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """Every server with every transport and every load."""
        rates: list[dict[str, JsonValue]] = [{"rate_per_s": number(rate)} for rate in self.rate_per_s]
        shares: list[dict[str, JsonValue]] = [{"share": number(share)} for share in self.share]
        loads = [*rates, *shares] or [{"rate_per_s": 100}]
        servers = server_sets(self.mode, self.interval_ns)
        return [
            {**server, "transport": transport, **load}
            for server, transport, load in product(servers, self.transport, loads)
        ]


class RegisterFailoverCells(ProbeCells):
    """``register-failover``: the host of a protected server dies while phones register."""

    probe: Literal["register-failover"]
    """The name of the probe. Phones register for the duration before the blow, and as long after it."""
    transport: list[TransportName] = Field(default=["udp"], min_length=1)
    """As of ``registration-rate``."""
    mode: list[ProtectedModeName] = Field(default=["net"], min_length=1)
    """How the server's guest is protected. ``no-net`` may lose what was acknowledged."""
    interval_ns: list[Interval] = Field(default=[DEFAULT_INTERVAL_NS], alias="interval", min_length=1)
    """The times from one checkpoint to the next."""
    rate_per_s: list[Rate] = Field(default=[100.0], alias="rate", min_length=1)
    """Registrations a second."""
    users: int | None = Field(default=None, ge=2, le=1_000_000)
    """How many phones register in all, instead of as many as there is time for; the blow falls in the middle."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """Every server with every transport and every rate."""
        more: dict[str, JsonValue] = {} if self.users is None else {"users": self.users}
        servers = server_sets(list(self.mode), self.interval_ns)
        return [
            {**server, "transport": transport, "rate_per_s": number(rate), **more}
            for server, transport, rate in product(servers, self.transport, self.rate_per_s)
        ]


class CallCells(ProbeCells):
    """``call``: calls are up at once, with their voice relayed by the server; what the phones hear."""

    probe: Literal["call"]
    """The name of the probe. The duration is how long every caller speaks."""
    streams: list[Streams] = Field(default=[10], min_length=1)
    """How many calls are up, each with the voice of its caller."""
    mode: list[ModeName] = Field(default=["no-net", "net", "net+bypass"], min_length=1)
    """How the server's guest is protected; natively only ``off`` is measured. In ``net+bypass`` voice is not held."""
    interval_ns: list[Interval] = Field(default=[DEFAULT_INTERVAL_NS], alias="interval", min_length=1)
    """The times from one checkpoint to the next."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """Every server with every number of streams."""
        servers = server_sets(self.mode, self.interval_ns)
        return [{**server, "streams": streams} for server, streams in product(servers, self.streams)]


class ShortCalls(ShortProbe):
    """``[short.call]``."""

    streams: list[Streams] | None = Field(default=None, min_length=1)
    """Replaces its numbers of streams."""
    mode: list[ModeName] | None = Field(default=None, min_length=1)
    """Replaces its modes."""
    interval_ns: list[Interval] | None = Field(default=None, alias="interval", min_length=1)
    """Replaces its intervals."""

    def changes(self) -> dict[str, Any]:
        """Give the changed fields."""
        return {**super().changes(), **given(self, type(self).model_fields)}


class CallFailoverCells(ProbeCells):
    """``call-failover``: the host of a protected server dies while calls are up and some phones register."""

    probe: Literal["call-failover"]
    """The name of the probe. Callers speak for the duration before the blow, and as long and three seconds after it."""
    streams: list[Streams] = Field(default=[10], min_length=1)
    """As of ``call``."""
    mode: list[ProtectedModeName] = Field(default=["net+bypass"], min_length=1)
    """How the server's guest is protected. ``no-net`` may lose what was acknowledged."""
    interval_ns: list[Interval] = Field(default=[DEFAULT_INTERVAL_NS], alias="interval", min_length=1)
    """The times from one checkpoint to the next."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """Every server with every number of streams."""
        servers = server_sets(list(self.mode), self.interval_ns)
        return [{**server, "streams": streams} for server, streams in product(servers, self.streams)]


class ShortCallFailover(ShortProbe):
    """``[short.call-failover]``."""

    streams: list[Streams] | None = Field(default=None, min_length=1)
    """Replaces its numbers of streams."""
    mode: list[ProtectedModeName] | None = Field(default=None, min_length=1)
    """Replaces its modes."""

    def changes(self) -> dict[str, Any]:
        """Give the changed fields."""
        return {**super().changes(), **given(self, type(self).model_fields)}


def suits(traits: PlatformTraits, parameters: Mapping[str, JsonValue]) -> bool:
    """Tell whether a server of this mode can be had on a platform: without a guest there is nothing to protect."""
    return not traits.is_native or parameters["mode"] == "off"


@asynccontextmanager
async def _boot(boot: PlannedBoot, placement: Placement, folder: Path) -> AsyncIterator[Booted]:
    from stealtime.studies.telephony.stage import telephony_stage

    async with telephony_stage(boot, placement, folder) as stage:
        yield stage


TELEPHONY = Stage(scenario="telephony", boot=_boot, suits=suits)
PROBES = (
    Probe(name="registration-rate", cells=RegistrationRateCells, short=ShortRate, stage=TELEPHONY),
    Probe(name="register", cells=RegisterCells, short=ShortRegister, stage=TELEPHONY),
    Probe(name="register-failover", cells=RegisterFailoverCells, short=ShortFailover, stage=TELEPHONY),
    Probe(name="call", cells=CallCells, short=ShortCalls, stage=TELEPHONY),
    Probe(name="call-failover", cells=CallFailoverCells, short=ShortCallFailover, stage=TELEPHONY),
)
