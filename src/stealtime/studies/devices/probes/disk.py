"""``disk``: transfers past the kernel's cache, one by one."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from stealtime.campaigns.probe import Percentiles, Probe, ProbeCells
from stealtime.lab.platforms.device_models import DEVICE_MODELS
from stealtime.studies.devices.companion import record_emulator
from stealtime.studies.devices.parameters import Backing, DiskParameters
from stealtime.studies.devices.results import REQUESTS
from stealtime.vocabulary.quantities import DurationNs, SizeBytes
from stealtime.wire.devices import DiskEngine, DiskOperation, DiskOrder


def _several(value: object) -> object:
    return value if isinstance(value, list) else [value]


Devices = Annotated[list[str], BeforeValidator(_several), Field(min_length=1)]
Backings = Annotated[list[Backing], BeforeValidator(_several), Field(min_length=1)]
Operations = Annotated[list[DiskOperation], BeforeValidator(_several), Field(min_length=1)]
Depths = Annotated[list[Annotated[int, Field(ge=1, le=1024)]], BeforeValidator(_several), Field(min_length=1)]


class DiskCells(ProbeCells):
    """``disk``: transfers past the kernel's cache; each combination of the lists is a cell."""

    parameters = DiskParameters

    probe: Literal["disk"]
    """The name of the probe."""
    device: Devices = Field(default=["file"])
    """The device models that the disk is on; ``file`` is a file of the host itself, natively."""
    backing: Backings = Field(default=["file"])
    """What is behind the disk on the host."""
    operation: Operations = Field(default=["read"])
    """Which way transfers go."""
    order: DiskOrder = "random"
    """In which order blocks are transferred."""
    block_bytes: SizeBytes = Field(default=4096, alias="block", ge=512, le=16 << 20)
    """The size of each transfer."""
    depth: Depths = Field(default=[1])
    """How many transfers may be under way at a time."""
    interval_ns: DurationNs | None = Field(default=None, alias="interval")
    """Open loop: from one transfer that is due to the next. Without it each that ends is followed by another."""
    size_bytes: SizeBytes = Field(default=64 << 20, alias="size", ge=4 << 20)
    """The size of the disk."""
    engine: DiskEngine | None = None
    """What hands transfers to the kernel; the first that the machine has, if left out."""

    @field_validator("device")
    @classmethod
    def _known(cls, device: list[str]) -> list[str]:
        disks = [name for name, model in DEVICE_MODELS.items() if model.kind == "disk"]
        if unknown := [name for name in device if name not in disks]:
            raise ValueError(f"there is no model of a disk {unknown[0]!r}; known: {', '.join(disks)}")
        return device


DISK = Probe(
    name="disk",
    cells=DiskCells,
    short=("device", "operation", "depth"),
    bounded="the longest transfer",
    percentiles=Percentiles("the time of a transfer", ("50", "99", "99.9")),
    result=REQUESTS,
    companion=record_emulator,
    extra_trace_groups=("block",),
    extra_host_trace_groups=("calls",),
    follows_user_mode_linux=False,
)
