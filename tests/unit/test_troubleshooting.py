"""What docs/troubleshooting.md says that a reader sees is what the program says."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
SAID_BY_THE_KERNEL = {"Permission denied", "No space left on device"}
SOURCES = {"src/stealtime": "*.py", "crates": "*.rs", "tools": "*.sh"}
SEAM = re.compile(r'"\s*\n\s*f?"|\\\n\s*')
"""Between the lines of one literal, in Python and in Rust."""


@cache
def sources() -> str:
    texts = (path.read_text() for folder, kind in SOURCES.items() for path in sorted((ROOT / folder).rglob(kind)))
    return SEAM.sub("", "\n".join(texts))


def symptoms() -> list[str]:
    """Give the first cells of the tables."""
    rows = [line.split(" | ")[0].removeprefix("| ") for line in PAGE.read_text().splitlines() if line[:2] == "| "]
    return [cell for cell in rows if cell not in {"what you see", "--", "| --"}]


def quoted(cell: str) -> list[str]:
    """Give what a cell quotes, without the places where a value stands."""
    spans = re.findall(r"`([^`]+)`|\"([^\"]+)\"", cell)
    pieces = [piece.strip() for span in spans for piece in re.split(r"\.\.\.", span[0] or span[1])]
    return [piece.removeprefix("error: ") for piece in pieces if re.search(r"\w", piece)]


def unsaid(cell: str) -> list[str]:
    said = sources()
    return [piece for piece in quoted(cell) if piece not in said and piece not in SAID_BY_THE_KERNEL]


def test_most_symptoms_quote_the_program() -> None:
    cells = symptoms()
    assert len(cells) > 30
    assert sum(any(len(piece) > 12 for piece in quoted(cell)) for cell in cells) > len(cells) / 2


@pytest.mark.parametrize("cell", symptoms())
def test_a_symptom_is_what_the_program_says(cell: str) -> None:
    assert unsaid(cell) == []


def test_what_the_program_does_not_say_is_found() -> None:
    assert unsaid("`the host is busy: ... had a headache`") == ["had a headache"]
