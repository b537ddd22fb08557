"""The answer of a study that declares its figures; and how its figures are quoted by one that has a sentence."""

from collections.abc import Sequence
from typing import Any

from stealtime.report.answer import Answer, Quotes, bare_ratio, times
from stealtime.report.answer_trust import doubts, more_repetitions, remedy, why_nothing
from stealtime.report.catalogue.cell import CatalogueCell
from stealtime.report.catalogue.shown import ShownStudy
from stealtime.report.repetitions import FigureOfRepetitions, ratio_to
from stealtime.report.summary import RunSummary

_FIGURES_MAX = 3
"""Of a cell in one sentence."""


def answer_of(study: ShownStudy, summary: RunSummary, cells: Sequence[CatalogueCell]) -> Answer:
    """Answer with the first figures of each cell, as its first table has them.

    Args:
        study: What declares them.
        summary: Of the run.
        cells: Those of the study, at least one.
    """
    valid = [cell for cell in cells if cell.valid and cell.figures]
    if not valid:
        return Answer.not_judged(study.name, *why_nothing(summary, cells))
    quotes = Quotes()
    head, names = study.names(valid)
    told = [_told(quotes, study, cell, f"{head} {name}".strip()) for cell, name in zip(valid, names, strict=True)]
    quoted = [cell.figure(name) for cell in valid[:1] for name in _first_figures(study, cell)]
    return answered(study.name, summary, told, quotes=quotes, cells=(valid[:1], cells), figures=quoted)


def answered(
    study: str,
    summary: RunSummary,
    told: Sequence[str],
    *,
    quotes: Quotes,
    cells: tuple[Sequence[CatalogueCell], Sequence[CatalogueCell]],
    figures: Sequence[FigureOfRepetitions],
) -> Answer:
    """Answer with a sentence and lines, and say whether that may be trusted.

    Args:
        study: Its name.
        summary: Of the run.
        told: The sentence, then the lines.
        quotes: That quoted their figures.
        cells: Those that the sentence quotes, and all of the study.
        figures: Those of the sentence: without an interval it is not to be trusted.
    """
    quoted, own = cells
    reasons, hint = doubts(summary, quoted, own), remedy(summary, own)
    unsure = list(dict.fromkeys(one.because for one in figures if one.because is not None and one.p50 != 0))
    if unsure and not reasons:
        hint = more_repetitions(summary)
    because = [*reasons, *unsure]
    return Answer.of(study, told[0], quotes=quotes, because=because, hint=hint, lines=told[1:])


def figure_words(quotes: Quotes, cell: CatalogueCell, name: str, *, with_interval: bool = True) -> str:
    """Quote the median of a figure with its interval: ``205 ms (190 ms to 220 ms)``, as tables have them."""
    one, in_words = cell.figure(name), cell.declared.in_words
    words = in_words(name, one.p50)
    if one.p50 is None:
        return words
    quotes.figure(cell, f"figures.{name}.p50", one.p50, words, one.low, one.high)
    return words if one.low is None or not with_interval else f"{words} ({one.interval_words(in_words)})"


def count_words(quotes: Quotes, cell: CatalogueCell, name: str) -> str:
    """Quote what was counted over all repetitions."""
    counted = cell.count(name)
    words = cell.declared.in_words(name, counted)
    place = name if name in type(cell).model_fields else f"counts.{name}"
    return words if counted is None else quotes.figure(cell, place, counted, words)


def ratio_words(quotes: Quotes, base: CatalogueCell, other: CatalogueCell, name: str) -> str | None:
    """Quote how many times that of another cell a figure is, with its interval; None where that is not judged."""
    ratio, _ = ratio_to(base.figure(name), other.figure(name), same_session=True)
    if ratio is None:
        return None
    words = times(ratio.value)
    quotes.figure(other, f"ratio.{name}", ratio.value, words, ratio.low, ratio.high)
    return f"{words} as long ({bare_ratio(ratio.low)} to {bare_ratio(ratio.high)})"


def same_but(one: CatalogueCell, other: CatalogueCell, *names: str) -> bool:
    """Tell whether two cells of the same platform and probe differ in these parameters alone."""

    def rest(cell: CatalogueCell) -> dict[str, Any]:
        return {name: value for name, value in cell.parameters.items() if name not in names}

    alike = (one.platform, one.probe, one.scenario) == (other.platform, other.probe, other.scenario)
    return alike and rest(one) == rest(other)


def _first_figures(study: ShownStudy, cell: CatalogueCell) -> list[str]:
    """Give the names of the figures of the first table that has this cell, those that it has a value of."""
    declared = cell.declared.figures
    tables = (table for table in study.catalogue.tables if all(name in declared for name in table.figures))
    first = next(tables, None)
    names = list(declared) if first is None else list(first.figures)
    return [name for name in names if cell.figure(name).p50 is not None][:_FIGURES_MAX]


def _told(quotes: Quotes, study: ShownStudy, cell: CatalogueCell, name: str) -> str:
    figures = [f"{cell.declared.label(one)} {figure_words(quotes, cell, one)}" for one in _first_figures(study, cell)]
    return f"{name}: {', '.join(figures)}"
