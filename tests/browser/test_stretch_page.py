"""The part of the page on stretch in a real browser: drawn without a script, readable, and nothing beside its frame."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page
from stretch_cells import cell, provisioned, recordings, together
from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime.report.circumstances.limits import Limits
from stealtime.report.page.html import render
from stealtime.store.run import Run
from stealtime.studies.stretch.analysis.model import StretchCell
from stealtime.studies.stretch.analysis.recorded import Recording
from stealtime.studies.stretch.analysis.relate import relate
from stealtime.studies.stretch.page.section import section

pytestmark = pytest.mark.browser

Show = Callable[[list[StretchCell], Sequence[Recording | None]], Page]

INSIDE = """element => {
  const frame = element.closest(".dots, svg[role=img]").getBoundingClientRect(), own = element.getBoundingClientRect();
  return own.left >= frame.left - 1 && own.right <= frame.right + 1 && own.bottom <= frame.bottom + 1;
}"""


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Open a run's page with given cells and recordings."""
    known = write_synthetic_run(
        tmp_path / "run", cells=[SyntheticCell("native", "tick", {"loop_ns": 68_000}, 68_000.0, 3e6, 0.3, 100)]
    )
    path = tmp_path / "report.html"
    context = browser.new_context(viewport={"width": 1280, "height": 900})

    def showing(cells: list[StretchCell], recorded: Sequence[Recording | None]) -> Page:
        part = section(cells, recorded)
        path.write_text(render(Run.open(known.folder).manifest, (), [part], Limits((), (), (), ())))
        page = context.new_page()
        page.goto(path.as_uri())
        page.evaluate("() => { for (const one of document.querySelectorAll('details')) one.open = true; }")
        return page

    yield showing
    context.close()


@pytest.fixture
def page(show: Show) -> Page:
    """A run's page with cells whose figures are known."""
    return show(provisioned(), recordings())


def test_measured_and_predicted_are_drawn_inside_the_figure(page: Page) -> None:
    dots = page.locator("#stretch svg circle.measured")
    assert dots.count() == 2
    assert page.locator("#stretch svg line.interval").count() == 2
    assert page.locator("#stretch svg path.predicted").count() == 1
    for shape in page.locator(".row-track :is(circle, rect, path)").all():
        assert shape.evaluate(INSIDE), shape.evaluate("element => element.outerHTML")
    first, second = (dots.nth(number).bounding_box() for number in range(2))
    assert first is not None
    assert second is not None
    assert first["x"] < second["x"], "the one that took longer lies further right"


def test_lost_seconds_are_bars_that_end_at_the_whole(page: Page) -> None:
    last = page.locator("#lost-seconds .row-track").last
    rights = [box["x"] + box["width"] for shape in last.locator("rect").all() if (box := shape.bounding_box())]
    total = last.locator("line.total").bounding_box()
    assert total is not None
    assert max(rights) == pytest.approx(total["x"] + total["width"] / 2, abs=4.0)
    assert "waiting for a CPU of the host" in page.locator("#lost-seconds .stretch-legend").inner_text()


def test_counters_over_time_have_an_axis_at_each_side(page: Page) -> None:
    figures = page.locator("#provisioning > figure")
    assert figures.count() == 3
    for shape in page.locator("#provisioning svg :is(circle, polyline, text)").all():
        assert shape.evaluate(INSIDE), shape.evaluate("element => element.outerHTML")
    native, alone, beside = (figures.nth(number) for number in range(3))
    # The host itself has no virtual CPU that waits, and no axis for it.
    assert (native.locator("g.right").count(), alone.locator("g.right").count()) == (0, 1)
    assert [native.locator(f"g.{kind}").count() for kind in ("busy", "run", "wait", "dispatch")] == [1, 0, 0, 0]
    # What is absent in the middle interrupts the line.
    assert beside.locator("g.wait polyline").count() == 2
    assert "ms" in (beside.locator("g.right").text_content() or "")
    heights = [one.locator("g.dispatch circle").last.bounding_box() for one in (alone, beside)]
    tops = [one.locator("svg.plane").bounding_box() for one in (alone, beside)]
    places = [
        dot["y"] - top["y"] for dot, top in zip(heights, tops, strict=True) if dot is not None and top is not None
    ]
    assert places[0] > places[1], "who waits longer at each dispatch lies higher on the same axis"
    verdicts = page.locator("#provisioning table").inner_text()
    assert "over-committed host" in verdicts
    assert "wait per dispatch of vCPU 0" in verdicts


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_lines_over_time_can_be_told_from_the_page(page: Page, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    figure = page.locator("#provisioning > figure").last
    behind = figure.evaluate("element => getComputedStyle(element.closest('section')).backgroundColor")
    for kind in ("busy", "run", "wait", "dispatch"):
        colour = figure.locator(f"g.{kind} polyline").first.evaluate("element => getComputedStyle(element).stroke")
        assert contrast(colour, behind) >= 3.0, f"{kind}: {colour} on {behind}"


def contrast(one: str, other: str) -> float:
    """Give the contrast ratio of two colours, ``rgb(r, g, b)`` each (WCAG 2.1; 3 is its least for graphics)."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_is_wider_than_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_each_guest_that_did_the_same_has_a_stroke_and_a_line(show: Show) -> None:
    native = cell("native", "whole", [0.5, 0.51, 0.5, 0.505], vcpus=2, cpu_s=1.0)
    cells = relate([native, together("overcommitted", *([[2.0, 2.1, 1.9, 2.0], [2.4] * 4, [2.2] * 4]))])
    page = show(cells, [None] * len(cells))
    strokes = page.locator("#stretch svg line.guest")
    assert strokes.count() == 2
    for stroke in strokes.all():
        assert stroke.evaluate(INSIDE), stroke.evaluate("element => element.outerHTML")
    rows = page.get_by_role("region", name="Stretch of each guest").locator("tbody tr")
    assert [row.locator("td").first.inner_text() for row in rows.all()] == ["itself", "neighbour 1", "neighbour 2"]
    assert "3 guests: 3.97" in rows.first.inner_text()


def test_what_the_machine_told_of_itself_is_drawn_inside_its_panels(page: Page) -> None:
    told = page.locator("#provisioning details.inside")
    assert told.count() == 2, "natively and beside others; nothing was told of the one alone"
    for panel in told.locator("svg[role=img]").all():
        for line in panel.locator("polyline").all():
            assert line.evaluate(INSIDE), line.evaluate("element => element.outerHTML")
    assert "switches of the machine's kernel: 200 in the mean" in told.last.inner_text()
    assert "a <b>" in told.last.inner_text(), "any name of a program is only a name"
    assert "KVM counts them" in told.last.inner_text()
