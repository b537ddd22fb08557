"""``contend``: a fixed amount of work of many tasks, the same everywhere."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, JsonValue

from stealtime.campaigns.probe import Asked, Probe, ProbeCells, ShortProbe, whole
from stealtime.studies.stretch.companion import record_host
from stealtime.studies.stretch.results import CONTENTION
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import DurationNs, SizeBytes, format_duration
from stealtime.wire.message import ContendProbe


class ContendCells(ProbeCells):
    """``contend``: a fixed amount of work; its ``duration`` is how long the work may take at most."""

    probe: Literal["contend"]
    """The name of the probe."""
    tasks: int = Field(default=32, ge=1, le=4096)
    """The number of tasks, each a thread."""
    iterations: int = Field(default=90, ge=1)
    """How many iterations each task does."""
    collection_bytes: SizeBytes = Field(default=1 << 20, alias="collection", ge=4096)
    """The size of the collection that each iteration allocates, fills, searches and frees."""
    searches: int = Field(default=60, ge=0)
    """How often an iteration searches its whole collection."""
    io_mean_ns: DurationNs | Literal["none"] = Field(default=2_000_000, alias="io")
    """The mean of the simulated I/O that each iteration sleeps for, or ``none``."""
    io_spread_percent: int = Field(default=100, alias="io_spread", ge=0, le=100)
    """How much of that mean is spread exponentially."""
    lock_percent: int = Field(default=0, alias="lock", ge=0, le=100)
    """The share of the searches that are done under a lock which all tasks share."""
    lock_searches: int = Field(default=1, ge=1)
    """How many searches in a row are under the lock each time it is taken."""
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    """The seed of all random numbers; the same seed is the same work."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """One cell; of what is as by default only the amount of work stands in its name."""
        given = {name: getattr(self, name) for name in _NAMES} | (
            {"io_mean_ns": 0} if self.io_mean_ns == "none" else {}
        )
        always = ("tasks", "iterations")
        return [{name: value for name, value in given.items() if name in always or value != _default(name)}]


_NAMES = sorted(ContendProbe.model_fields.keys() - {"name", "each_iteration"})


def _default(name: str) -> int:
    return whole(ContendCells.model_fields[name].default)


def _work(parameters: Mapping[str, JsonValue]) -> dict[str, int]:
    """Give all numbers of the work, those that are as by default as well."""
    return {name: whole(parameters.get(name, _default(name))) for name in _NAMES}


class ShortContend(ShortProbe):
    """``[short.contend]``."""

    iterations: int | None = Field(default=None, ge=1)
    """Replaces the number of iterations."""


_NS_A_NUMBER = 0.9
"""That one search looks at one number of 8 bytes, seen on a Xeon of 2.6 GHz; only for the estimate of a plan."""


def _expected_ns(parameters: Mapping[str, JsonValue]) -> int:
    """Give the CPU time of all of it, as if one CPU did it."""
    work = _work(parameters)
    numbers = work["collection_bytes"] / 8 * (work["searches"] + 1)
    return round(_NS_A_NUMBER * numbers * work["tasks"] * work["iterations"])


def _request(parameters: Mapping[str, JsonValue], _iterations: Mapping[int, int], _repetition: int) -> ContendProbe:
    return ContendProbe(**_work(parameters))


_MOST = (1 << 32) - 1
"""Of what the agent counts in 32 bits."""
_LONGEST_IO_NS = 60_000_000_000
"""Of ``crates/probe/src/contend/mod.rs``: no pause of a program is longer."""


def _refuse(parameters: Mapping[str, JsonValue], _asked: Asked) -> None:
    work = _work(parameters)
    for name in ("iterations", "searches", "lock_searches"):
        if work[name] > _MOST:
            raise UsageError(f"contend cannot count {name} = {work[name]}", hint=f"give it {name} = {_MOST} at most")
    if work["io_mean_ns"] > _LONGEST_IO_NS:
        raise UsageError(
            f"contend cannot sleep for {format_duration(work['io_mean_ns'])} each time",
            hint=f"give it an `io` of {format_duration(_LONGEST_IO_NS)} at most",
        )


def _memory_bytes(parameters: Mapping[str, JsonValue]) -> int:
    """Give a collection of each task, and the one that all of them share."""
    work = _work(parameters)
    return (work["tasks"] + 1) * work["collection_bytes"]


CONTEND = Probe(
    name="contend",
    cells=ContendCells,
    request=_request,
    short=ShortContend,
    expected_ns=_expected_ns,
    uses_every_cpu=True,
    bounded="how much longer it took than natively",
    result=CONTENTION,
    refuse=_refuse,
    memory_bytes=_memory_bytes,
    hidden_threads="st-task",
    follows_user_mode_linux=False,
    companion=record_host,
)
