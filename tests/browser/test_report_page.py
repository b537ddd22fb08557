"""The report in a real browser, on a run whose right answers are known."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from observed_page import Observed, OpenPage, wait_until
from playwright.sync_api import Page
from synthetic_run import UNITS_PER_S, KnownRun, SyntheticCell, default_cells, write_synthetic_run

from stealtime.report.page.html import write_report
from stealtime.store.run import Run

pytestmark = pytest.mark.browser

HOSTILE = '</script><script>window.injected = 1</script><img src="x" onerror="window.injected = 2">'
TIME_FIGURE = '[data-figure="time"][data-group="group-0"]'
PAPER_PX = 718
"""Between the least margins of A4."""
PLATFORMS = ["native", "uml", "qemu-tcg-emulated", "qemu-tcg-paravirt"]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> KnownRun:
    # 200,000 samples in at most 65,536 buckets: a bucket holds several, so that only the envelope can keep the maxima.
    return write_synthetic_run(tmp_path_factory.mktemp("runs") / "known", cells=default_cells(200_000))


@pytest.fixture(scope="module")
def report(known: KnownRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reports") / "report.html"
    write_report(Run.open(known.folder), path)
    return path


@pytest.fixture(scope="module")
def observed(report: Path, open_page: OpenPage) -> Iterator[Observed]:
    with open_page(report) as observed:
        yield observed


@pytest.fixture
def page(observed: Observed) -> Page:
    """The page with the first figure in view, showing all."""
    page = observed.page
    figure = page.locator(TIME_FIGURE)
    figure.scroll_into_view_if_needed()
    wait_until(page, f"document.querySelector('{TIME_FIGURE} .plot').data !== undefined")
    figure.get_by_role("button", name="all", exact=True).click()
    wait_until_drawn(page)
    return page


def wait_until_drawn(page: Page) -> None:
    page.wait_for_timeout(150)


def longest_drawn(page: Page, platform: str) -> tuple[float, float] | None:
    """Give time (s) and duration (ns) of the longest mark of a platform in the first figure."""
    found: list[float] | None = page.evaluate(
        """([figure, platform]) => {
            const traces = document.querySelector(`${figure} .plot`).data;
            const marks = traces.find((trace) => trace.meta === "maxima" && trace.legendgroup === platform);
            if (!marks || marks.y.length === 0) return null;
            const index = marks.y.indexOf(Math.max(...marks.y));
            return [marks.x[index], marks.y[index]];
        }""",
        [TIME_FIGURE, platform],
    )
    return None if found is None else (found[0], found[1])


def shown_range(page: Page) -> tuple[float, float]:
    start, end = page.evaluate(f"document.querySelector('{TIME_FIGURE} .plot').layout.xaxis.range")
    return start, end


def tick_cell(known: KnownRun, platform: str) -> Any:
    return known.find(f"{platform}.alone.tick-68us.r1")


def test_page_fetches_nothing_and_has_no_complaint(observed: Observed, report: Path) -> None:
    page = observed.page
    height = page.evaluate("document.documentElement.scrollHeight")
    for top in range(0, height, 600):
        page.evaluate(f"window.scrollTo({{top: {top}, behavior: 'instant'}})")
        page.wait_for_timeout(60)
    wait_until(page, "[...document.querySelectorAll('.plot')].every((plot) => plot.data !== undefined)")
    assert observed.complaints == []
    assert observed.requests == [report.as_uri()]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_known_maximum_is_drawn_at_its_exact_time(page: Page, known: KnownRun, platform: str) -> None:
    truth = tick_cell(known, platform)
    assert longest_drawn(page, platform) == pytest.approx((truth.max_at_s, truth.max_ns), rel=1e-12)


def test_dragging_zooms_rebuckets_and_keeps_the_maximum(page: Page, known: KnownRun) -> None:
    truth = tick_cell(known, "native")
    before = shown_range(page)
    status = page.locator(f"{TIME_FIGURE} [data-role=status]")
    resolution_before = status.inner_text()
    area = page.evaluate(
        f"""() => {{
            const plot = document.querySelector('{TIME_FIGURE} .plot');
            const box = plot.querySelector('.nsewdrag').getBoundingClientRect();
            const axis = plot._fullLayout.xaxis;
            return {{left: box.left, top: box.top, height: box.height, middle: axis.d2p({truth.max_at_s})}};
        }}"""
    )
    height = area["top"] + area["height"] / 2
    page.mouse.move(area["left"] + area["middle"] - 30, height)
    page.mouse.down()
    page.mouse.move(area["left"] + area["middle"], height, steps=4)
    page.mouse.move(area["left"] + area["middle"] + 30, height, steps=4)
    page.mouse.up()
    wait_until_drawn(page)

    after = shown_range(page)
    assert after[1] - after[0] < 0.1 * (before[1] - before[0]), "the drag did not zoom"
    assert status.inner_text() != resolution_before, "the marks still stand for as much time as before"
    assert longest_drawn(page, "native") == pytest.approx((truth.max_at_s, truth.max_ns), rel=1e-12)


def test_zooming_by_relayout_shows_only_what_is_there(page: Page, known: KnownRun) -> None:
    truth = tick_cell(known, "native")
    page.evaluate(
        f"Plotly.relayout(document.querySelector('{TIME_FIGURE} .plot'), {{'xaxis.range': [0, {truth.max_at_s / 2}]}})"
    )
    wait_until_drawn(page)
    longest = longest_drawn(page, "native")
    assert longest is not None
    assert longest[0] <= truth.max_at_s / 2
    assert longest[1] < truth.max_ns


def test_choosing_a_maximum_goes_there_and_hover_tells_it_exactly(page: Page, known: KnownRun) -> None:
    truth = tick_cell(known, "uml")
    page.locator(f"{TIME_FIGURE} select").select_option(label="maximum of uml")
    wait_until_drawn(page)
    start, end = shown_range(page)
    assert start < truth.max_at_s < end
    exact = page.evaluate(
        f"""() => document.querySelector('{TIME_FIGURE} .plot').data
            .filter((trace) => trace.meta === "worst" && trace.legendgroup === "uml").flatMap((trace) => trace.text)"""
    )
    assert any(f"exactly {truth.max_ns:,.0f}" in text and f"{truth.max_at_s:.9f} s" in text for text in exact), exact


def test_keyboard_zooms(page: Page) -> None:
    before = shown_range(page)
    page.locator(f"{TIME_FIGURE} [data-action=in]").focus()
    page.keyboard.press("Enter")
    wait_until_drawn(page)
    after = shown_range(page)
    assert after[1] - after[0] == pytest.approx((before[1] - before[0]) / 3)


def test_legend_hides_and_shows_a_platform_in_all_figures(page: Page) -> None:
    button = page.locator("button[data-platform=native]")
    drawn = """[...document.querySelectorAll('.plot')].filter((plot) => plot.data)
        .map((plot) => plot.data.filter((trace) => trace.name === 'native').length)"""
    assert min(page.evaluate(drawn)) > 0
    button.click()
    wait_until(page, f"Math.max(...{drawn}) === 0")
    assert button.get_attribute("aria-pressed") == "false"
    assert longest_drawn(page, "uml") is not None
    button.click()
    wait_until(page, f"Math.min(...{drawn}) > 0")
    assert button.get_attribute("aria-pressed") == "true"


def test_axis_can_be_linear_and_platforms_overlaid(page: Page) -> None:
    layout = f"document.querySelector('{TIME_FIGURE} .plot').layout"
    assert page.evaluate(f"[{layout}.yaxis.type, {layout}.yaxis4.type]") == ["log", "log"]
    page.locator(f"{TIME_FIGURE} [data-role=logarithmic]").uncheck()
    page.locator(f"{TIME_FIGURE} [data-role=stacked]").uncheck()
    wait_until_drawn(page)
    assert page.evaluate(f"[{layout}.yaxis.type, {layout}.yaxis2 === undefined]") == ["linear", True]
    page.locator(f"{TIME_FIGURE} [data-role=logarithmic]").check()
    page.locator(f"{TIME_FIGURE} [data-role=stacked]").check()


def test_no_maximum_is_lost_between_any_buckets(page: Page, known: KnownRun) -> None:
    truth = tick_cell(known, "qemu-tcg-paravirt")
    durations = pq.read_table(truth.folder / "samples.parquet")["duration"].to_numpy().astype(np.float64)
    starts = (np.cumsum(durations) - durations) / UNITS_PER_S
    durations *= 1e9 / UNITS_PER_S
    columns = """([figure, from, to]) => {
        const cell = document.querySelector(`${figure} .plot`).figure.cells
            .find((cell) => cell.platform === "qemu-tcg-paravirt");
        const width = cell.envelope.bucket_s;
        const [first, last] = [Math.round(from * cell.envelope.buckets), Math.round(to * cell.envelope.buckets)];
        const drawn = columnsBetween(cell.unpacked, first * width, last * width, 40);
        return {from: first * width, to: last * width, longest: Math.max(...drawn.maxima), marks: drawn.times.length};
    }"""
    generator = np.random.default_rng(3)
    for middle, width in zip(generator.random(30), 10.0 ** -generator.uniform(0, 3, 30), strict=True):
        bounds = [max(0.0, middle - width / 2), min(1.0, middle + width / 2)]
        drawn = page.evaluate(columns, [TIME_FIGURE, *bounds])
        inside = durations[(starts >= drawn["from"]) & (starts < drawn["to"])]
        assert drawn["marks"] <= 41
        assert drawn["longest"] == pytest.approx(inside.max(), rel=1e-3), f"between {drawn['from']} and {drawn['to']} s"
        assert drawn["longest"] >= inside.max() * (1 - 1e-9), "a maximum was rounded down"


def test_table_holds_the_right_figures(page: Page, known: KnownRun) -> None:
    truth = tick_cell(known, "qemu-tcg-emulated")
    row = page.locator('[data-cell="group-0.qemu-tcg-emulated"]')
    # It is folded away: nothing of it is drawn.
    cells = [one.strip() for one in row.locator("td").all_text_contents()]
    assert cells[0] == f"{truth.count:,}"
    assert cells[1] == "244.8 µs"
    assert cells[6] == "10.80 ms"
    assert cells[7] == f"{truth.max_at_s:.6f} s"
    assert cells[8] == "10.56 ms"
    native = tick_cell(known, "native")
    ratio = (truth.max_ns - truth.min_ns) / (native.max_ns - native.min_ns)
    assert cells[10] == f"{ratio:.2f}\N{MULTIPLICATION SIGN}"


def test_printing_draws_every_figure(report: Path, open_page: OpenPage) -> None:
    with open_page(report, height=300) as observed:
        page = observed.page
        wait_until(page, "document.documentElement.dataset.unpacked === 'all'")
        # What is undrawn when the page's own listener is done is missing on paper: nothing waits for it.
        page.evaluate("""() => {
            const undrawn = () => [...document.querySelectorAll(".plot")].filter((plot) => !plot.data).length;
            window.undrawnBefore = undrawn();
            window.addEventListener("beforeprint", () => { window.undrawnOnPaper = undrawn(); }, { once: true });
        }""")
        assert page.evaluate("window.undrawnBefore") > 0, "there must be something to draw"
        assert page.pdf(format="A4").startswith(b"%PDF")
        assert page.evaluate("window.undrawnOnPaper") == 0
        assert observed.complaints == []


def test_figures_are_as_wide_as_paper_while_they_are_printed_and_as_the_window_afterwards(page: Page) -> None:
    widths = "() => [...document.querySelectorAll('.plot .main-svg:first-child')].map((one) => one.clientWidth)"
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    wait_until(page, f"({widths})().every((width) => width <= {PAPER_PX})")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    wait_until(page, f"Math.max(...({widths})()) > {PAPER_PX}")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_phone_needs_no_sideways_scrolling(report: Path, open_page: OpenPage, colours: str) -> None:
    with open_page(report, width=400, height=800, colours=colours) as observed:
        assert observed.page.evaluate("document.documentElement.scrollWidth") <= 400
        assert observed.complaints == []


def test_hostile_campaign_name_is_only_text(tmp_path: Path, open_page: OpenPage) -> None:
    cell = SyntheticCell("ssh:<b>me</b>@host", "switch", {"threads": 2}, 200.0, 9_000.0, 0.5, 3_000)
    known = write_synthetic_run(tmp_path / "run", cells=[cell], campaign=HOSTILE)
    write_report(Run.open(known.folder), tmp_path / "report.html")
    with open_page(tmp_path / "report.html") as observed:
        page = observed.page
        page.locator("[data-figure=histogram]").scroll_into_view_if_needed()
        wait_until(page, "document.querySelector('[data-figure=histogram] .plot').data !== undefined")
        assert page.evaluate("window.injected") is None
        assert page.locator(".kicker b").inner_text() == HOSTILE
        assert page.locator("img[src=x]").count() == 0
        wait_until(page, "document.querySelector('[data-figure=time] .plot').data !== undefined")
        row_title = page.locator("[data-figure=time] .annotation-text").first
        assert row_title.text_content() == "ssh:<b>me</b>@host"
        assert observed.complaints == []
