"""The part of the page on telephony in a real browser: drawn without a script, inside its frames, in its colours."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from synthetic_run import SyntheticCell, write_synthetic_run
from telephony_cells import some_cells

from stealtime.report.catalogue.page import section_of
from stealtime.report.circumstances.limits import Limits
from stealtime.report.page.html import render
from stealtime.store.run import Run
from stealtime.studies.telephony.study import STUDY

pytestmark = pytest.mark.browser

OUTSIDE = """elements => elements.filter(element => element.checkVisibility()).filter(element => {
  const frame = element.closest(".dots, figure, .drawing").getBoundingClientRect();
  const own = element.getBoundingClientRect();
  return !(own.left >= frame.left - 1 && own.right <= frame.right + 1 && own.top >= frame.top - 1
    && own.bottom <= frame.bottom + 1);
}).map(element => element.outerHTML)"""


@pytest.fixture(params=[1280, 400])
def page(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """A run's page with cells of every probe, on a wide and on a narrow screen."""
    known = write_synthetic_run(
        tmp_path / "run", cells=[SyntheticCell("native", "tick", {"loop_ns": 68_000}, 68_000.0, 3e6, 0.3, 100)]
    )
    path = tmp_path / "report.html"
    section = section_of(STUDY, some_cells())
    path.write_text(render(Run.open(known.folder).manifest, (), [section], Limits((), (), (), ())))
    opened = browser.new_page(viewport={"width": request.param, "height": 900})
    opened.goto(path.as_uri())
    yield opened
    opened.close()


def test_everything_is_drawn_inside_its_frame(page: Page) -> None:
    shapes = page.locator("#telephony svg :is(rect, circle, line, text, polyline)")
    assert shapes.count() > 100
    assert shapes.evaluate_all(OUTSIDE) == []


def test_the_page_is_no_wider_than_the_screen(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("window.innerWidth")


def test_what_is_drawn_can_be_seen(page: Page) -> None:
    for name in ("rect.box", "rect.answers", "line.moment", ".line polyline"):
        shape = page.locator(f"#telephony {name}").first
        paint = "fill" if name.startswith("rect") else "stroke"
        assert shape.evaluate(f"element => getComputedStyle(element).{paint}") not in ("none", "rgba(0, 0, 0, 0)"), name
