"""The page of a curve in a real browser: drawn without a script, readable in the dark, on paper and on a telephone."""

import itertools
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from stealtime.schedulability.curve import CurveRequest, trace_curve
from stealtime.schedulability.overheads import OverheadModel
from stealtime.schedulability.page import write_curve
from stealtime.schedulability.supply import parse_supply

pytestmark = pytest.mark.browser

HOSTILE = '</title><script>window.injected = 1</script><img src="x" onerror="window.injected = 2">'


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("curves") / "curve.html"
    heavy = OverheadModel(HOSTILE, {"scheduling": [(1, Fraction(100_000))]})
    request = CurveRequest("light-uniform", sets=50, overheads=(heavy,), supply=parse_supply("8ms/10ms"))
    write_curve(trace_curve(request), ["stealtime", "sched", "curve", HOSTILE], path)
    return path


@pytest.fixture
def page(browser: Browser, document: Path) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(document.as_uri())
    yield page
    page.close()


def test_lines_fall_from_the_upper_left_and_the_costliest_lies_lowest(page: Page) -> None:
    frame = page.locator("svg.line-figure").bounding_box()
    assert frame is not None
    marks = page.locator("svg.line-figure g.line")
    assert marks.count() == 4
    middles = []
    for line in marks.all():
        boxes = [mark.bounding_box() for mark in line.locator("path.mark").all()]
        assert len(boxes) == 20
        heights = [box["y"] for box in boxes if box is not None]
        # Chance may lift a point a little.
        assert all(later >= earlier - 10 for earlier, later in itertools.pairwise(heights))
        assert all(frame["y"] <= height <= frame["y"] + frame["height"] for height in heights)
        middles.append(sum(heights) / len(heights))
    assert middles == sorted(middles), "each further condition costs more"


def test_the_answer_is_the_first_that_is_read(page: Page) -> None:
    first = page.locator("main p").first
    assert "half of the sets are schedulable up to a utilization of" in first.inner_text()
    answer, figure = first.bounding_box(), page.locator("svg.line-figure").bounding_box()
    assert answer is not None
    assert figure is not None
    assert answer["y"] < figure["y"] < 900, "both are seen without scrolling"


def test_nothing_that_a_name_smuggles_in_runs(page: Page) -> None:
    assert page.evaluate("window.injected") is None
    assert page.locator("img").count() == 0
    assert HOSTILE in page.locator("#answer tbody").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_line_can_be_told_from_the_page(page: Page, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    strokes = page.locator("svg.line-figure polyline").evaluate_all(
        "lines => lines.map(line => [getComputedStyle(line).stroke, getComputedStyle(line).strokeDasharray])"
    )
    assert len({tuple(stroke) for stroke in strokes}) == 4
    expected = {"light": "rgb(61, 68, 77)", "dark": "rgb(209, 215, 224)"}
    assert strokes[0][0] == expected[scheme]


def test_paper_is_light_also_for_who_reads_in_the_dark(page: Page) -> None:
    page.emulate_media(color_scheme="dark", media="print")
    stroke = page.locator("svg.line-figure polyline").first.evaluate("line => getComputedStyle(line).stroke")
    assert stroke == "rgb(61, 68, 77)"


@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_is_wider_than_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
