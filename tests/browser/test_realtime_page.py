"""The part of the page on real time in a real browser: drawn without a script, and nothing beside its frame."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, FloatRect, Locator, Page
from realtime_pictures import cells, gathered
from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime.report.circumstances.limits import Limits
from stealtime.report.page.html import render
from stealtime.store.run import Run
from stealtime.studies.realtime.analysis.decomposition import PARTS
from stealtime.studies.realtime.page.section import section

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("realtime")
    known = write_synthetic_run(
        folder / "run", cells=[SyntheticCell("native", "tick", {"loop_ns": 68_000}, 68_000.0, 3e6, 0.3, 100)]
    )
    part = section(cells(), gathered())
    (folder / "report.html").write_text(render(Run.open(known.folder).manifest, (), [part], Limits((), (), (), ())))
    return folder / "report.html"


@pytest.fixture
def page(browser: Browser, document: Path) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(document.as_uri())
    yield page
    page.close()


def box(locator: Locator) -> FloatRect:
    found = locator.bounding_box()
    assert found is not None
    return found


def test_native_and_virtualized_stand_side_by_side_on_one_scale(page: Page) -> None:
    pairs = page.locator("#overheads .pair")
    assert pairs.count() == 4
    left, right = pairs.first.locator("svg.line-figure").all()
    assert abs(box(left)["y"] - box(right)["y"]) < 2
    assert box(left)["x"] + box(left)["width"] <= box(right)["x"]
    worst = [box(one.locator("g.line").last.locator("path.mark").first)["y"] for one in (left, right)]
    assert worst[1] < worst[0], "the guest takes longer, so it lies higher"
    for figure in (left, right):
        average, longest = (box(line.locator("path.mark").first)["y"] for line in figure.locator("g.line").all())
        assert longest < average


def test_bars_end_where_their_parts_do(page: Page) -> None:
    for bar in page.locator("#parts .dot-row:has(rect)").all():
        rectangles = [box(one) for one in bar.locator("rect.part").all()]
        assert len(rectangles) == len(PARTS)
        for one, other in itertools.pairwise(rectangles):
            assert one["x"] + one["width"] == pytest.approx(other["x"], abs=1.0)
        assert box(bar.locator(".dot-words"))["x"] >= rectangles[-1]["x"] + rectangles[-1]["width"] - 1
    colours = (
        page.locator("#parts .row-track")
        .first.locator("rect.part")
        .evaluate_all("all => all.map(one => getComputedStyle(one).fill)")
    )
    assert len(set(colours)) == len(PARTS)


def test_every_figure_keeps_inside_its_frame(page: Page) -> None:
    outside = page.evaluate(
        """[...document.querySelectorAll("svg[role=img]")].flatMap((frame) => {
          const own = frame.getBoundingClientRect();
          return [...frame.querySelectorAll("text, path, rect, polyline")].filter((shape) => {
            const box = shape.getBoundingClientRect();
            if (shape.getClientRects().length === 0) return false;
            return box.left < own.left - 1 || box.right > own.right + 1 || box.bottom > own.bottom + 1;
          }).map((shape) => shape.outerHTML);
        })"""
    )
    assert outside == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bars_follow_the_colours_of_the_page(page: Page, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    fill = page.locator("#parts rect").first.evaluate("one => getComputedStyle(one).fill")
    assert fill == {"light": "rgb(61, 68, 77)", "dark": "rgb(209, 215, 224)"}[scheme]


@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_is_wider_than_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
