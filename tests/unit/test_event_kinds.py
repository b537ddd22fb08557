"""The kinds of events of a trace: one list, and the page that describes it."""

import re
from pathlib import Path

from stealtime._core import EVENT_KINDS

PAGE = Path(__file__).parents[2] / "docs" / "run-format.md"


def documented_kinds() -> list[str]:
    """Read the table: a line ``softirq entry, exit | 4, 5`` stands for ``softirq_entry`` and ``softirq_exit``."""
    kinds: dict[int, str] = {}
    for words, codes in re.findall(r"^\| ([a-z ,]+) \| ([\d, ]+) \|", PAGE.read_text(), re.MULTILINE):
        first, *others = words.split(", ")
        subject = first.rpartition(" ")[0]
        names = [first, *(f"{subject} {other}" for other in others)]
        kinds |= dict(zip(map(int, codes.split(", ")), names, strict=True))
    return [kinds[code].replace(" ", "_") for code in range(len(kinds))]


def test_the_page_describes_every_kind_under_its_code() -> None:
    assert documented_kinds() == list(EVENT_KINDS)
