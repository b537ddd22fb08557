"""What all printed tables share: how they look, the units that fit, the marks and a probe's short name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table

from stealtime.report import notation
from stealtime.vocabulary.quantities import word_of

INVALID_MARK = "!"
_UNITS = (("s", 1e9), ("ms", 1e6), ("\N{MICRO SIGN}s", 1e3), ("ns", 1.0))
_DIGITS = 4
_NAMED = 3


def cell_title(probe: str, parameters: Mapping[str, object]) -> str:
    """Name a probe with its parameters but for tables and lists, in a few letters: ``switch 1000``, ``wakeup 1ms``."""
    told = [(key, value) for key, value in sorted(parameters.items()) if not isinstance(value, list | dict)]
    return " ".join([probe, *(word_of(key, value) for key, value in told)])


def about(names: Sequence[str], count: int) -> str:
    """Name the cells that a remark is about: some of them, or all that there are.

    Args:
        names: Of those that it is about.
        count: How many there are in all.
    """
    if len(names) == count:
        return "all cells"
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def of_cells(number: int, count: int) -> str:
    """Say how many cells a remark is about, where there is no room for their names: ``3 of 12 cells``."""
    return "all cells" if number == count else f"{number} of {count} cells"


def new_table(title: str | None = None) -> Table:
    """Give an empty table as all of ours look."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )


@dataclass(frozen=True)
class TableOfWords:
    """A table as rows of words, printed and on the page; the first column names the cell."""

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    named: int = 1
    """How many columns, from the left, are names and not numbers."""
    whole: tuple[int, ...] = ()
    """Columns whose names are not broken where the terminal is narrow."""
    invalid: tuple[int, ...] = ()
    """Rows that must not be used, by number, as the page shows them."""
    wide: int = 0
    """How many columns, from the right, there is room for on the page alone."""


def unit_for(values: Sequence[float | None]) -> tuple[str, float]:
    """Choose the largest unit in which the smallest value is still a tenth or more."""
    known = [value for value in values if value]
    if not known:
        return _UNITS[2]
    smallest = min(known)
    return next((unit for unit in _UNITS if smallest >= unit[1] / 10), _UNITS[-1])


def number(nanoseconds: float | None, unit_ns: float) -> str:
    """Write a number with three digits or more, and thousands apart."""
    if nanoseconds is None:
        return notation.ABSENT
    value = nanoseconds / unit_ns
    whole_digits = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:,.{max(0, _DIGITS - 1 - whole_digits)}f}"
