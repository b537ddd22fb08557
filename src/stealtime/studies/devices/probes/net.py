"""``net``: messages to a peer and back, one by one."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from stealtime.campaigns.probe import Percentiles, Probe, ProbeCells
from stealtime.studies.devices.parameters import NetParameters
from stealtime.studies.devices.results import REQUESTS
from stealtime.vocabulary.quantities import DurationNs, SizeBytes
from stealtime.wire.devices import NetTransport


def _several(value: object) -> object:
    return value if isinstance(value, list) else [value]


Devices = Annotated[list[str], BeforeValidator(_several), Field(min_length=1)]
Transports = Annotated[list[NetTransport], BeforeValidator(_several), Field(min_length=1)]
Depths = Annotated[list[Annotated[int, Field(ge=1, le=1 << 16)]], BeforeValidator(_several), Field(min_length=1)]


class NetCells(ProbeCells):
    """``net``: messages to a peer and back; each combination of the lists is a cell."""

    parameters = NetParameters

    probe: Literal["net"]
    """The name of the probe."""
    device: Devices = Field(default=["veth"])
    """The models of the card."""
    peer: str
    """``ADDRESS:PORT`` of ``stealtime-agent echo``."""
    transport: Transports = Field(default=["udp"])
    """How messages travel."""
    message_bytes: SizeBytes = Field(default=64, alias="size", ge=48, le=65_000)
    """The size of each message."""
    depth: Depths = Field(default=[1])
    """How many messages may be under way at a time."""
    interval_ns: DurationNs | None = Field(default=None, alias="interval")
    """Open loop: from one message that is due to the next. Without it each answer is followed by another message."""
    patience_ns: DurationNs = Field(default=1_000_000_000, alias="patience", ge=1)
    """A message that is not answered for so long is lost."""


NET = Probe(
    name="net",
    cells=NetCells,
    short=("device", "transport", "depth"),
    bounded="the longest round trip",
    percentiles=Percentiles("the round trip of a message", ("50", "99", "99.9")),
    result=REQUESTS,
)
