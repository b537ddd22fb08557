"""The circumstances of a run and what limits it, as tables and lines: the same for every study."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stealtime.report.cells.model import CellFigures
from stealtime.report.circumstances.exits import TITLE, HypervisorLine, hypervisor_lines
from stealtime.report.circumstances.notes import notes_of
from stealtime.report.plain_table import INVALID_MARK, about, cell_title, new_table, of_cells
from stealtime.report.summary import RunSummary


def with_circumstances(tables: RenderableType, summary: RunSummary, cells: Sequence[CellFigures]) -> RenderableType:
    """Give the tables of some cells of a run, the circumstances of these, and what limits them."""
    part = summary.model_copy(update={"cells": cells})
    return Group(tables, *circumstances(part), *limits(cells))


def circumstances(summary: RunSummary) -> list[RenderableType]:
    """Give the exits of hypervisors and the notes on clocks, neighbours, scenarios and traces."""
    parts = exit_tables(summary)
    for title, lines in notes_of(summary).items():
        parts += [Text(f"\n{title}", style="bold"), *(Text(f"  {line}") for line in lines)]
    return parts


def limits(cells: Sequence[CellFigures]) -> list[RenderableType]:
    """Give each thing that is wrong with cells, or limits them, once with the cells that it is about."""
    parts: list[RenderableType] = []
    for title, style, texts in (
        (f"{INVALID_MARK} Must not be used, or failed", "bold yellow", [cell.reasons for cell in cells]),
        ("Limits these results", "bold", [cell.limits for cell in cells]),
    ):
        by_text: dict[str, list[str]] = {}
        for cell, own in zip(cells, texts, strict=True):
            for text in own:
                by_text.setdefault(text, []).append(f"{cell.platform} {cell_title(cell.probe, cell.parameters)}")
        if by_text:
            parts.append(Text(f"\n{title}", style=style))
            parts += [Text(f"  {text} [{about(names, len(cells))}]") for text, names in by_text.items()]
    return parts


def short_limits(cells: Sequence[CellFigures]) -> list[RenderableType]:
    """Give the same as far as there is room on a screen: what limits cells by its first words, and for how many."""
    wrong: dict[str, list[str]] = {}
    for cell in cells:
        for text in cell.reasons:
            wrong.setdefault(text, []).append(f"{cell.platform} {cell_title(cell.probe, cell.parameters)}")
    limiting = Counter(words for cell in cells for words in {_first_words(text) for text in _limits_alone(cell)})
    told = [
        *_some(
            f"{INVALID_MARK} must not be used: {text} [{about(names, len(cells))}]" for text, names in wrong.items()
        ),
        *_some(f"limits: {words} ({of_cells(count, len(cells))})" for words, count in limiting.most_common()),
    ]
    return [Text(line, style="bold yellow" if line.startswith(INVALID_MARK) else "dim") for line in told]


def _some(lines: Iterable[str]) -> list[str]:
    told = list(lines)
    more = len(told) - _SHOWN_IN_SHORT
    return told if more <= 0 else [*told[:_SHOWN_IN_SHORT], f"  and {more} more: --all"]


def _limits_alone(cell: CellFigures) -> list[str]:
    """Leave out who else ran, if that is known: it is said in a line of its own."""
    is_known = cell.strangers is not None and cell.strangers.words is not None
    return [text for text in cell.limits if not (is_known and text.startswith("not alone"))]


def _first_words(text: str) -> str:
    return _ENDS_OF_WORDS.split(text, maxsplit=1)[0]


def exit_tables(summary: RunSummary) -> list[RenderableType]:
    """Give a table for each scenario, the kinds of exits below it; nothing without counters."""
    lines = hypervisor_lines(summary)
    if not lines:
        return []
    parts: list[RenderableType] = [Text(f"\n{TITLE}", style="bold")]
    for scenario, own in lines.items():
        parts.append(_exit_table(own, f"scenario {scenario}" if len(lines) > 1 else None))
        parts += [Padding(Text(_kind_words(line)), (0, 0, 0, 2)) for line in own if line.kinds]
    parts.append(Text(_LEGEND, style="dim"))
    return parts


_SHOWN_IN_SHORT = 3
_ENDS_OF_WORDS = re.compile(r"[:;] | \(")
_LEGEND = (
    "exit: a guest was left for KVM; /s: in a second, all vCPUs together; polls won: KVM's polls for the end of a halt "
    "that saw it; polled in vain, waited: share of the vCPUs' time; medians over the repetitions, with the set-up of a "
    "trial; kinds of exits overlap and are not all"
)


def _exit_table(lines: Sequence[HypervisorLine], title: str | None) -> Table:
    table = new_table(title)
    table.add_column("platform", no_wrap=True)
    table.add_column("probe", no_wrap=True)
    for heading in ("exits\n/s", "halts\n/s", "polls\nwon", "polled\nin vain", "waited"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(
            f"{line.platform}{'' if line.is_valid else ' ' + INVALID_MARK}",
            *(line.probe, line.exits, line.halts, line.polls_won, line.polled_in_vain, line.waited),
            style=None if line.is_valid else "yellow",
        )
    return table


def _kind_words(line: HypervisorLine) -> str:
    kinds = ", ".join(f"{kind.words} {kind.rate}/s" for kind in line.kinds)
    return f"{line.platform} {line.probe}: {kinds}"
