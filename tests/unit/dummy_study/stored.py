"""What is stored of a trial: how many echoes came back, and a table of how loud each was."""

from pathlib import Path
from typing import Literal

from pydantic import ConfigDict

from stealtime.store.model import TrialRecord
from stealtime.store.results import Result, ResultKind, Streams
from stealtime.store.tables import write_parquet
from stealtime.wire.message import WholeOutcome


class Echoes(Result):
    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["echoes"] = "echoes"
    tables: tuple[str, ...] = ("loudness",)
    came_back: int


def make(done: WholeOutcome) -> Echoes:
    return Echoes(came_back=done.counters["recorded"])


def write_loudness(streams: Streams, target: Path, _record: TrialRecord) -> None:
    write_parquet(streams["samples"], target, {"unit": "furlong"})


ECHOES = ResultKind(name="echoes", make=make, tables={"loudness": write_loudness}, needs=("samples",))
