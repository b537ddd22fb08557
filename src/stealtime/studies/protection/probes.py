"""``failover`` and ``roundtrip``: what ``[[probes]]`` takes of them. They are carried out by :mod:`.driver`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from stealtime.campaigns.booted import Booted
from stealtime.campaigns.planned import PlannedBoot
from stealtime.campaigns.probe import Driver, Probe, ProbeCells
from stealtime.lab.scenarios.placement import Placement
from stealtime.vocabulary.quantities import DurationNs

Interval = Annotated[DurationNs, Field(ge=5_000_000)]
Fault = Literal["killed", "silent"]


class FailoverCells(ProbeCells):
    """``failover``: the host of a protected guest dies while a client counts with it."""

    renamed: ClassVar[Mapping[str, str]] = {"blow": "fault"}

    probe: Literal["failover"]
    """The name of the probe."""
    mode: list[Literal["no-net", "net", "net+bypass"]] = Field(default=["net"], min_length=1)
    """What happens to the guest's output until its checkpoint is acknowledged."""
    interval_ns: list[Interval] = Field(default=[100_000_000], alias="interval", min_length=1)
    """The times from one checkpoint to the next."""
    fault: list[Fault] = Field(default=["killed", "silent"], min_length=1)
    """How the host dies: ``killed``: its member and QEMU by SIGKILL, whose connection closes; ``silent``: all its links
    lose all frames and all its processes are gone, so that only missing heartbeats tell. On a real host the member
    and QEMU stand still instead, by SIGSTOP."""


class RoundTripCells(ProbeCells):
    """``roundtrip``: how long a client waits for the answers of a guest, protected and not."""

    probe: Literal["roundtrip"]
    """The name of the probe."""
    mode: list[Literal["off", "no-net", "net", "net+bypass"]] = Field(default=["off", "net"], min_length=1)
    """``off`` is the same guest unprotected, which the others are held against."""
    interval_ns: list[Interval] = Field(default=[100_000_000], alias="interval", min_length=1)
    """The times from one checkpoint to the next."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """Every mode with every interval; one cell without protection."""
        unprotected: list[dict[str, JsonValue]] = [{"mode": "off"}] if "off" in self.mode else []
        # Last: its guest is another one, which is booted for it alone.
        return [*(one for one in super().parameter_sets() if one["mode"] != "off"), *unprotected]


@asynccontextmanager
async def _boot(boot: PlannedBoot, placement: Placement, folder: Path) -> AsyncIterator[Booted]:
    from stealtime.studies.protection.driver import protected

    async with protected(boot, placement, folder) as driver:
        yield driver


def _refuse(boot: PlannedBoot, placement: Placement) -> None:
    from stealtime.hosts.setting_up import refuse_hosts

    refuse_hosts(boot, placement, "a protected machine")


PROTECTED = Driver(scenario="protected", takes_real_hosts=True, boot=_boot, refuse=_refuse)
PROBES = (
    Probe(name="failover", cells=FailoverCells, driver=PROTECTED, bounded="the longest silence of its client"),
    Probe(name="roundtrip", cells=RoundTripCells, driver=PROTECTED),
)
