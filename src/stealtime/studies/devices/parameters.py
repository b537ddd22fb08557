"""The parameters of the cells of ``disk``."""

import tempfile
from collections.abc import Mapping

from stealtime.campaigns.parameters import Asked, Parameters
from stealtime.lab.platforms.device_models import DISK_BYTES, DeviceChoice, find_model
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import format_size, format_duration
from stealtime.wire.devices import DiskOperation, DiskOrder, DiskProbe, DiskTarget, MarkedTarget, ScratchTarget

NATIVE_MODEL, OWN_MODEL = "file", "own"
_SECTOR_BYTES = 512
_MARKED_FROM_BYTES = 1 << 20
"""What is before it on a marked disk is not transferred (``crates/probe/src/disk/mark.rs``)."""


class DiskParameters(Parameters):
    """Transfers; of what is as by default only the device and the depth stand in the name of a cell."""

    device: str
    """The name of its model (``lab/platforms/device_models.py``)."""
    operation: DiskOperation = "read"
    order: DiskOrder = "random"
    block_bytes: int = 4096
    depth: int = 1
    interval_ns: int | None = None
    backing: str = "file"

    def request(self, _iterations: Mapping[int, int], repetition: int) -> DiskProbe:
        return DiskProbe(
            target=self._target,
            operation=self.operation,
            order=self.order,
            block_bytes=self.block_bytes,
            depth=self.depth,
            interval_ns=self.interval_ns,
            seed=repetition,
        )

    @property
    def _target(self) -> DiskTarget:
        if self.device == NATIVE_MODEL:
            # On the file system on which a guest's disks are, too.
            return ScratchTarget(folder=tempfile.gettempdir(), bytes=DISK_BYTES)
        return MarkedTarget(device=None if self.device == OWN_MODEL else self.device)

    @property
    def devices(self) -> tuple[DeviceChoice, ...]:
        return (DeviceChoice(find_model(self.device), self.backing),)

    def refuse(self, asked: Asked) -> None:
        if self.block_bytes % _SECTOR_BYTES or not _SECTOR_BYTES <= self.block_bytes <= 16 << 20:
            raise UsageError(
                f"disk cannot transfer blocks of {self.block_bytes} bytes",
                hint=f"give it a `block` that is a multiple of {_SECTOR_BYTES}, of at most 16 MiB",
            )
        if self.block_bytes * self.depth > DISK_BYTES - _MARKED_FROM_BYTES:
            raise UsageError(
                f"disk cannot have {self.depth} transfers of {format_size(self.block_bytes)} under way: a disk has "
                f"{format_size(DISK_BYTES)}",
                hint="give it a smaller `depth` or `block`",
            )
        if self.interval_ns is not None and not 1000 <= self.interval_ns <= asked.duration_ns:
            raise UsageError(
                f"disk cannot have a transfer due every {format_duration(self.interval_ns)}",
                hint="give it an `interval` from 1us to the duration",
            )

    @property
    def words(self) -> str:
        told = [self.device, *(["write"] if self.operation == "write" else [])]
        told += [] if self.order == "random" else [self.order]
        told += [] if self.block_bytes == 4096 else [format_size(self.block_bytes)]
        told += [f"depth {self.depth}"] if self.depth > 1 else []
        told += [] if self.interval_ns is None else [f"every {format_duration(self.interval_ns)}"]
        return " ".join([*told, *([] if self.backing == "file" else [f"on {self.backing}"])])
