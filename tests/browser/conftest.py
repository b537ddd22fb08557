"""A real browser, Debian's Chromium, that opens files and tells everything it asks for and complains about."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from observed_page import PATIENCE_S, Observed, OpenPage, draws, wait_until
from playwright.sync_api import Browser, BrowserContext, ViewportSize, sync_playwright

CHROMIUM = Path("/usr/bin/chromium-headless-shell")
"""That draws without windows: the Chromium that has them, once begun beside other tests, drew nothing any more in two
of two runs."""
MOST_BROWSERS = 3
"""Of a module."""


StartBrowser = Callable[[], Browser]


@pytest.fixture(scope="module")
def start_browser() -> Iterator[StartBrowser]:
    """Start another browser, which ends with the module's tests."""
    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} does not exist; `make test` installs it", pytrace=False)
    # One driver a module: its event loop must be gone before other modules' asynchronous tests run.
    with sync_playwright() as driver, ExitStack() as started:

        def start() -> Browser:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            started.callback(browser.close)
            return browser

        yield start


@pytest.fixture(scope="module")
def browser(start_browser: StartBrowser) -> Browser:
    """One for all pages of a module: to start it takes longer than most of them."""
    return start_browser()


@pytest.fixture(scope="module")
def open_page(browser: Browser, start_browser: StartBrowser) -> OpenPage:
    """Open pages in a browser that draws: now and then Chromium stops for good, and another one takes its place."""
    browsers = [browser]

    @contextmanager
    def opening(
        path: Path, *, width: int = 1280, height: int = 900, colours: Literal["light", "dark"] = "light"
    ) -> Iterator[Observed]:
        viewport = ViewportSize(width=width, height=height)
        with ExitStack() as contexts:
            while True:
                context = contexts.enter_context(browsers[-1].new_context(viewport=viewport, color_scheme=colours))
                observed = _opened(context, path)
                if draws(observed.page):
                    break
                assert len(browsers) < MOST_BROWSERS, f"none of {MOST_BROWSERS} browsers draws"
                browsers.append(start_browser())
            yield observed

    return opening


def _opened(context: BrowserContext, path: Path) -> Observed:
    context.set_default_timeout(PATIENCE_S * 1e3)
    observed = Observed(context.new_page())
    page = observed.page
    page.on("console", lambda message: _note(observed, message))
    page.on("pageerror", lambda error: observed.complaints.append(f"exception: {error}"))
    page.on("request", lambda request: observed.requests.append(request.url))
    page.goto(path.as_uri())
    wait_until(page, "['ready', 'failed'].includes(document.documentElement.dataset.state)")
    return observed


def _note(observed: Observed, message: Any) -> None:
    if message.type in ("error", "warning"):
        observed.complaints.append(f"{message.type}: {message.text}")
