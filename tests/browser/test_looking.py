"""What looks at pages finds each fault that it is there for, and nothing where there is none."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from looking import look
from playwright.sync_api import Page, Playwright

pytestmark = pytest.mark.browser

CHROMIUM = Path("/usr/bin/chromium")
SOUND = """
<style>body { background: #fff; color: #111; } .scroll { overflow-x: auto; } td { min-width: 4rem; }</style>
<main>
  <button>all</button> <p>A sentence that anybody can read.</p>
  <svg width="300" height="60"><text x="10" y="20">native</text><text x="10" y="50">uml</text></svg>
  <div class="scroll" aria-label="figures"><table><tr><td>302 ms</td><td>80.0 ms</td></tr></table></div>
  <table class="open"><tr><td>1</td></tr></table>
</main>
"""
FAULTS = {
    "a cut column": ("td { min-width: 40rem; }", "cut_columns"),
    "a table without a box": (".open td { min-width: 90rem; }", "boxless"),
    "half a word": ("p { width: 4rem; overflow: hidden; white-space: nowrap; }", "cut"),
    "a drawing's text beyond its frame": ("text { transform: translateX(270px); }", "cut"),
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
def page(playwright: Playwright) -> Iterator[Page]:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox"])
    yield browser.new_page(viewport={"width": 800, "height": 600})
    browser.close()


def test_a_sound_page_has_no_fault(page: Page) -> None:
    page.set_content(SOUND)
    seen = look(page)
    assert (seen.cut, seen.overlapping, seen.cut_columns, seen.boxless, seen.faint) == ([], [], [], [], [])
    assert seen.texts == 7
    assert seen.width <= 800


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_where_it_belongs(page: Page, fault: str) -> None:
    style, where = FAULTS[fault]
    page.set_content(f"{SOUND}<style>{style}</style>")
    seen = look(page)
    assert getattr(seen, where) != [], fault
