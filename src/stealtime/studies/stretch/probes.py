"""``contend``: a fixed amount of work of many tasks, the same everywhere."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from stealtime.campaigns.parameters import Asked, Parameters
from stealtime.campaigns.probe import Probe, ProbeCells
from stealtime.studies.stretch.companion import record_host
from stealtime.studies.stretch.results import CONTENTION
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import DurationNs, SizeBytes, format_duration
from stealtime.wire.message import ContendProbe

_NS_A_NUMBER = 0.9
"""That one search looks at one number of 8 bytes, seen on a Xeon of 2.6 GHz; only for the estimate of a plan."""
_MOST = (1 << 32) - 1
"""Of what the agent counts in 32 bits."""
_LONGEST_IO_NS = 60_000_000_000
"""Of ``crates/probe/src/contend/mod.rs``: no pause of a program is longer."""


class ContendParameters(Parameters):
    """The work; of what is as by default only its amount stands in the name of a cell."""

    collection_bytes: int = 1 << 20
    io_mean_ns: int = 2_000_000
    io_spread_percent: int = 100
    iterations: int
    lock_percent: int = 0
    lock_searches: int = 1
    searches: int = 60
    seed: int = 1
    tasks: int

    def request(self, _iterations: Mapping[int, int], _repetition: int) -> ContendProbe:
        return ContendProbe(**self.model_dump())

    def refuse(self, _asked: Asked) -> None:
        for name in ("iterations", "searches", "lock_searches"):
            if (count := getattr(self, name)) > _MOST:
                raise UsageError(f"contend cannot count {name} = {count}", hint=f"give it {name} = {_MOST} at most")
        if self.io_mean_ns > _LONGEST_IO_NS:
            raise UsageError(
                f"contend cannot sleep for {format_duration(self.io_mean_ns)} each time",
                hint=f"give it an `io` of {format_duration(_LONGEST_IO_NS)} at most",
            )

    @property
    def memory_bytes(self) -> int:
        """A collection of each task, and the one that all of them share."""
        return (self.tasks + 1) * self.collection_bytes

    @property
    def expected_ns(self) -> int:
        """The CPU time of all of it, as if one CPU did it."""
        numbers = self.collection_bytes / 8 * (self.searches + 1)
        return round(_NS_A_NUMBER * numbers * self.tasks * self.iterations)


_USUAL = ContendParameters(tasks=32, iterations=90)


class ContendCells(ProbeCells):
    """``contend``: a fixed amount of work; its ``duration`` is how long the work may take at most."""

    parameters = ContendParameters

    probe: Literal["contend"]
    """The name of the probe."""
    tasks: int = Field(default=_USUAL.tasks, ge=1, le=4096)
    """The number of tasks, each a thread."""
    iterations: int = Field(default=_USUAL.iterations, ge=1)
    """How many iterations each task does."""
    collection_bytes: SizeBytes = Field(default=_USUAL.collection_bytes, alias="collection", ge=4096)
    """The size of the collection that each iteration allocates, fills, searches and frees."""
    searches: int = Field(default=_USUAL.searches, ge=0)
    """How often an iteration searches its whole collection."""
    io_mean_ns: DurationNs | Literal["none"] = Field(default=_USUAL.io_mean_ns, alias="io")
    """The mean of the simulated I/O that each iteration sleeps for, or ``none``."""
    io_spread_percent: int = Field(default=_USUAL.io_spread_percent, alias="io_spread", ge=0, le=100)
    """How much of that mean is spread exponentially."""
    lock_percent: int = Field(default=_USUAL.lock_percent, alias="lock", ge=0, le=100)
    """The share of the searches that are done under a lock which all tasks share."""
    lock_searches: int = Field(default=_USUAL.lock_searches, ge=1)
    """How many searches in a row are under the lock each time it is taken."""
    seed: int = Field(default=_USUAL.seed, ge=0, lt=1 << 63)
    """The seed of all random numbers; the same seed is the same work."""

    def parameter_sets(self) -> list[ContendParameters]:
        """One cell."""
        given = {name: getattr(self, name) for name in ContendParameters.model_fields}
        return [ContendParameters(**given | ({"io_mean_ns": 0} if self.io_mean_ns == "none" else {}))]


CONTEND = Probe(
    name="contend",
    cells=ContendCells,
    short=("iterations",),
    uses_every_cpu=True,
    bounded="how much longer it took than natively",
    result=CONTENTION,
    hidden_threads="st-task",
    follows_user_mode_linux=False,
    companion=record_host,
)
