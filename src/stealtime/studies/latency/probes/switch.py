"""``switch``: threads of one priority on one CPU yield to each other."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from stealtime.campaigns.parameters import Parameters
from stealtime.campaigns.probe import ProbeCells
from stealtime.studies.latency.probes.model import PERCENTILES, LatencyProbe
from stealtime.wire.message import SwitchProbe

ThreadCounts = Annotated[list[Annotated[int, Field(ge=2, le=1000)]], Field(min_length=1)]


class SwitchParameters(Parameters):
    """How many threads yield to each other."""

    threads: int

    @property
    def words(self) -> str:
        return f"{self.threads} threads"

    def request(self, _iterations: Mapping[int, int], _repetition: int) -> SwitchProbe:
        return SwitchProbe(threads=self.threads)


class SwitchCells(ProbeCells):
    """``switch``: threads of one priority yield to each other."""

    parameters = SwitchParameters

    probe: Literal["switch"]
    """The name of the probe."""
    threads: ThreadCounts = Field(default=[2, 10, 100, 1000])
    """How many threads yield to each other; each number is a cell."""


SWITCH = LatencyProbe(
    name="switch",
    cells=SwitchCells,
    short=("threads",),
    is_busy=True,
    # Only there does a thread that yields give the CPU to the next of the ring.
    needs_fifo=True,
    bounded="the longest overhead",
    percentiles=PERCENTILES,
    # Each of their millions of switches would be an event.
    hidden_threads="st-ring",
    follows_user_mode_linux=False,
    title="Thread switch",
    question=(
        "{policy} threads of one priority on one CPU yield to each other in turn. A sample is the time from "
        "the last instruction of one before it yields to the first of the next."
    ),
    sample="duration of one switch",
    answer="One thread switch in a thousand exceeds the floor by",
)
