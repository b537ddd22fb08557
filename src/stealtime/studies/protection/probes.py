"""``failover`` and ``roundtrip``: what ``[[probes]]`` takes of them. They are carried out by :mod:`.driver`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from stealtime.campaigns.parameters import Parameters
from stealtime.campaigns.probe import Driver, Probe, ProbeCells
from stealtime.hosts.host import FaultKind
from stealtime.vocabulary.quantities import DurationNs

Interval = Annotated[DurationNs, Field(ge=5_000_000)]
Mode = Literal["off", "no-net", "net", "net+bypass"]


class ProtectedParameters(Parameters):
    """The guest of a cell, and how it is protected."""

    mode: Mode
    interval_ns: int | None = None
    """From one checkpoint to the next; None where there are none."""
    min_interval_ns: int | None = None
    """The same at the least, where output that waits has a checkpoint made; None: it has none made."""


class FailoverParameters(ProtectedParameters):
    """How its host dies."""

    fault: FaultKind


class _ProtectedCells(ProbeCells):
    interval_ns: list[Interval] = Field(default=[100_000_000], alias="interval", min_length=1)
    """The times from one checkpoint to the next."""
    min_interval_ns: Interval | None = Field(default=None, alias="min_interval")
    """Where given, held output has a checkpoint made at once, this long after the last at the earliest."""


class FailoverCells(_ProtectedCells):
    """``failover``: the host of a protected guest dies while a client counts with it."""

    parameters = FailoverParameters
    renamed: ClassVar[Mapping[str, str]] = {"blow": "fault"}

    probe: Literal["failover"]
    """The name of the probe."""
    mode: list[Literal["no-net", "net", "net+bypass"]] = Field(default=["net"], min_length=1)
    """What happens to the guest's output until its checkpoint is acknowledged."""
    fault: list[FaultKind] = Field(default=["killed", "silent"], min_length=1)
    """How the host dies: ``killed``: its member and QEMU by SIGKILL, whose connection closes; ``silent``: all its links
    lose all frames and all its processes are gone, so that only missing heartbeats tell. On a real host the member
    and QEMU stand still instead, by SIGSTOP. ``planned``: it does not, the guest is moved by its operator."""


class RoundTripCells(_ProtectedCells):
    """``roundtrip``: how long a client waits for the answers of a guest, protected and not."""

    parameters = ProtectedParameters

    probe: Literal["roundtrip"]
    """The name of the probe."""
    mode: list[Mode] = Field(default=["off", "net"], min_length=1)
    """``off`` is the same guest unprotected, which the others are held against."""

    def parameter_sets(self) -> list[ProtectedParameters]:
        """Every mode with every interval; one cell without protection."""
        protected = [ProtectedParameters(**one) for one in self.combined() if one["mode"] != "off"]
        # Last: its guest is another one, which is booted for it alone.
        return [*protected, *([ProtectedParameters(mode="off")] if "off" in self.mode else [])]


PROTECTED = Driver(scenario="protected", takes_real_hosts=True, module="stealtime.studies.protection.driver")
PROBES = (
    Probe(name="failover", cells=FailoverCells, driver=PROTECTED, bounded="the longest silence of its client"),
    Probe(name="roundtrip", cells=RoundTripCells, driver=PROTECTED),
)
