"""What a machine told of itself while it worked, beside what its host's kernel did: series over time.

After figures 25 to 30 and 3 to 7 of M. Friedman's articles, which chart the same of Windows and Hyper-V.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stealtime.capacity.counters import kernel_rates
from stealtime.capacity.recording import Row
from stealtime.studies.stretch.analysis.provisioning import HOST, rows_of
from stealtime.studies.stretch.companion import MACHINE
from stealtime.studies.stretch.results import MACHINE_COUNTERS

if TYPE_CHECKING:
    from stealtime.store.run import Trial

Points = tuple[tuple[float, float], ...]
"""Moments in seconds with their values, in order; a moment without a value is not there."""
WORK = "contend"
"""What the program is called that does the work."""
OTHERS = "all others"
_MOST_PROGRAMS = 4


class Reading(NamedTuple):
    """One row of the table ``machine_counters``."""

    at_ns: int
    elapsed_ns: int
    program: str
    """Nothing for the whole machine."""
    figure: str
    value: int


@dataclass(frozen=True)
class Inside:
    """Series of one repetition."""

    run_percent: Mapping[str, Points] = field(default_factory=dict)
    """By program, of one CPU of the machine: the work first, then those that used the most."""
    ready_threads: Mapping[str, Points] = field(default_factory=dict)
    """By program, how many of its threads stood ready without a CPU, in the mean of each interval."""
    machine: Mapping[str, Points] = field(default_factory=dict)
    """By figure: ``threads_wanting_cpu`` at that moment, ``context_switches_per_s``, ``interrupts_per_s``."""
    host: Mapping[str, Points] = field(default_factory=dict)
    """By figure of ``kernel_rates``, of the host."""
    guest: Mapping[str, Points] = field(default_factory=dict)
    """By figure, what the host saw of the machine, all its virtual CPUs together: ``dispatches_per_s``,
    ``emulator_percent`` and ``io_percent`` of one CPU, those of KVM."""


NOTHING_TOLD = Inside()


def inside_of(trial: "Trial") -> Inside:
    """Read what is stored of a trial; nothing of one whose tables are missing or damaged."""
    return put_together(_readings(trial), rows_of(trial) or [])


def put_together(readings: Sequence[Reading], rows: Sequence[Row]) -> Inside:
    """Make series of both tables."""
    programs = [one for one in readings if one.program]
    names = _most_used(programs)
    return Inside(
        run_percent=_by_program(programs, names, "run_ns", 100.0),
        ready_threads=_by_program(programs, names, "ready_ns", 1.0),
        machine={
            **_of_machine(readings, "threads_wanting_cpu", lambda one: float(one.value)),
            **_of_machine(readings, "context_switches", _per_s),
            **_of_machine(readings, "interrupts", _per_s),
        },
        host=_whole(rows, HOST),
        guest={**_whole(rows, MACHINE), **_threads(rows)},
    )


def _readings(trial: "Trial") -> list[Reading]:
    import pyarrow as pa

    result = trial.record.result
    if result is None or MACHINE_COUNTERS not in result.tables:
        return []
    try:
        return read_readings(trial.table(MACHINE_COUNTERS))
    except (pa.ArrowException, OSError):
        return []  # the page and the exit code tell of damaged tables


def read_readings(path: Path) -> list[Reading]:
    """Read the rows of a Parquet file.

    Raises:
        pyarrow.ArrowException: It is damaged.
        OSError: It cannot be read.
    """
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = pq.read_table(path, columns=list(Reading._fields)).to_pydict()
    return [Reading(*values) for values in zip(*(columns[name] for name in Reading._fields), strict=True)]


def _most_used(programs: Iterable[Reading]) -> list[str]:
    """Give the work and the programs that ran or stood ready for the longest."""
    sums: dict[str, int] = {}
    for one in programs:
        sums[one.program] = sums.get(one.program, 0) + one.value
    named = sorted(sums.keys() - {WORK, OTHERS}, key=lambda name: (-sums[name], name))[:_MOST_PROGRAMS]
    return ([WORK] if WORK in sums else []) + named


def _by_program(programs: Sequence[Reading], names: Sequence[str], figure: str, unit: float) -> dict[str, Points]:
    """Give the series of each program; one that is not told in an interval used none of it, or too little to be."""
    elapsed_ns = {one.at_ns: one.elapsed_ns for one in programs}
    values: dict[str, dict[int, int]] = {name: {} for name in (*names, OTHERS)}
    for one in programs:
        if one.figure == figure:
            own = values[one.program if one.program in names else OTHERS]
            own[one.at_ns] = own.get(one.at_ns, 0) + one.value
    return {
        name: tuple((at_ns / 1e9, unit * own.get(at_ns, 0) / length) for at_ns, length in sorted(elapsed_ns.items()))
        for name, own in values.items()
        if any(own.values())
    }


def _of_machine(readings: Iterable[Reading], figure: str, value: Callable[[Reading], float]) -> dict[str, Points]:
    points = tuple((one.at_ns / 1e9, value(one)) for one in readings if not one.program and one.figure == figure)
    name = figure if figure == "threads_wanting_cpu" else f"{figure}_per_s"
    return {name: points} if points else {}


def _per_s(one: Reading) -> float:
    return one.value / (one.elapsed_ns / 1e9)


def _whole(rows: Iterable[Row], subject: str) -> dict[str, Points]:
    """Give what ``kernel_rates`` made, by figure."""
    known = {kernel_rates.WANTING, kernel_rates.SWITCHES, kernel_rates.DEVICES, kernel_rates.EXECUTED}
    known |= {*kernel_rates.INTERRUPTS.values(), *(f"{name}_per_s" for name in kernel_rates.KVM_COUNTERS)}
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.subject == subject and not row.part and row.figure in known and row.value is not None:
            found.setdefault(row.figure, []).append((row.at_ns / 1e9, row.value))
    return {name: tuple(points) for name, points in found.items()}


def _threads(rows: Iterable[Row]) -> dict[str, Points]:
    """Add up the virtual CPUs of the machine, and give its other threads."""
    sums: dict[str, dict[int, list[float | None]]] = {}
    for row in rows:
        if row.subject != MACHINE:
            continue
        for name, part, figure in (
            ("dispatches_per_s", "vCPU ", "dispatches_per_s"),
            ("vcpus_run_percent", "vCPU ", "run_percent"),
            ("emulator_percent", "emulator", "run_percent"),
            ("io_percent", "io", "run_percent"),
        ):
            if row.part.startswith(part) and row.figure == figure:
                sums.setdefault(name, {}).setdefault(row.at_ns, []).append(row.value)
    return {
        name: points
        for name, moments in sums.items()
        if (points := tuple((at_ns / 1e9, total) for at_ns, own in moments.items() if (total := _sum(own)) is not None))
    }


def _sum(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return sum(known) if len(known) == len(values) else None
