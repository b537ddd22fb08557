"""How a kind of result gets from an agent to disk."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stealtime.store.model import TrialRecord
from stealtime.store.results import Result
from stealtime.wire.message import StreamName, WholeOutcome

Streams = Mapping[str, Path]
"""Arrow IPC streams by name: those that an agent sent, and those of the probe's companion on the host."""
TableWriter = Callable[[Streams, Path, TrialRecord], object]
"""Writes a table from the streams to a Parquet file; the record tells what it needs besides.

It raises ``StealtimeError`` if a stream is damaged, and ``OSError`` if the file cannot be written.
"""


@dataclass(frozen=True, kw_only=True)
class ResultKind:
    """How one kind of result gets from an agent to disk."""

    name: str
    make: Callable[[WholeOutcome], Result]
    """Makes it of the agent's last message; its ``kind`` is ``name`` and its ``tables`` are those below."""
    tables: Mapping[str, TableWriter]
    needs: tuple[StreamName, ...] = ()
    """The streams without which a trial is not whole."""
    comes_in_parts: bool = False
    """Whether the agent sends it in parts while a long trial goes on."""
