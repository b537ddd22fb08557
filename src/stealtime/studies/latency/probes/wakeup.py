"""``wakeup``: absolute sleeps; how late the thread runs again."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, JsonValue

from stealtime.campaigns.probe import ProbeCells, whole
from stealtime.studies.latency.probes.model import LatencyProbe, duration_words
from stealtime.vocabulary.quantities import DurationNs
from stealtime.wire.message import WakeupProbe


class WakeupCells(ProbeCells):
    """``wakeup``: absolute sleeps."""

    probe: Literal["wakeup"]
    """The name of the probe."""
    interval_ns: DurationNs = Field(default=1_000_000, alias="interval")
    """The time from one wake-up to the next."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """One cell."""
        return [{"interval_ns": self.interval_ns}]


def _request(parameters: Mapping[str, JsonValue], _iterations: Mapping[int, int], _repetition: int) -> WakeupProbe:
    return WakeupProbe(interval_ns=whole(parameters["interval_ns"]))


WAKEUP = LatencyProbe(
    name="wakeup",
    cells=WakeupCells,
    request=_request,
    options={"--interval": "interval_ns"},
    bounded="the longest overhead",
    title="Timer wake-up",
    parameter=lambda parameters: f"every {duration_words(parameters.get('interval_ns'))}",
    question=(
        "A {policy} thread sleeps until absolute points in time. A sample is how late it runs again; a "
        "wake-up so late that it swallowed further ones counts for all of them."
    ),
    sample="lateness of a wake-up",
    answer="One wake-up in a thousand exceeds the floor by",
)
