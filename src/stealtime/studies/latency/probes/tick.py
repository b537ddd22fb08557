"""``tick``: a busy loop back to back; what interrupts it shows as a longer turn."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, JsonValue

from stealtime.campaigns.probe import ProbeCells, whole
from stealtime.studies.latency.probes.model import LatencyProbe, duration_words
from stealtime.vocabulary.quantities import DurationNs
from stealtime.wire.message import TickProbe


class TickCells(ProbeCells):
    """``tick``: a busy loop back to back."""

    probe: Literal["tick"]
    """The name of the probe."""
    loop_ns: DurationNs = Field(default=68_000, alias="loop")
    """The duration of a loop on this host, natively. 68 us is the paper's: short enough to separate all ticks."""


def _request(parameters: Mapping[str, JsonValue], iterations: Mapping[int, int], _repetition: int) -> TickProbe:
    return TickProbe(iterations=iterations[whole(parameters["loop_ns"])])


TICK = LatencyProbe(
    name="tick",
    cells=TickCells,
    request=_request,
    options={"--loop": "loop_ns"},
    is_busy=True,
    is_tiled=True,
    bounded="the longest overhead",
    title="Clock tick",
    parameter=lambda parameters: f"loop of {duration_words(parameters.get('loop_ns'))}",
    question=(
        "A {policy} thread runs the same busy loop back to back. A loop that takes longer than the floor was "
        "interrupted: by the timer tick, by the kernel, by the host."
    ),
    sample="duration of one loop",
    answer="One busy loop in a thousand exceeds the floor by",
)
