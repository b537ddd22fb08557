"""The result of a trial whose samples are durations: a row each in ``samples``, what does not fit in ``events``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict

from stealtime.store.result_kinds import ResultKind, Streams
from stealtime.store.results import Result, read_as
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import Layout, WholeOutcome

if TYPE_CHECKING:
    from stealtime.store.model import TrialRecord

SAMPLES, EVENTS = "samples", "events"


class Durations(Result):
    """How the samples are laid out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["durations"] = "durations"
    tables: tuple[str, ...] = (SAMPLES, EVENTS)
    layout: Layout
    calibrated_floor_units: int | None
    """The cheapest sample of a calibration in the machine itself, where the probe has one."""


def _make(done: WholeOutcome) -> Durations:
    if done.layout is None:
        raise StealtimeError("the agent sent a result that is no series of durations")
    return Durations(layout=done.layout, calibrated_floor_units=done.calibrated_floor_units)


def _describe(record: "TrialRecord") -> dict[str, Any]:
    """Give what makes a table of samples readable alone."""
    outcome, result = record.outcome, record.result
    if outcome is None or result is None:
        raise ValueError(f"{record.trial_id} has no outcome")
    return {
        "schema_version": 1,
        "layout": read_as(result, Durations).layout.model_dump(mode="json"),
        "units_per_s": outcome.clock.units_per_s,
        "clock": outcome.clock.model_dump(mode="json"),
    }


def _write_samples(streams: Streams, target: Path, record: "TrialRecord") -> None:
    # pyarrow takes 0.3 s to load; here that costs no time before the first cell.
    from stealtime.store.tables import write_parquet

    write_parquet(streams["samples"], target, _describe(record))


def _write_events(streams: Streams, target: Path, record: "TrialRecord") -> None:
    from stealtime.store.tables import EVENTS_SCHEMA, write_empty, write_parquet

    if "events" in streams:
        write_parquet(streams["events"], target, _describe(record))
    else:
        write_empty(EVENTS_SCHEMA, target, _describe(record))


DURATIONS = ResultKind(
    name="durations",
    make=_make,
    tables={SAMPLES: _write_samples, EVENTS: _write_events},
    needs=("samples",),
    comes_in_parts=True,
)
