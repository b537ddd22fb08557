"""A real browser, Debian's Chromium, that opens files and tells everything it asks for and complains about."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from observed_page import PATIENCE_S, Observed, OpenPage, wait_until
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = Path("/usr/bin/chromium-headless-shell")
"""That draws without windows: the Chromium that has them, once begun beside other tests, drew nothing any more in two
of two runs."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all pages of a module: to start it takes longer than most of them."""
    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} does not exist; `make test` installs it", pytrace=False)
    # One a module: its event loop must be gone before other modules' asynchronous tests run.
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def open_page(browser: Browser) -> OpenPage:
    @contextmanager
    def opening(
        path: Path, *, width: int = 1280, height: int = 900, colours: Literal["light", "dark"] = "light"
    ) -> Iterator[Observed]:
        with browser.new_context(viewport={"width": width, "height": height}, color_scheme=colours) as context:
            context.set_default_timeout(PATIENCE_S * 1e3)
            observed = Observed(context.new_page())
            page = observed.page
            page.on("console", lambda message: _note(observed, message))
            page.on("pageerror", lambda error: observed.complaints.append(f"exception: {error}"))
            page.on("request", lambda request: observed.requests.append(request.url))
            page.goto(path.as_uri())
            wait_until(page, "['ready', 'failed'].includes(document.documentElement.dataset.state)")
            yield observed

    return opening


def _note(observed: Observed, message: Any) -> None:
    if message.type in ("error", "warning"):
        observed.complaints.append(f"{message.type}: {message.text}")
