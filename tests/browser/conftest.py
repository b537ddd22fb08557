"""A real browser, Debian's Chromium, that opens files and tells everything it asks for and complains about."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from observed_page import PATIENCE_S, Observed, OpenPage, wait_until
from playwright.sync_api import Playwright, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} does not exist; `make setup` installs it", pytrace=False)
    # One a module: its event loop must be gone before other modules' asynchronous tests run.
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="module")
def open_page(playwright: Playwright) -> OpenPage:
    @contextmanager
    def opening(
        path: Path, *, width: int = 1280, height: int = 900, colours: Literal["light", "dark"] = "light"
    ) -> Iterator[Observed]:
        with tempfile.TemporaryDirectory(prefix="stealtime-chromium-") as profile:
            context = playwright.chromium.launch_persistent_context(
                profile,
                executable_path=CHROMIUM,
                args=_ARGUMENTS,
                viewport={"width": width, "height": height},
                color_scheme=colours,
            )
            context.set_default_timeout(PATIENCE_S * 1e3)
            # The one that it opens by itself: of two, a busy machine may show the other, and what is hidden has no
            # frames.
            observed = Observed(context.pages[0])
            page = observed.page
            page.on("console", lambda message: _note(observed, message))
            page.on("pageerror", lambda error: observed.complaints.append(f"exception: {error}"))
            page.on("request", lambda request: observed.requests.append(request.url))
            page.goto(path.as_uri())
            try:
                wait_until(page, "['ready', 'failed'].includes(document.documentElement.dataset.state)")
                page.evaluate("void requestAnimationFrame(() => { document.framesCome = true })")
                wait_until(page, "document.framesCome === true")
                yield observed
            finally:
                context.close()

    return opening


def _note(observed: Observed, message: Any) -> None:
    if message.type in ("error", "warning"):
        observed.complaints.append(f"{message.type}: {message.text}")
