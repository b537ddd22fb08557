"""What a study declares of its figures: how each is taken from a result, put together, called, and where it is shown.

All else follows: :mod:`.cell` computes the figures of a cell, :mod:`.comparison` holds those of two runs side by side,
:mod:`.rows` makes tables of them, which :mod:`.terminal` and :mod:`.page` show; :mod:`.pictures` draws. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stealtime.report import notation
from stealtime.report.catalogue.declared_pictures import Spread, TimeLine
from stealtime.store.results import Result


@dataclass(frozen=True)
class Figure:
    """A figure of a result. The end of its name tells its unit, as in ``silence_ns``: see :func:`in_words`."""

    label: str
    """What tables and lists call it."""
    take: Callable[[Any], float | None] | None = None
    """Gives its value, of a result; None where that does not have it. Where this is None, the result has it by name."""
    combine: Literal["median", "sum"] = "median"
    """How the repetitions of a cell become one value: their median, with the interval of their geometric mean in
    another session; or their sum, for what is counted."""
    write: Callable[[float], str] | None = None
    """Writes a value whose unit the name does not tell."""

    def value(self, name: str, result: Any) -> float | None:
        """Give its value of a result, or of whatever else it is taken from."""
        found: float | None = getattr(result, name) if self.take is None else self.take(result)
        return found

    def in_words(self, name: str, value: float | None) -> str:
        if value is None:
            return notation.ABSENT
        if self.write is not None:
            return self.write(value)
        return notation.count(round(value)) if self.combine == "sum" else in_words(name, value)


def plain(**labels: str) -> dict[str, Figure]:
    """Declare figures that a result has by these names, with their labels."""
    return {name: Figure(label) for name, label in labels.items()}


def counts(*names: str, **taken: Callable[[Any], float | None]) -> dict[str, Figure]:
    """Declare numbers that are added up: those that a result has by these names, then those that are taken of it."""
    return {name: Figure(name.replace("_", " "), taken.get(name), "sum") for name in (*names, *taken)}


@dataclass(frozen=True)
class FigureTable:
    """A table with a row for each cell whose probe has all of these figures."""

    title: str
    figures: tuple[str, ...]
    """The columns, by name."""
    short: tuple[str, ...] = ()
    """Those that a screen of 80 columns has room for; a table without any is not shown there, unless no table has."""
    only_measured: bool = False
    """Whether a cell without a value of any of them is left out."""
    of: Callable[[Any], bool] | None = None
    """Where given, only cells that this is true of have a row: where one probe measures things apart."""
    is_base: Callable[[Any], bool] | None = None
    """Where given, the table tells how many times as large the figures are as those of the cell of the same platform
    and probe that this is true of."""


@dataclass(frozen=True)
class ProbeFigures:
    """What is declared of a probe."""

    model: type[Result]
    """Of its results."""
    figures: Mapping[str, Figure]
    """By name, in the order in which they are listed."""
    invalid: Callable[[Any], Sequence[str]] | None = None
    """Says why a result may not be used, beyond what holds for those of every study."""

    def names(self, combine: Literal["median", "sum"]) -> list[str]:
        """Give the names of the figures that are put together in a way."""
        return [name for name, figure in self.figures.items() if figure.combine == combine]

    def value(self, name: str, result: Any) -> float | None:
        return self.figures[name].value(name, result)

    def label(self, name: str) -> str:
        return self.figures[name].label

    def in_words(self, name: str, value: float | None) -> str:
        return self.figures[name].in_words(name, value)


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """All figures of a study."""

    title: str
    """Of its part of the page."""
    question: str
    """That it answers."""
    probes: Mapping[str, ProbeFigures]
    """By the name of the probe."""
    tables: tuple[FigureTable, ...]
    """In the order in which they are shown."""
    pictures: tuple[Spread | TimeLine, ...] = ()
    """That the page has above the tables."""
    limits: Callable[[Sequence[Any]], Sequence[str]] = lambda _results: ()
    """Says what limits the figures of a cell, by the results that they are of."""
    contents: str | None = None
    """What of the run's samples is in the page."""

    def names(self, combine: Literal["median", "sum"]) -> list[str]:
        """Give the names of all figures that are put together in a way, each once."""
        return list(dict.fromkeys(name for probe in self.probes.values() for name in probe.names(combine)))


def in_words(name: str, value: float) -> str:
    """Write a value with its unit, which the end of its name tells."""
    if name.endswith("_ns"):
        return notation.duration(value, 3)
    if name.endswith("_percent"):
        # All of them is another statement than nearly all.
        return f"{value:g} %" if value in (0.0, 100.0) else f"{value:.3g} %" if value < 99 else f"{value:.2f} %"
    if name.endswith("_ppm"):
        return notation.percent(value / 1e6)
    if name.endswith("_bytes_per_s"):
        return f"{notation.three_digits(value / 1e6)} MB/s"
    if name.endswith("_bytes"):
        return f"{notation.three_digits(value / 1e3)} kB"
    return f"{notation.three_digits(value)}{'/s' if name.endswith('_per_s') else ''}"
