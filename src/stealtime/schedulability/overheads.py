"""Overheads as functions of the number of tasks: CSV with the columns of SchedCAT, or TOML with constants."""

import csv
import itertools
import math
import tomllib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pydantic import ValidationError

from stealtime.vocabulary import toml_errors
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import NANOSECONDS, DurationNs
from stealtime.vocabulary.toml_table import Table

COLUMNS = {
    "RELEASE-LATENCY": "event_latency",
    "RELEASE": "release",
    "SCHEDULE": "scheduling",
    "CXS": "context_switch",
    "TICK": "tick",
    "IPI-LATENCY": "inter_processor_interrupt",
    "CPMD": "cache_preemption",
}
"""Columns in microseconds, as ``schedcat/overheads/model.py`` names them, and ours; CPMD is not one of its file."""

COUNT_COLUMN = "TASK-COUNT"
_OTHER_COLUMNS = {"LOCK", "UNLOCK", "READ-LOCK", "READ-UNLOCK", "SYSCALL-IN", "SYSCALL-OUT"}
"""Of SchedCAT too, about locks and system calls, which no analysis here charges."""

DEFAULT_TICK_PERIOD_NS = NANOSECONDS["ms"]
"""SchedCAT's quantum; a file that has the column TICK does not say how often the tick comes."""

_MOST_NS = NANOSECONDS["s"]
"""An overhead beyond this is a mistake of units."""


class OverheadFile(Table):
    """``OVERHEADS.toml`` of ``stealtime sched analyze --overheads``: what is left out is 0."""

    event_latency: DurationNs | None = None
    """From the programmed release to the timer's handler."""
    release: DurationNs | None = None
    """The handler that releases one job."""
    scheduling: DurationNs | None = None
    """Choosing the next task."""
    context_switch: DurationNs | None = None
    """From one task to the next."""
    tick: DurationNs | None = None
    """The periodic tick."""
    tick_period: DurationNs | None = None
    """From one tick to the next; 1ms if left out."""
    inter_processor_interrupt: DurationNs | None = None
    """From another CPU's request to its handler, where `--interrupts-elsewhere` is given."""
    cache_preemption: DurationNs | None = None
    """What a preempted job loses by finding the caches changed."""


@dataclass(frozen=True)
class OverheadModel:
    """Each overhead as a piecewise linear function of the number of tasks, as SchedCAT has it.

    Between two points it is linear, beyond them as in the last stretch; never below 0, and never falling: a point
    counts as the largest value up to it.
    """

    source: str
    points: dict[str, list[tuple[int, Fraction]]]
    """By overhead: number of tasks and nanoseconds, in order, both as measured."""
    tick_period_ns: int = DEFAULT_TICK_PERIOD_NS

    def at(self, tasks: int) -> dict[str, int]:
        """Give each overhead for a number of tasks, in whole nanoseconds, rounded up."""
        return {name: math.ceil(_piecewise(_rising(points), tasks)) for name, points in self.points.items()}


NO_OVERHEADS = OverheadModel("none", {})


def read_overheads(path: Path) -> OverheadModel:
    """Read an overhead file, CSV or TOML by its suffix.

    Raises:
        UsageError: Its values cannot be, some are missing, or it is neither.
    """
    if path.is_dir() or path.suffix.lower() not in (".csv", ".toml"):
        raise UsageError(
            f"{path} is no .csv or .toml file",
            hint="overheads are given as a file; taking them from a run is not here yet",
        )
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: {error}", hint="the file must be text in UTF-8") from None
    return _from_toml(path, text) if path.suffix.lower() == ".toml" else _from_csv(path, text)


def _from_toml(path: Path, text: str) -> OverheadModel:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}", hint="the file must be TOML: https://toml.io") from None
    try:
        file = OverheadFile.model_validate(document)
    except ValidationError as error:
        hint = 'overheads are durations such as "3us"; leave out what is 0'
        raise toml_errors.explain(error, document, text, str(path), OverheadFile, hint) from None
    given = {name: value for name, value in file if value is not None and name != "tick_period"}
    for name, value in given.items():
        _check(f"{path}: {name}", Fraction(value))
    points = {name: [(1, Fraction(value))] for name, value in given.items()}
    return OverheadModel(str(path), points, file.tick_period or DEFAULT_TICK_PERIOD_NS)


def _from_csv(path: Path, text: str) -> OverheadModel:
    # SchedCAT's own files have tabs beside the commas.
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines())]
    lines = [(number, row) for number, row in enumerate(rows, start=1) if any(row) and not row[0].startswith("#")]
    if len(lines) < 2:
        raise UsageError(f"{path} has no row of values", hint=f"its columns are {COUNT_COLUMN}, {', '.join(COLUMNS)}")
    (_, header), *body = lines
    _check_header(path, header)
    points: dict[str, list[tuple[int, Fraction]]] = {COLUMNS[name]: [] for name in header if name in COLUMNS}
    last_count = 0
    for number, row in body:
        where = f"{path}, line {number}"
        if len(row) != len(header) or not all(row):
            raise UsageError(
                f"{where}: {len([cell for cell in row if cell])} values for {len(header)} columns",
                hint="a gap is no 0: measure it, or leave out the whole column",
            )
        cells = dict(zip(header, row, strict=True))
        count = _number(where, COUNT_COLUMN, cells[COUNT_COLUMN])
        if count.denominator != 1 or count <= last_count:
            raise UsageError(
                f"{where}: {COUNT_COLUMN} is {cells[COUNT_COLUMN]} after {last_count}",
                hint="numbers of tasks are whole, at least 1, and rise from row to row",
            )
        last_count = int(count)
        for column, name in COLUMNS.items():
            if column in cells:
                value = _number(where, column, cells[column]) * NANOSECONDS["us"]
                points[name].append((last_count, _check(f"{where}: {column}", value)))
    return OverheadModel(str(path), points)


def _check_header(path: Path, header: list[str]) -> None:
    if COUNT_COLUMN not in header:
        raise UsageError(f"{path} has no column {COUNT_COLUMN}", hint=f"its columns are {', '.join(header)}")
    for name in header:
        if header.count(name) > 1:
            raise UsageError(f"{path} has the column {name} twice", hint="leave out one of them")
        if name != COUNT_COLUMN and name not in COLUMNS and name not in _OTHER_COLUMNS:
            close = toml_errors.nearest(name, COLUMNS)
            hint = f"did you mean {close}?" if close else f"known: {', '.join(COLUMNS)}"
            raise UsageError(f"{path} has the unknown column {name!r}", hint=hint)


def _number(where: str, column: str, text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"{where}: {column} is {text!r}, which is no number", hint="values are microseconds") from None


def _check(where: str, value_ns: Fraction) -> Fraction:
    if value_ns < 0:
        raise UsageError(f"{where} is negative: {float(value_ns):g} ns", hint="no overhead takes less than no time")
    if value_ns > _MOST_NS:
        raise UsageError(f"{where} is {float(value_ns) / 1e9:g} s", hint="are the units right? CSV is in microseconds")
    return value_ns


def _rising(points: list[tuple[int, Fraction]]) -> list[tuple[int, Fraction]]:
    values = itertools.accumulate((value for _, value in points), max)
    return [(count, value) for (count, _), value in zip(points, values, strict=True)]


def _piecewise(points: list[tuple[int, Fraction]], at: int) -> Fraction:
    if len(points) == 1:
        return points[0][1]
    stretches = list(itertools.pairwise(points))
    (left, low), (right, high) = next((one for one in stretches if at <= one[1][0]), stretches[-1])
    return max(Fraction(0), low + (high - low) * Fraction(at - left, right - left))
