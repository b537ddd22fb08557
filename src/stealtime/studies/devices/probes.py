"""``disk``: transfers between memory and a disk of a chosen device model, past the kernel's cache."""

from typing import Literal

from pydantic import Field, field_validator

from stealtime.campaigns.probe import Probe, ProbeCells
from stealtime.lab.platforms.device_models import DEVICE_MODELS
from stealtime.studies.devices.companion import record_emulator
from stealtime.studies.devices.parameters import DiskParameters
from stealtime.studies.devices.results import REQUESTS
from stealtime.vocabulary.quantities import DurationNs, SizeBytes
from stealtime.wire.devices import DiskOperation, DiskOrder


class DiskCells(ProbeCells):
    """``disk``: one cell for each device model, depth and operation; a platform has those cells whose model it has."""

    parameters = DiskParameters

    probe: Literal["disk"]
    """The name of the probe."""
    device: list[str] | str = Field(default_factory=lambda: ["file", "ubd", "virtio-blk", "virtio-scsi", "ahci", "own"])
    """The device model, or a list of them."""
    operation: list[DiskOperation] | DiskOperation = "read"
    """Whether blocks are read or written."""
    order: DiskOrder = "random"
    """In which order."""
    block_bytes: SizeBytes = Field(default=4096, alias="block", ge=512)
    """The size of a transfer."""
    depth: list[int] | int = 1
    """How many transfers are under way at a time."""
    interval_ns: DurationNs | None = Field(default=None, alias="interval")
    """Open loop: the time from one transfer that is due to the next; without it each follows one that ended."""
    backing: str = "file"
    """What is behind the disk on the host: ``file``, ``memory``, ``null``, or the URI of a block server."""

    @field_validator("device")
    @classmethod
    def _known(cls, device: list[str] | str) -> list[str] | str:
        disks = [name for name, model in DEVICE_MODELS.items() if model.kind == "disk"]
        for name in [device] if isinstance(device, str) else device:
            if name not in disks:
                raise ValueError(f"there is no model of a disk {name!r}; known: {', '.join(disks)}")
        return device


DISK = Probe(
    name="disk",
    cells=DiskCells,
    short=("device", "depth"),
    bounded="how long a transfer took",
    result=REQUESTS,
    companion=record_emulator,
    extra_trace_groups=("block",),
    extra_host_trace_groups=("calls",),
    follows_user_mode_linux=False,
)
PROBES = (DISK,)
