"""The section on causes in a real browser, with attributions whose right answers are known."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from latency_page import content_of, latency_page
from observed_page import Observed, OpenPage, wait_until
from playwright.sync_api import Page
from synthetic_attribution import JUDGED, NEIGHBOUR, TICK, WORST, synthetic_attribution, synthetic_tracing_overhead
from synthetic_neighbours import add_neighbour
from synthetic_run import UNITS_PER_S, SyntheticCell, write_synthetic_run

from stealtime.store.run import Run
from stealtime.studies.latency.attribution.cells import gather_causes

pytestmark = pytest.mark.browser

SCENARIOS = [
    "one-to-all", "one-to-one", "contention-cpu", "contention-memory", "all-to-all-cpu", "all-to-all-memory",
    "two-to-all-memory",
]  # fmt: skip
PLATFORMS = ["native", "uml", "qemu-tcg-emulated", "qemu-tcg-paravirt"]
PROBES: list[tuple[str, dict[str, int], float]] = [
    ("tick", {"loop_ns": 68_000}, 68_000.0),
    ("switch", {"threads": 2}, 180.0),
    ("switch", {"threads": 1000}, 300.0),
]
PHASES_S = [(0.0, 0.05), (0.1, 0.15)]
LARGEST_BYTES = 10_000_000
SHIFT_PX = 300
"""A line of a caption may wrap differently once a figure is drawn; a figure is taller."""


def write_page(folder: Path, cells: list[SyntheticCell]) -> Path:
    """Write a made-up run and its report; beside each native trial a neighbour works now and then."""
    known = write_synthetic_run(folder / "run", cells=cells)
    for trial in Run.open(known.folder).measured:
        outcome = trial.record.outcome
        if trial.record.cell.platform == "native" and outcome is not None:
            add_neighbour(trial.folder, PHASES_S, float(outcome.clock.origin_units), UNITS_PER_S)
    run = Run.open(known.folder)
    page = latency_page(content_of(run), gather_causes(run, synthetic_attribution, synthetic_tracing_overhead), {})
    path = folder / "report.html"
    path.write_text(page)
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cells = [
        SyntheticCell(platform, "tick", {"loop_ns": 68_000}, 68_000.0, 3e6, 0.3, 3_000, traced=traced)
        for platform in PLATFORMS[:2]
        for traced in (False, True)
    ]
    return write_page(tmp_path_factory.mktemp("causes"), cells)


@pytest.fixture(scope="module")
def observed(report: Path, open_page: OpenPage) -> Iterator[Observed]:
    with open_page(report) as observed:
        yield observed


@pytest.fixture
def page(observed: Observed) -> Iterator[Page]:
    page = observed.page
    wait_until(page, f"document.querySelectorAll('#traced-1 .spike').length === {WORST}")
    yield page
    assert observed.complaints == []


def visible(page: Page, selector: str) -> int:
    return int(page.evaluate("(s) => [...document.querySelectorAll(s)].filter((e) => !e.hidden).length", selector))


def dimmed(page: Page, selector: str) -> bool:
    return bool(page.evaluate("(s) => document.querySelector(s).classList.contains('dimmed')", selector))


def test_bars_have_the_widths_of_their_shares(page: Page) -> None:
    widths = page.evaluate(
        """() => {
            const bar = document.querySelector('[data-bar="traced-1"] .stack');
            const whole = bar.getBoundingClientRect().width;
            return Object.fromEntries([...bar.children].map((part) =>
                [part.dataset.cause, part.getBoundingClientRect().width / whole]));
        }"""
    )
    assert set(widths) == {"timer_tick", "neighbour", "host_preempted", "unexplained", "not_judged"}
    assert sum(widths.values()) == pytest.approx(1, abs=0.01)
    assert widths["timer_tick"] == pytest.approx(2 * widths["unexplained"], abs=0.01)


def test_choosing_a_cause_dims_the_others_and_filters_the_spikes(page: Page) -> None:
    button = page.locator("[data-choose=neighbour]")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert dimmed(page, '[data-bar="traced-1"] [data-cause=timer_tick]')
    assert not dimmed(page, '[data-bar="traced-1"] [data-cause=neighbour]')
    # Every second spike is a neighbour's, natively none is.
    assert visible(page, "#traced-1 li[data-families]") == JUDGED / 2
    assert visible(page, "#traced-0 li[data-families]") == 0
    assert f"in {JUDGED // 2} of the {2 * WORST} longest spikes" in page.locator("#cause-status").inner_text()
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert visible(page, "#traced-0 li[data-families]") == WORST
    assert not dimmed(page, '[data-bar="traced-1"] [data-cause=timer_tick]')


def test_clicking_a_piece_of_a_bar_chooses_its_cause(page: Page) -> None:
    piece = page.locator('[data-bar="traced-1"] .stack:not(.absolute) [data-cause=not_judged]')
    piece.click()
    assert page.locator("[data-choose=not_judged]").get_attribute("aria-pressed") == "true"
    assert visible(page, "#traced-1 li[data-families]") == WORST - JUDGED
    piece.click()


def test_tooltip_tells_cause_and_duration(page: Page) -> None:
    page.locator('[data-bar="traced-1"] .stack:not(.absolute) [data-cause=neighbour]').hover()
    assert NEIGHBOUR.label in page.locator(".tip").inner_text()
    spike = page.locator("#traced-1 .spike").first
    spike.scroll_into_view_if_needed()
    spike.locator("svg").nth(1).locator("rect[data-cause=neighbour]").hover()
    wait_until(page, "!document.querySelector('.tip').hidden")
    tip = page.locator(".tip").inner_text()
    assert NEIGHBOUR.label in tip
    assert "6.3 ms, from 900 µs on" in tip


def test_longest_spike_opens_large_and_its_parts_add_up(page: Page) -> None:
    page.locator("#traced-1 .spike").first.click()
    dialog = page.locator("#spike-dialog")
    assert dialog.is_visible()
    assert page.locator("#spike-dialog-title").inner_text().startswith("1. 9 ms at 0.011")
    rows = dialog.locator("table.causes").first.locator("tbody tr").all_inner_texts()
    figures = [int(row.split("\t")[1].removesuffix(" ns").replace(",", "")) for row in rows]
    assert sum(figures[:-1]) == figures[-1] == 8_932_000
    assert dialog.locator(".spike-axis span").count() > 3
    page.locator("[data-spike-step='1']").click()
    assert page.locator("#spike-dialog-title").inner_text().startswith("2. 8.64 ms")
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_tracks_of_a_guest_are_the_machine_and_the_host(page: Page) -> None:
    assert page.locator("#traced-1 .spike").first.locator(".track-name").all_inner_texts() == ["machine", "host"]
    assert page.locator("#traced-0 .spike").first.locator(".track-name").all_inner_texts() == ["machine"]
    drawn = page.evaluate(
        """() => [...document.querySelectorAll('#traced-1 .spike')[0].querySelectorAll('svg')].map((svg) =>
            [...svg.querySelectorAll('rect')].map((r) => [r.dataset.cause, Number(r.getAttribute('x'))]))"""
    )
    assert drawn[1] == [["running", 0], ["neighbour", pytest.approx(100)], ["running", pytest.approx(800)]]
    assert all(family == TICK.kind for family, _ in drawn[0][1:])


def test_neighbours_are_shaded_behind_the_samples(page: Page) -> None:
    figure = '[data-figure="time"][data-group="group-0"]'
    page.locator(figure).scroll_into_view_if_needed()
    wait_until(page, f"document.querySelector('{figure} .plot').data !== undefined")
    bands = page.evaluate(
        f"""() => document.querySelector('{figure} .plot').layout.shapes
            .filter((shape) => shape.name === "neighbour").map((shape) => [shape.x0, shape.x1, shape.layer])"""
    )
    assert bands == [[pytest.approx(a, abs=1e-5), pytest.approx(b, abs=1e-5), "below"] for a, b in PHASES_S]
    assert "Shaded: a neighbour's load was on." in page.locator(f"{figure} [data-role=status]").inner_text()


def test_printing_unfolds_the_tables_of_spikes_for_paper_only(page: Page) -> None:
    page.evaluate(
        """() => window.addEventListener("beforeprint", () => {
            window.unfoldedOnPaper = document.querySelectorAll("details.spike-table[open]").length;
        })"""
    )
    page.pdf(format="A4")
    assert page.evaluate("window.unfoldedOnPaper") == 2
    assert page.locator("details.spike-table[open]").count() == 0


def test_table_of_spikes_is_complete_without_scripts(report: Path) -> None:
    text = report.read_text()
    assert text.count('<tr id="traced-0-spike-') == WORST
    assert text.count('<tr id="traced-1-spike-') == WORST


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_phone_needs_no_sideways_scrolling(report: Path, open_page: OpenPage, colours: str) -> None:
    with open_page(report, width=400, height=800, colours=colours) as observed:
        page = observed.page
        wait_until(page, f"document.querySelectorAll('#traced-1 .spike').length === {WORST}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.locator("#traced-1 .spike").first.click()
        assert page.evaluate("document.getElementById('spike-dialog').getBoundingClientRect().width") <= 400
        assert observed.complaints == []


def test_seven_scenarios_on_four_platforms_stay_readable(tmp_path: Path, open_page: OpenPage) -> None:
    native = [
        SyntheticCell(PLATFORMS[0], probe, parameters, floor, 40 * floor, 0.4, 1_000)
        for probe, parameters, floor in PROBES
    ]
    cells = [
        replace(cell, platform=platform, scenario=scenario, traced=traced)
        for scenario in SCENARIOS
        for platform in PLATFORMS
        for cell in native
        for traced in (False, True)
    ]
    path = write_page(tmp_path, cells)
    assert path.stat().st_size < LARGEST_BYTES
    with open_page(path) as observed:
        page = observed.page
        assert page.locator("nav.scenarios a").all_inner_texts() == SCENARIOS
        assert page.locator(".matrix thead th").count() == 1 + len(PROBES)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        # Nothing is drawn before it is unfolded, and a link unfolds what it points at.
        assert page.locator(".spike").count() == 0
        page.locator('nav.scenarios a:text-is("all-to-all-memory")').click()
        wait_until(page, "document.getElementById('scenario-5').open")
        wait_until(page, "document.querySelector('#scenario-5 [data-figure=time] .plot').data !== undefined")
        # What was drawn on the way did not push away what the link leads to.
        assert abs(page.evaluate("document.getElementById('scenario-5').getBoundingClientRect().top")) < SHIFT_PX
        page.locator('[data-bar="traced-9"] a').click()
        wait_until(page, "document.querySelectorAll('#traced-9 .spike').length > 0")
        assert observed.complaints == []
