"""A table of tasks from a spreadsheet: CSV with a row for each task, under headers of many ways to name them."""

import csv
import io
import re
from fractions import Fraction

from stealtime.schedulability.formats.draft import Draft, TaskDraft, unit_ns
from stealtime.vocabulary.quantities import NANOSECONDS

_COLUMNS: dict[str, tuple[str, ...]] = {
    "name": ("name", "task", "taskname", "id", "taskid", "label", "thread"),
    "cost": ("c", "cost", "wcet", "e", "executiontime", "worstcaseexecutiontime", "execution", "capacity", "runtime"),
    "period": ("t", "period", "mit", "interarrival", "interarrivaltime", "minimuminterarrivaltime", "cycle"),
    "deadline": ("d", "deadline", "relativedeadline"),
    "jitter": ("j", "jitter", "releasejitter"),
    "blocking": ("b", "blocking", "blockingtime"),
    "priority": ("prio", "priority", "pri"),
    "cpu": ("cpu", "core", "processor", "partition"),
}
_NEEDED = ("cost", "period")
_TIMES = ("cost", "period", "deadline", "jitter", "blocking")
_UNIT_IN_HEADER = re.compile(r"[\[(/]\s*([a-zA-Zµ]+)\s*[\])]?\s*$|[_ ]([a-zA-Zµ]+)\s*$")
_CELL = re.compile(r"([0-9.,]+(?:[eE][+-]?\d+)?)\s*([a-zA-Zµ]*)")


def looks_like_sheet(text: str) -> bool:
    """Tell whether the first line that says something has the headers of cost and period."""
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    return any(
        {"cost", "period"} <= {column for one in first.split(delimiter) if (column := _column(one)[0])}
        for delimiter in ",;\t"
    )


def read_sheet(draft: Draft, text: str, unit: str | None) -> None:
    """Read the rows.

    Raises:
        UsageError: A column is missing or there twice, or a cell is no time, or has no unit and nothing else tells it.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise draft.refuse("it is empty")
    delimiter = max(
        ",;\t", key=lambda one: len({column for part in lines[0].split(one) if (column := _column(part)[0])})
    )
    rows = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter))
    columns, units = _headers(draft, rows[0])
    default = None if unit is None else unit_ns(unit)
    for number, row in enumerate(rows[1:], start=1):
        if not any(cell.strip() for cell in row):
            continue
        if len(row) > len(rows[0]) and any(cell.strip() for cell in row[len(rows[0]) :]):
            raise draft.refuse(f"row {number} has {len(row)} cells, and the head has {len(rows[0])}")
        cells = {column: row[place].strip() for column, place in columns.items() if place < len(row)}
        name = cells.get("name") or f"task {number}"

        def time(column: str, cells: dict[str, str] = cells, name: str = name) -> Fraction | None:
            return _time(draft, cells.get(column, ""), f"{column} of {name}", units.get(column) or default)

        cost, period = time("cost"), time("period")
        if cost is None or period is None:
            raise draft.refuse(f"the {'cost' if cost is None else 'period'} of {name} is missing")
        draft.tasks.append(
            TaskDraft(
                name=name,
                cost_ns=cost,
                period_ns=period,
                deadline_ns=time("deadline"),
                jitter_ns=time("jitter") or Fraction(0),
                blocking_ns=time("blocking") or Fraction(0),
                priority=draft.whole(cells["priority"], f"priority of {name}") if cells.get("priority") else None,
                cpu=draft.whole(cells["cpu"], f"cpu of {name}") if cells.get("cpu") else 0,
            )
        )
    if any(task.priority is not None for task in draft.tasks):
        draft.remark("A higher priority number goes first, as in SCHED_FIFO.")


def _headers(draft: Draft, head: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    columns: dict[str, int] = {}
    units: dict[str, int] = {}
    unknown = []
    has_period = any(_column(text)[0] == "period" for text in head)
    for place, text in enumerate(head):
        column, size = _column(text)
        if _plain(text) == "p":
            # Some call the period so, some the priority.
            column = "priority" if has_period else "period"
        if column is None:
            if text.strip():
                unknown.append(text.strip())
            continue
        if column in columns:
            raise draft.refuse(
                f"the columns {head[columns[column]].strip()!r} and {text.strip()!r} are both the {column}"
            )
        columns[column] = place
        if size is not None:
            units[column] = size
    missing = [one for one in _NEEDED if one not in columns]
    if missing:
        shown = ", ".join(text.strip() for text in head)[:80]
        raise draft.refuse(
            f"no column is the {missing[0]}; it has {shown}",
            hint=f"the {missing[0]} may be called {', '.join(_COLUMNS[missing[0]][:4])}",
        )
    if unknown:
        draft.remark(f"The columns {', '.join(unknown)} are not taken.")
    return columns, units


def _column(header: str) -> tuple[str | None, int | None]:
    """Give what a header names, and the unit that it has: ``Period (ms)``, ``wcet_us``, ``C [µs]``."""
    text = header.strip().strip('"')
    size = None
    if (found := _UNIT_IN_HEADER.search(text)) and (found[1] or found[2]) in NANOSECONDS:
        size = NANOSECONDS[found[1] or found[2]]
        text = text[: found.start()]
    plain = _plain(text)
    return next((column for column, names in _COLUMNS.items() if plain in names), None), size


def _plain(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower()).removesuffix("i") or text.lower()


def _time(draft: Draft, text: str, what: str, size: int | None) -> Fraction | None:
    if not text or text == "-":
        return None
    found = _CELL.fullmatch(text)
    if found is None:
        raise draft.refuse(f"{what} is {text!r}, which is no time")
    if found[2] and found[2] not in NANOSECONDS:
        raise draft.refuse(f"{what} is {text!r}, whose unit is unknown", hint=f"known: {', '.join(NANOSECONDS)}")
    size = NANOSECONDS[found[2]] if found[2] else size
    number = found[1]
    if "," in number:
        if number.count(",") > 1 or "." in number:
            raise draft.refuse(f"{what} is {text!r}: is the comma one of thousands?", hint="write it without")
        number = number.replace(",", ".")
    value = draft.number(number, what)
    if size is None and value != 0:
        raise draft.refuse(
            f"{what} is {text!r}, which has no unit", hint="write 2ms, or Period (ms), or give --unit ms"
        )
    return value * (size or 1)
