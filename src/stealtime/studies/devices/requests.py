"""The stored requests of a trial, read as arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stealtime.store.columns import read_columns
from stealtime.store.run import Trial
from stealtime.store.tables import EVENTS_SCHEMA
from stealtime.studies.devices.results import EVENTS, ROWS, DeviceRequests
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import Echoes

_KINDS: Mapping[str, str] = {
    "gap": "saturated_gap",
    "duration": "saturated",
    "wait": "saturated_wait",
    "outward": "saturated_outward",
    "residence": "saturated_residence",
}
"""The kind of that event, by column."""


@dataclass(frozen=True)
class Requests:
    """The requests of a trial, in the order in which they ended. Shape of each array: (requests,)."""

    units_per_s: float
    origin_units: int
    due: NDArray[np.uint64]
    """Readings of the machine's time-stamp counter: when each request was due ..."""
    submitted: NDArray[np.uint64]
    """... handed over ..."""
    ended: NDArray[np.uint64]
    """... and seen to have ended."""
    response_ns: NDArray[np.float64]
    """From due to ended; of a lost message what it was waited for, which is less than the truth."""
    wait_ns: NDArray[np.float64]
    """Of that, until it was handed over."""
    offset_bytes: NDArray[np.uint64] | None
    """Of ``disk``: where on the target."""
    peer_received: NDArray[np.int64] | None
    """Of ``net``: the reading of the peer's counter less ``submitted``: the delay outward and the clocks' offset."""
    residence_units: NDArray[np.uint64] | None
    """Of ``net``: how long the peer had the message."""
    answered: NDArray[np.bool_] | None
    """Of ``net``: false for a lost message."""

    @property
    def elapsed_s(self) -> float:
        """From the start to the end of the last one."""
        return float(self.ended[-1] - np.uint64(self.origin_units)) / self.units_per_s if len(self.ended) else 0.0


def read_requests(trial: Trial) -> Requests:
    """Read the requests of a trial.

    Raises:
        StealtimeError: A table is missing or damaged, or the trial has none.
    """
    result, outcome = trial.result(DeviceRequests), trial.record.outcome
    if outcome is None:
        raise StealtimeError(f"{trial.record.trial_id} has no requests: it failed")
    is_net = isinstance(result.layout, Echoes)
    further = ("wait", "outward", "residence", "answered") if is_net else ("wait", "block")
    schema = pa.schema([(name, pa.uint32()) for name in ("gap", "duration", *further)])
    parts = [read_columns(path, schema) for path in trial.tables(ROWS)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in schema.names}
    events = [read_columns(path, _numbers_of(EVENTS_SCHEMA)) for path in trial.tables(EVENTS)]
    kinds = np.concatenate([_kinds_of(path) for path in trial.tables(EVENTS)])
    index = np.concatenate([one["index"] for one in events])
    value = np.concatenate([one["duration"] for one in events])
    true = {
        name: _with_true_values(column, kinds == _KINDS.get(name, ""), index, value) for name, column in columns.items()
    }
    gaps = true["gap"].copy()
    paused = kinds == "pause"
    gaps[index[paused]] += value[paused]
    ended = np.cumsum(gaps, dtype=np.uint64) + np.uint64(outcome.clock.origin_units)
    due = ended - true["duration"]
    to_ns = 1e9 / outcome.clock.units_per_s
    outward = None
    if is_net:
        outward = true["outward"].astype(np.int64) + np.int64(result.outward_base_units)
    return Requests(
        units_per_s=outcome.clock.units_per_s,
        origin_units=outcome.clock.origin_units,
        due=due,
        submitted=due + true["wait"],
        ended=ended,
        response_ns=np.asarray(true["duration"] * to_ns, dtype=np.float64),
        wait_ns=np.asarray(true["wait"] * to_ns, dtype=np.float64),
        offset_bytes=None if is_net else true["block"] * _block_bytes(trial) + np.uint64(result.first_byte),
        peer_received=outward,
        residence_units=true["residence"] if is_net else None,
        answered=true["answered"] != 0 if is_net else None,
    )


def _block_bytes(trial: Trial) -> np.uint64:
    outcome = trial.record.outcome
    asked = None if outcome is None else outcome.request.probe
    block_bytes = getattr(asked, "block_bytes", None)
    if block_bytes is None:
        raise StealtimeError(f"{trial.record.trial_id} does not tell the size of its transfers")
    return np.uint64(block_bytes)


def _numbers_of(schema: Any) -> Any:
    return pa.schema([field for field in schema if pa.types.is_integer(field.type)])


def _kinds_of(path: Path) -> NDArray[Any]:
    return np.asarray(pq.read_table(path, columns=["kind"]).column("kind").to_pylist(), dtype=object)


def _with_true_values(
    column: NDArray[np.uint32], is_of_it: NDArray[np.bool_], index: NDArray[np.uint64], value: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    true = column.astype(np.uint64)
    true[index[is_of_it]] = value[is_of_it]
    return true
