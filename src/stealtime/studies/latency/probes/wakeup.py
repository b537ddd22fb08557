"""``wakeup``: absolute sleeps; how late the thread runs again."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, JsonValue

from stealtime.campaigns.probe import Asked, ProbeCells, whole
from stealtime.studies.latency.probes.model import LatencyProbe, duration_words
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import DurationNs, format_duration
from stealtime.wire.message import WakeupProbe

_SHORTEST_INTERVAL_NS = 1_000
"""A shorter one is none that a timer could keep (``crates/probe/src/wakeup.rs``)."""


class WakeupCells(ProbeCells):
    """``wakeup``: absolute sleeps."""

    probe: Literal["wakeup"]
    """The name of the probe."""
    interval_ns: DurationNs = Field(default=1_000_000, alias="interval")
    """The time from one wake-up to the next."""


def _request(parameters: Mapping[str, JsonValue], _iterations: Mapping[int, int], _repetition: int) -> WakeupProbe:
    return WakeupProbe(interval_ns=whole(parameters["interval_ns"]))


def _refuse(parameters: Mapping[str, JsonValue], asked: Asked) -> None:
    interval_ns = whole(parameters["interval_ns"])
    if interval_ns < _SHORTEST_INTERVAL_NS:
        raise UsageError(
            f"wakeup cannot wake up every {format_duration(interval_ns)}: no timer keeps so short a period",
            hint=f"wake up every {format_duration(_SHORTEST_INTERVAL_NS)} or less often (-i)",
        )
    if interval_ns > asked.duration_ns:
        raise UsageError(
            f"wakeup every {format_duration(interval_ns)} never wakes up in a trial of "
            f"{format_duration(asked.duration_ns)}",
            hint="measure for longer (-D), or wake up more often (-i)",
        )


WAKEUP = LatencyProbe(
    name="wakeup",
    cells=WakeupCells,
    request=_request,
    options={"--interval": "interval_ns"},
    refuse=_refuse,
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
