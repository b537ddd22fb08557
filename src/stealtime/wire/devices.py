"""``disk`` and ``net``: requests to a device, one a sample.

Generated from the Rust types. After a change of ``crates/wire``::

    UPDATE_GOLDEN=1 cargo test -p stealtime-wire
    UPDATE_GOLDEN=1 pytest tests/unit/test_message_models.py
"""

from typing import Annotated, Literal

from pydantic import Field

from stealtime.vocabulary.readings import Model, Unsigned


class GivenTarget(Model):
    """A file or a block device that is there."""

    name: Literal["given"] = "given"
    path: str
    overwrite: bool = False
    """Consent to lose what it holds, without which nothing is written to it."""


class ScratchTarget(Model):
    """A new file without a name, which is gone with the process."""

    name: Literal["scratch"] = "scratch"
    folder: str
    """On whose file system it is."""
    bytes: int = Field(ge=1)


class MarkedTarget(Model):
    """The disk that was made for this: it begins with a mark, which is the consent to write to it."""

    name: Literal["marked"] = "marked"
    path: str | None = None
    """None: ``$STEALTIME_DISK``, else the only block device of the machine that has the mark."""
    device: str | None = None
    """What its mark calls the device, where a machine has several; None takes any."""


DiskTarget = Annotated[GivenTarget | ScratchTarget | MarkedTarget, Field(discriminator="name")]
"""What transfers go to."""

DiskOperation = Literal["read", "write"]
"""Which way transfers go.

- ``read``: From the disk to memory.
- ``write``: From memory to the disk.
"""

DiskOrder = Literal["random", "sequential"]
"""In which order blocks are transferred.

- ``random``: Each block is drawn anew.
- ``sequential``: From the first to the last, and again.
"""

DiskEngine = Literal["io_uring", "aio"]
"""What hands transfers to the kernel and hears of their end.

- ``io_uring``: ``io_uring(7)``.
- ``aio``: Linux AIO: ``io_submit(2)``.
"""


class DiskProbe(Model):
    """Transfers between memory and a disk, past the kernel's cache (``O_DIRECT``)."""

    name: Literal["disk"] = "disk"
    target: DiskTarget
    operation: DiskOperation
    order: DiskOrder
    block_bytes: int = Field(ge=512, le=16777216)
    """Of each transfer; a multiple of the target's logical block."""
    depth: int = Field(ge=1, le=1024)
    """Transfers under way at a time, at most."""
    interval_ns: int | None = Field(default=None, ge=1)
    """Open loop: from one transfer that is due to the next. None is a closed loop: each that ends is followed by
    another at once."""
    span_bytes: int | None = Field(default=None, ge=1)
    """How much of the target is used, from its first block that may be. None is all of it."""
    seed: Unsigned = 0
    """Of the order of blocks and of what is written."""
    engine: DiskEngine | None = None
    """What hands transfers to the kernel; None takes the first that it has."""


NetTransport = Literal["udp", "tcp"]
"""How messages travel.

- ``tcp``: One connection, without Nagle's algorithm.
"""


class NetProbe(Model):
    """Messages to a peer that sends each back (``stealtime-agent echo``)."""

    name: Literal["net"] = "net"
    peer: str
    """``ADDRESS:PORT``; an address of version 6 stands in brackets."""
    transport: NetTransport
    message_bytes: int = Field(ge=48, le=65000)
    """Of each message."""
    depth: int = Field(ge=1, le=65536)
    """Messages under way at a time: of a closed loop all the time, of an open loop at most."""
    interval_ns: int | None = Field(default=None, ge=1)
    """Open loop: from one message that is due to the next. None is a closed loop: each that ends is followed by another
    at once."""
    patience_ns: int = Field(ge=1)
    """A message that is not answered for so long is lost."""
