"""What came out of a trial, by its kind: a part of ``trial.json`` and the Parquet files beside it.

A kind belongs to the probes that name it. Nothing here knows which kinds there are: the record tells the name of its
kind and of its tables, so that a run can be looked over, checked and copied without the study that measured it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import ConfigDict

from stealtime.vocabulary.readings import Model
from stealtime.wire.message import StreamName, WholeOutcome

if TYPE_CHECKING:
    from stealtime.store.model import TrialRecord

Streams = Mapping[str, Path]
"""Arrow IPC streams by name: those that an agent sent, and those of the probe's companion on the host."""
TableWriter = Callable[[Streams, Path, "TrialRecord"], object]
"""Writes a table from the streams to a Parquet file; the record tells what it needs besides.

It raises ``StealtimeError`` if a stream is damaged, and ``OSError`` if the file cannot be written.
"""


class Result(Model):
    """``result`` of ``trial.json``; each kind adds its own fields."""

    # What a kind adds is kept as it was read until it is asked for by that kind.
    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str
    tables: tuple[str, ...]
    """Each is a Parquet file of this name in the trial's folder."""


OwnResult = TypeVar("OwnResult", bound=Result)


@dataclass(frozen=True, kw_only=True)
class ResultKind:
    """How one kind of result gets from an agent to disk."""

    name: str
    make: Callable[[WholeOutcome], Result]
    """Makes it of the agent's last message; its ``kind`` is ``name`` and its ``tables`` are those below."""
    tables: Mapping[str, TableWriter]
    needs: tuple[StreamName, ...] = ()
    """The streams without which a trial is not whole."""


def read_as(result: Result, model: type[OwnResult]) -> OwnResult:
    """Give a result as one of its kind.

    Raises:
        pydantic.ValidationError: It is of another kind, or damaged.
    """
    if isinstance(result, model):
        return result
    return model.model_validate({"kind": result.kind, "tables": result.tables, **(result.model_extra or {})})
