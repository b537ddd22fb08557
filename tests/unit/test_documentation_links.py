"""Every page of the documentation is in the index, and every relative link in it leads to a file and a heading."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
MENTION = re.compile(r"\bdocs/(?:decisions/)?[\w-]+\.md\b")
"""A page that is named in a comment or a message."""


def anchors_of(page: Path) -> set[str]:
    """Give the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for path, anchor in LINK.findall(page.read_text()):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(f"{path}#{anchor}" if anchor else path)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_link_to_a_missing_page_or_heading_is_broken(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One thing, here\n[a](#one-thing-here) [b](other.md) [c](page.md#two) [d](https://example.org)\n")
    assert broken_links(page) == ["other.md", "page.md#two"]


def test_every_page_that_is_named_exists() -> None:
    sources = [
        path
        for folder in ("src", "crates", "tests", "benchmarks", "tools", "docs")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".rs", ".md", ".toml", ".sh", ".json", ".jinja", ".js"}
    ]
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in [ROOT / "README.md", *sources]
        for name in MENTION.findall(path.read_text())
        if not (ROOT / name).exists()
    }
    assert missing == set()


def test_every_page_is_in_the_index() -> None:
    named = {path for path, _ in LINK.findall((ROOT / "docs" / "README.md").read_text())}
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= named
