"""``wakeup``: absolute sleeps; how late the thread runs again."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from stealtime.campaigns.parameters import Asked, Parameters
from stealtime.campaigns.probe import ProbeCells
from stealtime.report.notation import trimmed_duration
from stealtime.studies.latency.probes.model import PERCENTILES, LatencyProbe
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import DurationNs, format_duration
from stealtime.wire.message import WakeupProbe

_SHORTEST_INTERVAL_NS = 1_000
"""A shorter one is none that a timer could keep (``crates/probe/src/wakeup.rs``)."""


class WakeupParameters(Parameters):
    """The time from one wake-up to the next."""

    interval_ns: int

    @property
    def words(self) -> str:
        return f"every {trimmed_duration(self.interval_ns)}"

    def request(self, _iterations: Mapping[int, int], _repetition: int) -> WakeupProbe:
        return WakeupProbe(interval_ns=self.interval_ns)

    def refuse(self, asked: Asked) -> None:
        if self.interval_ns < _SHORTEST_INTERVAL_NS:
            raise UsageError(
                f"wakeup cannot wake up every {format_duration(self.interval_ns)}: no timer keeps so short a period",
                hint=f"wake up every {format_duration(_SHORTEST_INTERVAL_NS)} or less often (-i)",
            )
        if self.interval_ns > asked.duration_ns:
            raise UsageError(
                f"wakeup every {format_duration(self.interval_ns)} never wakes up in a trial of "
                f"{format_duration(asked.duration_ns)}",
                hint="measure for longer (-D), or wake up more often (-i)",
            )


class WakeupCells(ProbeCells):
    """``wakeup``: absolute sleeps."""

    parameters = WakeupParameters

    probe: Literal["wakeup"]
    """The name of the probe."""
    interval_ns: DurationNs = Field(default=1_000_000, alias="interval")
    """The time from one wake-up to the next."""


WAKEUP = LatencyProbe(
    name="wakeup",
    cells=WakeupCells,
    bounded="the longest overhead",
    percentiles=PERCENTILES,
    title="Timer wake-up",
    question=(
        "A {policy} thread sleeps until absolute points in time. A sample is how late it runs again; a "
        "wake-up so late that it swallowed further ones counts for all of them."
    ),
    sample="lateness of a wake-up",
    answer="One wake-up in a thousand exceeds the floor by",
)
