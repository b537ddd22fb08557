"""Tables of words on terminals of any width: nothing is cut, and what all rows share is said once."""

# ruff: noqa: RUF001 - dashes and signs as they are printed.

import io

import pytest
from rich.console import Console
from telephony_cells import some_cells

from stealtime.report.catalogue.rows import tables_of
from stealtime.report.plain_table import TableOfWords
from stealtime.report.words_table import printed, shared_once
from stealtime.studies.telephony.study import STUDY

NAMES = ("uml net every 100ms, UDP, 200 phones (3x)", "uml no-net every 1s, UDP, 200 phones (3x)")
TABLE = TableOfWords(
    "When its host dies",
    ("", "silence", "acknowledged registrations", "lost", "against native"),
    [
        (NAMES[0], "200 ms", "400", "0", "2.01× (1.98 to 2.04)"),
        ("", "190 ms to 210 ms", "", "", ""),
        (NAMES[1], "–", "400", "6", "–"),
    ],
)


def shown(table: TableOfWords, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    console.print(printed(table))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_what_all_rows_share_is_said_once_above() -> None:
    told = shared_once(TABLE)
    assert told.title == "When its host dies (all: UDP, 200 phones, 3x)"
    assert [row[0] for row in told.rows] == ["uml net every 100ms", "", "uml no-net every 1s"]
    assert [row[1:] for row in told.rows] == [row[1:] for row in TABLE.rows]


def test_a_single_row_is_named_in_the_title() -> None:
    told = shared_once(TableOfWords(TABLE.title, TABLE.heads, TABLE.rows[:2]))
    assert told.title == "When its host dies (uml net every 100ms, UDP, 200 phones, 3x)"
    assert told.heads == TABLE.heads[1:]
    assert [len(row) for row in told.rows] == [4, 4]
    assert told.named == 0


def test_a_column_of_one_name_goes_and_the_others_stay_whole() -> None:
    rows = [("uml", "half", "alone", "1 s"), ("uml", "whole", "alone", "2 s")]
    table = TableOfWords("Stretch", ("platform", "scenario", "beside it", "elapsed"), rows, named=3, whole=(0, 1))
    told = shared_once(table)
    assert told.title == "Stretch (platform: uml; beside it: alone)"
    assert (told.heads, told.named, told.whole) == (("scenario", "elapsed"), 1, (0,))
    assert list(told.rows) == [("half", "1 s"), ("whole", "2 s")]


def test_rows_that_would_have_no_name_left_keep_theirs() -> None:
    table = TableOfWords("Echoes", ("", "n"), [("uml", "1"), ("uml, traced", "2")])
    assert shared_once(table) == table


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_number_and_no_word_of_a_head_is_cut(width: int) -> None:
    for table in [TABLE, *tables_of(STUDY, some_cells())]:
        lines = shown(table, width)
        assert [line for line in lines if len(line) > width or "…" in line] == []
        words = " ".join(" ".join(lines).split())
        told = shared_once(table)
        for head in told.heads:
            assert all(word in words for word in head.split())
        for cell in (cell for row in told.rows for cell in row[told.named :] if cell):
            assert all(piece in words for piece in cell.split(" (")), cell


def test_what_has_no_room_stands_below_with_the_same_names() -> None:
    narrow, wide = shown(TABLE, 60), shown(TABLE, 120)
    assert sum("uml no-net" in line for line in wide) == 1
    assert sum("uml no-net" in line for line in narrow) == 2
    assert "against" not in " ".join(narrow[:6])
    assert [" ".join(line.split()) for line in narrow[-4:]][-1].endswith("–")
