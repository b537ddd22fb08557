"""What is stored of a trial: a row for each request, and when the emulator raised interrupts meanwhile."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from stealtime.store.columns import DAMAGED
from stealtime.store.result_kinds import ResultKind, Streams
from stealtime.store.results import Result
from stealtime.studies.devices.companion import INTERRUPTS
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import WholeOutcome

if TYPE_CHECKING:
    from stealtime.store.model import TrialRecord
    from stealtime.store.run import Trial

SAMPLES, EVENTS = "samples", "events"
_SATURATED = (1 << 32) - 1
_FAILURES = ("errors", "short")


class Requests(Result):
    """Requests to a device; their times are in the table ``samples``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["requests"] = "requests"
    tables: tuple[str, ...] = (SAMPLES, EVENTS, INTERRUPTS)
    counters: dict[str, int]
    """As the agent told them."""
    origin_units: int
    """The machine's counter when the first row's time begins."""

    @property
    def failed(self) -> int:
        """How many requests failed; they are in no row."""
        return sum(self.counters.get(name, 0) for name in _FAILURES)


@dataclass(frozen=True)
class RequestTimes:
    """The requests of a trial in the order in which they ended; each column has shape (requests,)."""

    due: NDArray[np.uint64]
    submitted: NDArray[np.uint64]
    ended: NDArray[np.uint64]
    """On the machine's counter."""
    offset_bytes: NDArray[np.uint64]
    units_per_s: float

    def __len__(self) -> int:
        return len(self.ended)

    @property
    def duration_ns(self) -> NDArray[np.float64]:
        """From when each was due to its end."""
        return np.asarray((self.ended - self.due).astype(np.float64) * (1e9 / self.units_per_s), np.float64)

    @property
    def ended_s(self) -> NDArray[np.float64]:
        """Since the first was due."""
        first = self.due.min() if len(self) else np.uint64(0)
        return np.asarray((self.ended - first).astype(np.float64) / self.units_per_s, np.float64)


def _make(done: WholeOutcome) -> Requests:
    if done.layout is None or done.layout.name != "transfers":
        raise StealtimeError("the agent sent a result that is no series of transfers")
    return Requests(counters=dict(done.counters), origin_units=done.clock.origin_units)


def _describe(record: "TrialRecord") -> dict[str, Any]:
    if record.outcome is None:
        raise ValueError(f"{record.trial_id} has no outcome")
    clock = record.outcome.clock
    return {"schema_version": 1, "units_per_s": clock.units_per_s, "clock": clock.model_dump(mode="json")}


def _write_samples(streams: Streams, target: Path, record: "TrialRecord") -> None:
    # pyarrow takes 0.3 s to load.
    from stealtime.store.tables import write_parquet

    write_parquet(streams[SAMPLES], target, _describe(record))


def _write_events(streams: Streams, target: Path, record: "TrialRecord") -> None:
    from stealtime.store.tables import EVENTS_SCHEMA, write_empty, write_parquet

    if EVENTS in streams:
        write_parquet(streams[EVENTS], target, _describe(record))
    else:
        write_empty(EVENTS_SCHEMA, target, _describe(record))


def _write_interrupts(streams: Streams, target: Path, _record: "TrialRecord") -> None:
    import pyarrow as pa

    from stealtime.store.tables import write_empty, write_parquet

    description = {"schema_version": 1, "clock": "the host's CLOCK_MONOTONIC_RAW, ns"}
    if INTERRUPTS in streams:
        write_parquet(streams[INTERRUPTS], target, description)
    else:
        # An emulator that tells of none has another number of columns than one that raised none.
        write_empty(pa.schema([]), target, description)


REQUESTS = ResultKind(
    name="requests",
    make=_make,
    tables={SAMPLES: _write_samples, EVENTS: _write_events, INTERRUPTS: _write_interrupts},
    needs=("samples",),
)


def read_requests(trial: "Trial") -> RequestTimes:
    """Read the requests of a trial.

    Raises:
        StealtimeError: A table is missing, damaged or has other columns.
    """
    result, outcome = trial.result(Requests), trial.record.outcome
    if outcome is None:
        raise StealtimeError(f"{trial.record.trial_id} has no outcome")
    columns = _columns(trial)
    ended = np.uint64(result.origin_units) + np.cumsum(columns["gap"], dtype=np.uint64)
    due = ended - columns["duration"]
    block_bytes = trial.record.cell.parameters.get("block_bytes", 4096)
    first = result.counters.get("first_byte", 0)
    offset = columns["block"] * np.uint64(int(str(block_bytes))) + np.uint64(first)
    return RequestTimes(due, due + columns["wait"], ended, offset, outcome.clock.units_per_s)


def _columns(trial: "Trial") -> dict[str, NDArray[np.uint64]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ("gap", "duration", "wait", "block")
    path = trial.table(SAMPLES)
    try:
        table = pq.read_table(path, columns=list(names))
        columns = {name: table[name].to_numpy().astype(np.uint64) for name in names}
        events = pq.read_table(trial.table(EVENTS)).to_pydict()
    except (OSError, KeyError, pa.ArrowException) as error:
        raise StealtimeError(f"{path} cannot be used: {error}", hint=DAMAGED) from error
    if any(len(column) != len(columns["gap"]) for column in columns.values()):
        raise StealtimeError(f"{path} has columns of different lengths", hint=DAMAGED)
    names_of = {"saturated": "duration", **{f"saturated_{name}": name for name in names}}
    for kind, index, value in zip(events["kind"], events["index"], events["duration"], strict=True):
        if (name := names_of.get(kind)) is not None and index < len(columns[name]):
            columns[name][index] = value
    for name, column in columns.items():
        if (column == _SATURATED).any():
            raise StealtimeError(f"{path}: a value of {name} is missing in the table of events", hint=DAMAGED)
    return columns


