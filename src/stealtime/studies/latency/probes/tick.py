"""``tick``: a busy loop back to back; what interrupts it shows as a longer turn."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from stealtime.campaigns.parameters import Parameters
from stealtime.campaigns.probe import ProbeCells
from stealtime.report.notation import trimmed_duration
from stealtime.studies.latency.probes.model import PERCENTILES, LatencyProbe
from stealtime.vocabulary.quantities import DurationNs
from stealtime.wire.message import TickProbe


class TickParameters(Parameters):
    """How long a loop takes on this host, natively."""

    loop_ns: int

    @property
    def words(self) -> str:
        return f"loop of {trimmed_duration(self.loop_ns)}"

    def request(self, iterations: Mapping[int, int], _repetition: int) -> TickProbe:
        return TickProbe(iterations=iterations[self.loop_ns])


class TickCells(ProbeCells):
    """``tick``: a busy loop back to back."""

    parameters = TickParameters

    probe: Literal["tick"]
    """The name of the probe."""
    loop_ns: DurationNs = Field(default=68_000, alias="loop")
    """The duration of a loop on this host, natively. 68 us is the paper's: short enough to separate all ticks."""


TICK = LatencyProbe(
    name="tick",
    cells=TickCells,
    is_busy=True,
    is_tiled=True,
    bounded="the longest overhead",
    percentiles=PERCENTILES,
    title="Clock tick",
    question=(
        "A {policy} thread runs the same busy loop back to back. A loop that takes longer than the floor was "
        "interrupted: by the timer tick, by the kernel, by the host."
    ),
    sample="duration of one loop",
    answer="One busy loop in a thousand exceeds the floor by",
)
