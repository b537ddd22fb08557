"""Overheads as functions of the number of tasks: CSV with the columns of SchedCAT, or TOML with constants."""

import csv
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from pydantic import ValidationError

from stealtime.schedulability.kernel_limits import KernelLimits
from stealtime.schedulability.longest import LONGEST_NS
from stealtime.schedulability.overhead_notes import joined, note, parted, read_notes
from stealtime.schedulability.overhead_seen import ArrivalCurve, Uncharged
from stealtime.vocabulary import toml_errors
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.own_text import read_own_text
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
    "INTERRUPT": "interrupt",
    "TICK-INTERRUPT": "tick_interrupt",
    "SCHEDULE-PASS": "finer_scheduling",
    "CXS-PASS": "finer_context_switch",
}
"""Columns in microseconds, as ``schedcat/overheads/model.py`` names them, and ours from CPMD on."""

_CHARGED_AS = {
    "interrupt": "release",
    "tick_interrupt": "tick",
    "finer_scheduling": "scheduling",
    "finer_context_switch": "context_switch",
}
"""A whole interrupt takes more from a task than the callback in it, and the scheduler may take longer for a thread that
no sample of a job is of: what is charged is the longer one."""

FINER = ("finer_scheduling", "finer_context_switch")
"""What only kernels with ``sched_entry_tp`` and ``sched_exit_tp`` tell."""

NOT_EVERYWHERE = (*FINER, "inter_processor_interrupt")
"""What not every machine and number of tasks has: a thread of one CPU may never be woken by another."""

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
class Provenance:
    """Where a model comes from that was measured; in a CSV, lines of comment before the header."""

    statistic: str
    machine: str
    samples: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Of each overhead, for each number of tasks in order; a single one holds for all of them."""
    boundaries: Mapping[str, str] = field(default_factory=dict)
    """Of an overhead that begins or ends otherwise than SchedCAT's: the name of what it is instead."""
    discards: Mapping[str, int] = field(default_factory=dict)
    """What could not be measured, by reason."""
    seed: int | None = None
    """Of the draw of equally many samples; None where all samples were taken."""
    kernel_limits: KernelLimits | None = None
    """What the machine's kernel may take from real-time threads; a CSV does not have it."""


@dataclass(frozen=True)
class OverheadModel:
    """Each overhead as a piecewise linear function of the number of tasks, as SchedCAT has it.

    Between two points it is linear, beyond the last as in the last stretch, and before the first as at the first:
    fewer tasks than were measured are charged what the fewest were. It is never below 0, and never falls: a point
    counts as the largest value up to it. An average may fall: for it, that would carry the noise of the few tasks on.
    """

    source: str
    points: dict[str, list[tuple[int, Fraction]]]
    """By overhead: number of tasks and nanoseconds, in order, both as measured."""
    tick_period_ns: int = DEFAULT_TICK_PERIOD_NS
    provenance: Provenance | None = None
    """None where the file does not say."""
    is_constant: bool = False
    """Whether somebody gave one value for any number of tasks."""
    uncharged: tuple[Uncharged, ...] | None = None
    """What was seen to take the CPU beside; None where nobody tells."""

    def at(self, tasks: int) -> dict[str, int]:
        """Give each overhead that is charged for a number of tasks, in whole nanoseconds, rounded up."""
        charged: dict[str, int] = {}
        for name in self.points:
            as_what = _CHARGED_AS.get(name, name)
            charged[as_what] = max(charged.get(as_what, 0), self.value_ns(name, tasks))
        return charged

    def value_ns(self, name: str, tasks: int) -> int:
        """Give one overhead of :attr:`points` for a number of tasks, in whole nanoseconds, rounded up."""
        may_fall = self.provenance is not None and self.provenance.statistic == "average"
        points = self.points[name]
        return math.ceil(_piecewise(points if may_fall else _rising(points), tasks))

    @property
    def counts(self) -> list[int]:
        """The numbers of tasks that any overhead is known for, in order."""
        return sorted({count for points in self.points.values() for count, _ in points})


NO_OVERHEADS = OverheadModel("none", {})


def read_overheads(path: Path) -> OverheadModel:
    """Read an overhead file, CSV or TOML by its suffix.

    Raises:
        UsageError: Its values cannot be, some are missing, or it is neither.
    """
    if path.is_dir() or path.suffix.lower() not in (".csv", ".toml"):
        raise UsageError(
            f"{path} is no .csv or .toml file",
            hint="a file of overheads is one of these; anything else is taken as the name of a run",
        )
    text = read_own_text(path, "file of overheads")
    return _from_toml(path, text) if path.suffix.lower() == ".toml" else _from_csv(path, text)


