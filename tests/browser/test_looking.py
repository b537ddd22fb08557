"""What looks at pages finds each fault that it is there for, and nothing where there is none."""

from collections.abc import Iterator

import pytest
from looking import look
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

SOUND = """
<style>body { background: #fff; color: #111; } .scroll { overflow-x: auto; } td { min-width: 4rem; }</style>
<main>
  <button>all</button> <p>A sentence that anybody can read.</p>
  <svg role="img" width="300" height="60" overflow="visible">
    <text x="10" y="20">native</text><text x="10" y="50">uml</text>
  </svg>
  <div class="scroll" aria-label="figures"><table><tr><td>302 ms</td><td>80.0 ms</td></tr></table></div>
  <div class="scroll" id="beside"><div class="dots">a row of dots</div></div>
  <details open data-was-folded>
    <div class="scroll"><table class="wide"><tr><td>1</td><td>2</td></tr></table></div>
  </details>
  <details open><div class="scroll"><table class="stood-open"><tr><td>1</td></tr></table></div></details>
  <table class="open"><tr><td>1</td></tr></table>
</main>
"""
FAULTS = {
    "a cut column": ("td { min-width: 40rem; }", "cut_columns"),
    "a cut column of a table that nobody unfolded": (".scroll td { min-width: 40rem; }", "unfolded_columns"),
    "a cut column in a box that stood open": (".stood-open td { min-width: 60rem; }", "unfolded_columns"),
    "a picture that is scrolled sideways": (".dots { min-width: 70rem; }", "halved"),
    "a picture's text beyond it": ("text { transform: translateX(270px); }", "halved"),
    "a picture beyond the window": ("svg { width: 900px; }", "halved"),
    "small letters": (".dots { font-size: 9px; }", "small"),
    "small letters of a drawing": ("text { transform: scale(0.5); }", "small"),
    "a table without a box": (".open td { min-width: 90rem; }", "boxless"),
    "half a word": ("p { width: 4rem; overflow: hidden; white-space: nowrap; }", "cut"),
    "a drawing's text beyond its frame": ("svg { overflow: hidden; } text { transform: translateX(270px); }", "cut"),
    "text over text of a drawing": ("text + text { transform: translateY(-30px); }", "overlapping"),
    "text over text": (
        "p { margin-bottom: -6rem; } svg { display: none; } .scroll { margin-top: 4.5rem; }",
        "overlapping",
    ),
    "a tool over text": ("button { position: absolute; left: 5px; top: 50px; }", "overlapping"),
    "faint text": ("p { color: #bbb; }", "faint"),
    "faint text of a drawing": ("text { fill: #bbb; }", "faint"),
}
"""By what is wrong: the rule that makes it so, and where it is to be found."""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 800, "height": 600})
    yield page
    page.close()


def test_a_sound_page_has_no_fault(page: Page) -> None:
    page.set_content(SOUND)
    seen = look(page)
    assert (seen.cut, seen.overlapping, seen.cut_columns, seen.boxless, seen.faint) == ([], [], [], [], [])
    assert (seen.unfolded_columns, seen.halved, seen.small, seen.pictures) == ([], [], [], 2)
    assert seen.texts == 11
    assert seen.width <= 800


def test_a_table_that_was_folded_away_may_be_scrolled(page: Page) -> None:
    page.set_content(f"{SOUND}<style>.wide td {{ min-width: 60rem; }}</style>")
    seen = look(page)
    assert (len(seen.cut_columns), seen.unfolded_columns) == (1, [])


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_where_it_belongs(page: Page, fault: str) -> None:
    style, where = FAULTS[fault]
    page.set_content(f"{SOUND}<style>{style}</style>")
    seen = look(page)
    assert getattr(seen, where) != [], fault
