"""Every page as somebody sees it, on a wide screen and on a telephone, in light and dark: one load, many questions."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from looking import Scheme, Seen, look
from observed_page import wait_until
from playwright.sync_api import Browser, Page
from study_pages import PAGES, PLATFORMS, PROBES, REPETITIONS

pytestmark = pytest.mark.browser

WIDE, NARROW = (1400, 900), (400, 800)
SCREENS = (WIDE, NARROW)
STATES: tuple[tuple[tuple[int, int], Scheme], ...] = (
    (NARROW, "light"), (NARROW, "dark"), (WIDE, "dark"), (WIDE, "light"),
)  # fmt: skip
JUDGED_BY_AXE = ((NARROW, "dark"), (WIDE, "light"))
FIRST_PX = {WIDE: 160, NARROW: 90}
"""So much of the first picture is to be seen without scrolling, or all of it."""
UNFOLD = """() => {
  for (const one of document.querySelectorAll('details:not([open])')) {
    one.open = true;
    one.dataset.wasFolded = '';
  }
}"""
NEXT_FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
DRAW_ALL = """async () => {
  for (const one of document.querySelectorAll(".plot")) if (one.figure) await one.figure.draw();
}"""
HIDDEN_LINKS = """() => [...document.querySelectorAll("nav a, .legend button")]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > window.innerWidth)
  .map((one) => one.textContent.trim())"""
FIRST_PICTURE = """() => {
  const box = document.querySelector("main :is(figure, svg[role=img], .dots)").getBoundingClientRect();
  return [box.top, box.bottom];
}"""


@dataclass
class Looked:
    """A page, and what was seen of it on each screen in each scheme."""

    name: str
    page: Page
    seen: dict[tuple[int, Scheme], Seen] = field(default_factory=dict)
    first_picture: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    """Where it begins and ends, before anything is unfolded."""
    hidden_links: list[str] = field(default_factory=list)
    """Those of the contents, and tools above the figures, that a narrow screen shows only after scrolling sideways."""
    folded: int = 0
    """Tables that were folded away at first."""
    unfolded_on_paper: int = 0
    complaints: list[str] = field(default_factory=list)

    def all_of(self, what: str) -> dict[str, list[str]]:
        """Give what of it was seen anywhere, by screen and scheme."""
        return {
            f"{width} px, {scheme}": one for (width, scheme), seen in self.seen.items() if (one := getattr(seen, what))
        }


@pytest.fixture(scope="module")
def look_at(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Looked]:
    """Open a page and look at it, once however many ask about it."""
    known: dict[str, Looked] = {}

    def looking(name: str) -> Looked:
        if name not in known:
            path = tmp_path_factory.mktemp("pages") / f"{name}.html"
            PAGES[name](path)
            known[name] = _look_at(name, browser.new_page(viewport={"width": WIDE[0], "height": WIDE[1]}), path)
        return known[name]

    return looking


@pytest.fixture(params=PAGES)
def looked(request: pytest.FixtureRequest, look_at: Callable[[str], Looked]) -> Looked:
    return look_at(request.param)


def _look_at(name: str, page: Page, path: Path) -> Looked:
    looked = Looked(name, page)
    page.on("pageerror", lambda error: looked.complaints.append(str(error)))
    page.goto(path.as_uri())
    looked.folded = page.locator("details.table:not([open])").count()
    page.emulate_media(media="print")
    page.evaluate(NEXT_FRAME)
    looked.unfolded_on_paper = shown_tables(page)
    page.emulate_media(media="screen")
    for width, height in SCREENS:
        page.set_viewport_size({"width": width, "height": height})
        looked.first_picture[width, height] = tuple(page.evaluate(FIRST_PICTURE))
    page.evaluate(UNFOLD)
    # From one to the next only the width or the colours change, for which the figures have to be drawn anew.
    for (width, height), scheme in STATES:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        page.evaluate(DRAW_ALL)
        # Colours do not depend on the width: axe-core judges each scheme once, and each width once.
        looked.seen[width, scheme] = look(page, with_axe=((width, height), scheme) in JUDGED_BY_AXE)
        looked.hidden_links += page.evaluate(HIDDEN_LINKS)
    return looked


def shown_tables(page: Page) -> int:
    """Count the folded tables whose cells are to be seen."""
    script = """tables => tables.filter((one) =>
        one.querySelector("th, td").checkVisibility({ contentVisibilityAuto: true })
        && one.querySelector("th, td").getBoundingClientRect().height > 0).length"""
    return int(page.locator("details.table:not([open])").evaluate_all(script))


def test_nothing_is_wider_than_the_window(looked: Looked) -> None:
    assert {width: seen.width for (width, _), seen in looked.seen.items() if seen.width > width} == {}


def test_no_text_is_cut_off(looked: Looked) -> None:
    assert all(seen.texts > 30 for seen in looked.seen.values())
    assert looked.all_of("cut") == {}


def test_no_text_and_no_tool_lies_over_other_text(looked: Looked) -> None:
    assert looked.all_of("overlapping") == {}


def test_every_column_is_seen_on_a_wide_screen_and_reached_on_a_narrow_one(looked: Looked) -> None:
    wide = {what: columns for what, columns in looked.all_of("cut_columns").items() if what.startswith(str(WIDE[0]))}
    assert wide == {}
    assert looked.all_of("boxless") == {}


def test_every_picture_is_whole_without_scrolling_sideways(looked: Looked) -> None:
    assert all(seen.pictures > 0 for seen in looked.seen.values())
    assert looked.all_of("halved") == {}


def test_the_letters_of_every_picture_can_be_read(looked: Looked) -> None:
    assert looked.all_of("small") == {}


def test_only_tables_that_are_folded_away_are_scrolled_on_a_narrow_screen(looked: Looked) -> None:
    assert looked.all_of("unfolded_columns") == {}


def test_the_contents_are_whole(looked: Looked) -> None:
    assert looked.hidden_links == []


def test_all_text_can_be_told_from_what_is_behind_it(looked: Looked) -> None:
    assert looked.all_of("faint") == {}


@pytest.mark.parametrize("screen", SCREENS)
def test_the_first_picture_is_on_the_first_screen(looked: Looked, screen: tuple[int, int]) -> None:
    top, bottom = looked.first_picture[screen]
    assert min(bottom, top + FIRST_PX[screen]) <= screen[1], f"it goes from {top:.0f} to {bottom:.0f} px"


@pytest.mark.parametrize("name", PAGES)
def test_tables_are_folded_below_the_pictures_and_are_all_on_paper(look_at: Callable[[str], Looked], name: str) -> None:
    looked = look_at(name)
    assert looked.folded > 0
    assert looked.unfolded_on_paper == looked.folded


def test_every_line_has_its_name_at_its_end(looked: Looked) -> None:
    figures = looked.page.locator("svg.line-figure:has(polyline)")
    for figure in figures.all():
        lines = figure.locator("g.line:has(polyline)").count()
        assert figure.locator("g.line-label text:visible").count() == lines
    if looked.name in ("realtime", "telephony", "curve"):
        assert figures.count() > 0


class TestLatency:
    """What only the page of latencies draws, by its script."""

    @pytest.fixture
    def page(self, look_at: Callable[[str], Looked]) -> Page:
        looked = look_at("latency")
        assert looked.complaints == []
        return looked.page

    def test_every_curve_of_percentiles_has_its_name(self, page: Page) -> None:
        names = self.in_figures(page, "percentiles", "(plot) => plot.layout.annotations.map((one) => one.text)")
        assert len(names) == len(PROBES)
        wanted = {f"{platform} r{number}" for platform in PLATFORMS for number in range(1, REPETITIONS + 1)}
        assert all(set(own) == wanted for own in names)

    def test_every_hill_of_a_histogram_has_the_name_of_its_platform(self, page: Page) -> None:
        names = self.in_figures(page, "histogram", "(plot) => plot.layout.annotations.map((one) => one.text)")
        assert [sorted(own) for own in names] == [sorted(PLATFORMS)] * len(PROBES)

    def test_repetitions_have_marks_and_dashes_of_their_own(self, page: Page) -> None:
        marks = """(plot) => plot.data.filter((one) => one.meta === "maxima")
            .map((one) => [one.legendgroup, one.marker.symbol])"""
        dashes = "(plot) => plot.data.map((one) => [one.name.split(' ')[0], one.line.dash])"
        for kind, looks in (("time", marks), ("percentiles", dashes), ("histogram", dashes)):
            for own in self.in_figures(page, kind, looks):
                assert len(own) == len({tuple(one) for one in own}) == len(PLATFORMS) * REPETITIONS

    def test_a_cell_has_one_floor_in_its_table_and_in_all_figures(self, page: Page) -> None:
        table = page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll("tr[data-cell]")].map((row) =>
                [row.dataset.cell, row.querySelectorAll("td")[1].textContent]))"""
        )
        assert len(table) == len(PLATFORMS) * len(PROBES)
        lines = """(plot) => plot.layout.shapes.filter((one) => one.name === "floor")
            .map((one) => formatDuration(one.x0 === one.x1 ? one.x0 : one.y0))"""
        for kind in ("time", "percentiles", "histogram"):
            drawn = self.in_figures(page, kind, lines)
            for number, own in enumerate(drawn):
                of_table = [floor for cell, floor in table.items() if cell.startswith(f"group-{number}.")]
                assert set(map(self.as_number, own)) == set(map(self.as_number, of_table)), f"{kind} of group-{number}"
                assert len(own) == len(PLATFORMS)

    def test_ratios_are_dots_on_a_logarithmic_axis(self, page: Page) -> None:
        rows = page.evaluate(
            """() => [...document.querySelectorAll("#answer .dot-row:has(.dot)")].map((row) => [
                parseFloat(row.querySelector(".dot-words").textContent),
                parseFloat(row.querySelector(".dot").style.left),
            ])"""
        )
        assert len(rows) == (len(PLATFORMS) - 1) * len(PROBES)
        one = float(page.locator("#answer .level").first.evaluate("(line) => parseFloat(line.style.left)"))
        widest = max(rows, key=lambda row: abs(math.log(row[0])))
        decade = (widest[1] - one) / math.log10(widest[0])
        for ratio, left in rows:
            assert left == pytest.approx(one + decade * math.log10(ratio), abs=0.5)

    @staticmethod
    def as_number(words: str) -> tuple[float, str]:
        """Read a duration, of which a figure leaves zeros out that a table has."""
        number, unit = words.split()
        return float(number), unit

    @staticmethod
    def in_figures(page: Page, kind: str, script: str) -> list[Any]:
        wait_until(page, f"[...document.querySelectorAll('[data-figure={kind}] .plot')].every((plot) => plot.data)")
        found: list[Any] = page.locator(f"[data-figure={kind}] .plot").evaluate_all(f"(plots) => plots.map({script})")
        return found
