"""What ``run`` and ``show`` print of each study: it fits 80 columns and leaves room for the answer, heads are whole."""

import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import call_cells
import pytest
import realtime_pictures
import stretch_cells
import telephony_cells
from command import Command
from rich.console import Console
from study_pages import protection_cells

from stealtime.report.cells.model import CellFigures
from stealtime.report.plain_table import TableOfWords
from stealtime.report.summary import RunSummary
from stealtime.report.terminal.run import print_tables
from stealtime.report.terminal.short import LEFT_FOR_THE_ANSWER, SCREEN_LINES, ShortTables

MANY = 30


def stretch() -> list[CellFigures]:
    return [*stretch_cells.provisioned()]


def telephony() -> list[CellFigures]:
    return [*telephony_cells.some_cells(), *call_cells.call_cells()]


STUDIES: dict[str, tuple[Callable[[], Sequence[CellFigures]], list[str], str]] = {
    "stretch": (stretch, ["against native", "most of the lost seconds"], "waiting for a CPU of the host"),
    "realtime": (realtime_pictures.cells, ["missed", "the most urgent"], "5.0 % (4.0 % to 6.0 %)"),
    "telephony": (telephony, ["registration rate", "offered", "acknowledged"], "12,800/s"),
    "protection": (protection_cells, ["silence, TCP", "TCP, median", "UDP, 99 %"], "208 ms"),
}


def printed(cells: list[CellFigures], *, everything: bool = False) -> str:
    console = Console(width=80, file=io.StringIO())
    summary = RunSummary(run_id="r", created_at=datetime.now(UTC), campaign="c", host={}, cells=cells)
    print_tables(summary, console, everything=everything)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("study", STUDIES)
def test_the_short_form_of_a_study_fits_a_screen(study: str) -> None:
    make, heads, value = STUDIES[study]
    cells = list(make())
    text = printed(cells)
    assert len(text.splitlines()) <= SCREEN_LINES - LEFT_FOR_THE_ANSWER
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "…" not in text
    assert all(head in text for head in heads), text
    assert value in text
    assert "--all" in text
    assert len(printed(cells, everything=True).splitlines()) > len(text.splitlines())


def shown(tables: list[TableOfWords], lines: int) -> str:
    console = Console(width=80, file=io.StringIO())
    console.print(ShortTables(tables, lines, others=1))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def table(title: str, rows: int) -> TableOfWords:
    return TableOfWords(title, ("name", "value"), [(f"row {number}", "1") for number in range(rows)])


def test_what_has_no_room_is_left_out_whole_and_counted_while_smaller_tables_still_have_it() -> None:
    text = shown([table("First", 3), table("Long", MANY), table("Last", 2)], 20)
    assert "First" in text
    assert "Last" in text
    assert "Long" not in text
    assert text.endswith("2 more tables: --all\n")


def test_the_first_table_is_shown_however_long_it_is() -> None:
    text = shown([table("First", MANY), table("Last", 1)], 20)
    assert f"row {MANY - 1}" in text
    assert "Last" not in text


@pytest.mark.usefixtures("echo_study", "platforms")
def test_a_study_that_declares_no_short_tables_shows_those_of_its_figures(stealtime: Command) -> None:
    assert stealtime("run", "canyon").code == 0
    shown = [" ".join(line.split()) for line in stealtime("show").out.splitlines()]
    assert sum("1.00 µs 2,000" in line for line in shown) == 4