def write_overheads(model: OverheadModel) -> str:
    """Write a model as a CSV that :func:`read_overheads` reads as the same model; values are exact to the nanosecond.

    Raises:
        ValueError: Its overheads are not known for the same numbers of tasks.
    """
    columns = {column: model.points[name] for column, name in COLUMNS.items() if name in model.points}
    counts = [[count for count, _ in points] for points in columns.values()]
    if not counts or any(one != counts[0] for one in counts):
        raise ValueError("the overheads of a table are known for the same numbers of tasks")
    lines = [note("tick-period-ns", str(model.tick_period_ns))]
    if (told := model.provenance) is not None:
        lines += [note("statistic", told.statistic), note("machine", told.machine)]
        lines += [] if told.seed is None else [note("seed", str(told.seed))]
        samples = {name: "/".join(map(str, counts)) for name, counts in told.samples.items()}
        pairs = {"samples": samples, "boundaries": told.boundaries, "discards": told.discards}
        lines += [note(key, joined(values)) for key, values in pairs.items() if values]
    if model.uncharged is not None:
        seen = {_plain(one.what): f"{one.longest_ns}/{one.count}/{one.share_ppm}" for one in model.uncharged}
        lines.append(note("not-charged", joined(seen)))
        curves = {_plain(one.what): ";".join(map(_curve_text, one.curves)) for one in model.uncharged if one.curves}
        lines += [note("interference", joined(curves))] if curves else []
    lines.append(",".join([COUNT_COLUMN, *columns]) + "\n")
    for row, count in enumerate(counts[0]):
        values = [f"{float(points[row][1]) / NANOSECONDS['us']:.3f}" for points in columns.values()]
        lines.append(",".join([str(count), *values]) + "\n")
    return "".join(lines)


def _provenance(path: Path, notes: dict[str, str]) -> Provenance | None:
    if "statistic" not in notes:
        return None
    counted = {key: parted(notes.get(key, "")) for key in ("samples", "discards")}
    try:
        return Provenance(
            statistic=notes["statistic"],
            machine=notes.get("machine", ""),
            samples={name: tuple(map(int, value.split("/"))) for name, value in counted["samples"].items()},
            boundaries=parted(notes.get("boundaries", "")),
            discards={name: int(value) for name, value in counted["discards"].items()},
            seed=int(notes["seed"]) if "seed" in notes else None,
        )
    except ValueError as error:
        raise UsageError(f"{path}: {error}", hint="the comments of overheads count in whole numbers") from None


def _plain(name: str) -> str:
    """Give a name without what separates names in a comment."""
    return "".join(" " if letter in ",=" or not letter.isprintable() else letter for letter in name)


def _curve_text(curve: ArrivalCurve) -> str:
    return f"{curve.cost_ns}/{curve.period_ns}/{curve.jitter_ns}"


def _curves(path: Path, notes: dict[str, str]) -> dict[str, tuple[ArrivalCurve, ...]]:
    found = {}
    for what, value in parted(notes.get("interference", "")).items():
        try:
            curves = tuple(ArrivalCurve(*map(_whole, one.split("/"))) for one in value.split(";"))
        except (TypeError, ValueError):
            curves = ()
        if not curves or any(one.cost_ns == 0 or one.period_ns == 0 for one in curves):
            raise UsageError(
                f"{path}: interference: {value!r} of {what}", hint="it is COST/PERIOD/JITTER in ns, several with `;`"
            )
        found[what] = curves
    return found


def _whole(text: str) -> int:
    number = int(text)
    if not 0 <= number <= LONGEST_NS:
        raise ValueError(text)
    return number


def _uncharged(path: Path, notes: dict[str, str]) -> tuple[Uncharged, ...] | None:
    if "not-charged" not in notes:
        return None
    found = []
    curves = _curves(path, notes)
    for what, value in parted(notes["not-charged"]).items():
        try:
            longest_ns, count, share_ppm = map(int, value.split("/"))
        except ValueError:
            raise UsageError(
                f"{path}: not-charged: {value!r} of {what}", hint="it is LONGEST/COUNT/SHARE in ns, times and ppm"
            ) from None
        found.append(Uncharged(what, longest_ns, count, share_ppm, curves.get(what, ())))
    return tuple(found)


def _tick_period(path: Path, notes: dict[str, str]) -> int:
    text = notes.get("tick-period-ns", str(DEFAULT_TICK_PERIOD_NS))
    if not text.isdecimal() or not 0 < int(text) <= _MOST_NS:
        raise UsageError(f"{path}: tick-period-ns is {text!r}", hint="it is a whole number of nanoseconds up to 1 s")
    return int(text)


def _from_toml(path: Path, text: str) -> OverheadModel:
    document = toml_errors.parse(text, str(path))
    try:
        file = OverheadFile.model_validate(document)
    except ValidationError as error:
        hint = 'overheads are durations such as "3us"; leave out what is 0'
        raise toml_errors.explain(error, document, text, str(path), OverheadFile, hint) from None
    given = {name: value for name, value in file if value is not None and name != "tick_period"}
    for name, value in given.items():
        _check(f"{path}: {name}", Fraction(value))
    points = {name: [(1, Fraction(value))] for name, value in given.items()}
    return OverheadModel(str(path), points, file.tick_period or DEFAULT_TICK_PERIOD_NS, is_constant=True)


def _from_csv(path: Path, text: str) -> OverheadModel:
    # SchedCAT's own files have tabs beside the commas.
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines())]
    notes = read_notes(text.splitlines())
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
    tick_period_ns = _tick_period(path, notes)
    return OverheadModel(str(path), points, tick_period_ns, _provenance(path, notes), uncharged=_uncharged(path, notes))


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
    if len(points) == 1 or at <= points[0][0]:
        return points[0][1]
    stretches = list(itertools.pairwise(points))
    (left, low), (right, high) = next((one for one in stretches if at <= one[1][0]), stretches[-1])
    return max(Fraction(0), low + (high - low) * Fraction(at - left, right - left))
