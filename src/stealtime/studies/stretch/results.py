"""What is stored of a trial: what the work took in all, a row for each iteration, and the host's counters meanwhile."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict

from stealtime.store.result_kinds import ResultKind, Streams
from stealtime.store.results import Result
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import WholeOutcome

if TYPE_CHECKING:
    from stealtime.store.model import TrialRecord

ITERATIONS = "iterations"
HOST_COUNTERS = "host_counters"
MACHINE_COUNTERS = "machine_counters"
_MAY_BE_MISSING = ("run_delay_ns", "idle_ns", "fault_cpu_ns", "cycles", "instructions", "reading_cpu_ns")
_DESCRIPTION = {"schema_version": 1, "clock": "monotonic, ns"}


class Contention(Result):
    """A fixed amount of work. Times are in ns of the machine's own clocks, those of the tasks added up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["contention"] = "contention"
    tables: tuple[str, ...] = (ITERATIONS, HOST_COUNTERS, MACHINE_COUNTERS)
    elapsed_ns: int
    """From letting the tasks go to the end of the last one."""
    iterations: int
    """Of all tasks."""
    checksum: int
    """Of what was found: the same wherever the same work was done."""
    cpus: int
    """On which the tasks ran."""
    cpu_ns: int
    fill_cpu_ns: int
    """Of ``cpu_ns``, for allocating and filling collections."""
    fault_cpu_ns: int | None = None
    """Of ``fill_cpu_ns``, for having each page come; None in runs of versions that did not measure it."""
    cycles: int | None = None
    """Of the tasks in user and kernel mode, outside of ``fill_cpu_ns``; None where the machine does not count them."""
    instructions: int | None = None
    """As ``cycles``."""
    reading_cpu_ns: int | None = None
    """Of the thread that read what the machine tells of itself; it is no task. None in runs of versions without it."""
    lock_wait_ns: int
    io_ns: int
    """Slept for the simulated I/O."""
    io_asked_ns: int
    """What that would be if every sleep had ended in time."""
    uneven_idle_ns: int
    """That CPUs could not be used at the end because fewer tasks than CPUs were left, summed over the CPUs."""
    minor_faults: int
    major_faults: int
    involuntary_switches: int
    run_delay_ns: int | None = None
    """How long the tasks were runnable without a CPU of the machine; None where its kernel does not tell."""
    idle_ns: int | None = None
    """That the machine's CPUs were idle, in steps of 10 ms; None where its kernel does not tell."""


def _make(done: WholeOutcome) -> Contention:
    names = Contention.model_fields.keys() - {"kind", "tables"}
    missing = sorted(name for name in names - {*_MAY_BE_MISSING} if name not in done.counters)
    if missing:
        raise StealtimeError(f"the agent's result lacks {', '.join(missing)}")
    return Contention.model_validate({name: done.counters[name] for name in names if name in done.counters})


def _write_iterations(streams: Streams, target: Path, _record: "TrialRecord") -> None:
    # pyarrow takes 0.3 s to load.
    from stealtime.store.tables import write_parquet

    write_parquet(streams["iterations"], target, _DESCRIPTION)


def _write_counters(streams: Streams, target: Path, _record: "TrialRecord") -> None:
    from stealtime.capacity.recorder import arrow_schema
    from stealtime.store.tables import write_empty, write_parquet

    if HOST_COUNTERS in streams:
        write_parquet(streams[HOST_COUNTERS], target, _DESCRIPTION)
    else:
        write_empty(arrow_schema(), target, _DESCRIPTION)


def _write_machine_counters(streams: Streams, target: Path, _record: "TrialRecord") -> None:
    from stealtime.store.tables import write_parquet

    write_parquet(streams["machine_counters"], target, _DESCRIPTION)


CONTENTION = ResultKind(
    name="contention",
    make=_make,
    tables={
        ITERATIONS: _write_iterations,
        HOST_COUNTERS: _write_counters,
        MACHINE_COUNTERS: _write_machine_counters,
    },
    needs=("iterations", "machine_counters"),
)
