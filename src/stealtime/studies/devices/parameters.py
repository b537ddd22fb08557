"""The parameters of the cells: requests to a disk, and messages through a card."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from stealtime.campaigns.parameters import Asked, Parameters
from stealtime.lab.platforms.device_models import DeviceChoice, find_model
from stealtime.report.notation import trimmed_duration
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import approximate_size, format_duration
from stealtime.wire.devices import (
    DiskEngine,
    DiskOperation,
    DiskOrder,
    DiskProbe,
    DiskTarget,
    MarkedTarget,
    NetProbe,
    NetTransport,
    ScratchTarget,
)

Backing = Annotated[str, Field(pattern=r"^(file|memory|nothing|nbd\+unix://\S+)$")]
"""What is behind a disk on the host: a file on the host's disk, a file in memory, nothing, which reads as zeros, or a
server of network block devices."""

FILE = "file"
"""The device of the machine that is the host itself: the same file, without a device of ours."""
OWN = "own"
"""A marked disk that the machine has, whatever it is."""
FOLDERS: Mapping[str, str] = {"file": "/var/tmp", "memory": "/dev/shm"}  # noqa: S108 - files without a name
"""Where such a file is."""
_SHORTEST_INTERVAL_NS = 1_000
"""No timer keeps a shorter one (``crates/probe/src/disk/mod.rs`` and ``net/mod.rs``)."""


class DiskParameters(Parameters):
    """Transfers from or to a disk."""

    device: str = FILE
    """The device model that the disk is on, as its mark calls it."""
    backing: Backing = "file"
    operation: DiskOperation = "read"
    order: DiskOrder = "random"
    block_bytes: int = 4096
    depth: int = 1
    interval_ns: int | None = None
    """Of an open loop; None is a closed loop."""
    size_bytes: int = 64 << 20
    """Of the disk."""
    engine: DiskEngine | None = None

    @property
    def words(self) -> str:
        loop = "" if self.interval_ns is None else f", one every {trimmed_duration(self.interval_ns)}"
        order = "" if self.order == "random" else f"{self.order} "
        size = approximate_size(self.block_bytes)
        behind = "" if self.backing == "file" else f" on {self.backing}"
        engine = "" if self.engine is None else f", by {self.engine}"
        return f"{self.device}{behind}, {order}{self.operation}s of {size}, depth {self.depth}{loop}{engine}"

    @property
    def target(self) -> DiskTarget:
        """Give what is transferred from or to: a file without a name where the host itself is measured."""
        if self.device != FILE:
            # A disk of the user's own has whatever name it was given.
            return MarkedTarget(device=None if self.device == OWN else self.device)
        return ScratchTarget(folder=FOLDERS.get(self.backing, FOLDERS["memory"]), bytes=self.size_bytes)

    @property
    def devices(self) -> tuple[DeviceChoice, ...]:
        return (DeviceChoice(find_model(self.device), self.backing, self.size_bytes),)

    @property
    def memory_bytes(self) -> int:
        return self.block_bytes * self.depth

    def request(self, _iterations: Mapping[int, int], repetition: int) -> DiskProbe:
        return DiskProbe(
            target=self.target,
            operation=self.operation,
            order=self.order,
            block_bytes=self.block_bytes,
            depth=self.depth,
            interval_ns=self.interval_ns,
            seed=repetition,
            engine=self.engine,
        )

    def refuse(self, asked: Asked) -> None:
        _refuse_interval(f"disk, {self.words}", self.interval_ns, asked)
        if self.block_bytes % 512:
            raise UsageError(
                f"disk, {self.words}: a transfer of {self.block_bytes} bytes is no multiple of 512",
                hint="use a block of 4 KiB, or another multiple of the disk's own blocks",
            )
        if self.block_bytes * self.depth > self.size_bytes:
            raise UsageError(
                f"disk, {self.words}: {self.depth} blocks do not fit into {approximate_size(self.size_bytes)}",
                hint="use a lower depth, smaller blocks, or a larger disk",
            )


class NetParameters(Parameters):
    """Messages to the host and back."""

    device: str = "veth"
    """The model of the card."""
    peer: str
    """``ADDRESS:PORT`` of ``stealtime-agent echo``."""
    transport: NetTransport = "udp"
    message_bytes: int = 64
    depth: int = 1
    interval_ns: int | None = None
    """Of an open loop; None is a closed loop."""
    patience_ns: int = 1_000_000_000
    """A message that is not answered for so long is lost."""

    @property
    def words(self) -> str:
        loop = "" if self.interval_ns is None else f", one every {trimmed_duration(self.interval_ns)}"
        size = approximate_size(self.message_bytes)
        return f"{self.device}, {self.transport.upper()} messages of {size}, depth {self.depth}{loop}"

    def request(self, _iterations: Mapping[int, int], _repetition: int) -> NetProbe:
        return NetProbe(
            peer=self.peer,
            transport=self.transport,
            message_bytes=self.message_bytes,
            depth=self.depth,
            interval_ns=self.interval_ns,
            patience_ns=self.patience_ns,
        )

    def refuse(self, asked: Asked) -> None:
        _refuse_interval(f"net, {self.words}", self.interval_ns, asked)


def _refuse_interval(what: str, interval_ns: int | None, asked: Asked) -> None:
    if interval_ns is None:
        return
    if interval_ns < _SHORTEST_INTERVAL_NS:
        raise UsageError(
            f"{what}: no timer keeps an interval of {format_duration(interval_ns)}",
            hint=f"use {format_duration(_SHORTEST_INTERVAL_NS)} or more, or a closed loop",
        )
    if interval_ns > asked.duration_ns:
        raise UsageError(
            f"{what}: an interval of {format_duration(interval_ns)} is longer than a trial of "
            f"{format_duration(asked.duration_ns)}",
            hint="measure for longer (-D), or use a shorter interval",
        )
