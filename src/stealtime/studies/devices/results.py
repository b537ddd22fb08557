"""What is stored of a trial: a row for each request, in the order in which they ended, and what does not fit a row."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict

from stealtime.store.result_kinds import ResultKind, Streams
from stealtime.store.results import Result, read_as
from stealtime.studies.devices.companion import INTERRUPTS, interrupts_schema
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import Echoes, Layout, Transfers, WholeOutcome

if TYPE_CHECKING:
    from stealtime.store.model import TrialRecord

ROWS, EVENTS = "requests", "events"


class DeviceRequests(Result):
    """How the rows are laid out, and what was counted besides."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["requests"] = "requests"
    tables: tuple[str, ...] = (ROWS, EVENTS, INTERRUPTS)
    layout: Layout
    engine: str | None
    """Of ``disk``: what handed transfers to the kernel."""
    first_byte: int
    """Of ``disk``: where on the target block 0 is."""
    outward_base_units: int
    """Of ``net``: what ``outward`` has less than the peer's reading less ours; it may be negative."""
    counts: dict[str, int]
    """What was counted: ``errors``, ``not_started``, ``lost_messages`` ..."""


def _make(done: WholeOutcome) -> DeviceRequests:
    if not isinstance(done.layout, Transfers | Echoes):
        raise StealtimeError("the agent sent a result that is no series of requests")
    engines = [name.removeprefix("engine_") for name in done.counters if name.startswith("engine_")]
    base = done.counters.get("outward_base_units", 0)
    told = (
        *("disk_statistics_requests", "disk_statistics_us"),
        *("errors", "short", "not_started", "unwatched", "unfinished", "target_blocks"),
        *("sent_messages", "lost_messages", "late_answers", "duplicates"),
    )
    return DeviceRequests(
        layout=done.layout,
        engine=engines[0] if engines else None,
        first_byte=done.counters.get("first_byte", 0),
        outward_base_units=base - (1 << 64) if base >= 1 << 63 else base,
        counts={name: done.counters[name] for name in told if name in done.counters},
    )


def _describe(record: "TrialRecord") -> dict[str, Any]:
    """Give what makes a table readable alone."""
    outcome, result = record.outcome, record.result
    if outcome is None or result is None:
        raise ValueError(f"{record.trial_id} has no outcome")
    own = read_as(result, DeviceRequests)
    return {
        "schema_version": 1,
        "layout": own.layout.model_dump(mode="json"),
        "units_per_s": outcome.clock.units_per_s,
        "clock": outcome.clock.model_dump(mode="json"),
        "outward_base_units": own.outward_base_units,
        "first_byte": own.first_byte,
    }


def _write_rows(streams: Streams, target: Path, record: "TrialRecord") -> None:
    # pyarrow takes 0.3 s to load.
    from stealtime.store.tables import write_parquet

    write_parquet(streams["samples"], target, _describe(record))


def _write_events(streams: Streams, target: Path, record: "TrialRecord") -> None:
    from stealtime.store.tables import EVENTS_SCHEMA, write_empty, write_parquet

    if "events" in streams:
        write_parquet(streams["events"], target, _describe(record))
    else:
        write_empty(EVENTS_SCHEMA, target, _describe(record))


def _write_interrupts(streams: Streams, target: Path, _record: "TrialRecord") -> None:
    from stealtime.store.tables import write_empty, write_parquet

    description = {"schema_version": 1, "clock": "the host's CLOCK_MONOTONIC_RAW, ns"}
    if INTERRUPTS in streams:
        write_parquet(streams[INTERRUPTS], target, description)
    else:
        write_empty(interrupts_schema(), target, description)


REQUESTS = ResultKind(
    name="requests",
    make=_make,
    tables={ROWS: _write_rows, EVENTS: _write_events, INTERRUPTS: _write_interrupts},
    needs=("samples",),
    comes_in_parts=True,
)
