"""An open page, what it did, and how to wait for it."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from playwright.sync_api import Page

PATIENCE_S = 60.0
"""Rings run beside each other, and Chromium draws without a graphics card."""

FRAME_S = 20.0
"""In which one is drawn, also where other rings have nearly all of the CPUs' time."""


@dataclass(frozen=True)
class Observed:
    """An open page and what it did."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, exceptions, refusals by the content security policy."""
    requests: list[str] = field(default_factory=list)


OpenPage = Callable[..., AbstractContextManager[Observed]]


def wait_until(page: Page, expression: str) -> None:
    """Wait until a JavaScript expression is true.

    Playwright's own ``wait_for_function`` evaluates text inside the page, which a report's content security policy
    rightly refuses.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"still not true after {PATIENCE_S} s: {expression}"
        page.wait_for_timeout(30)


def draws(page: Page) -> bool:
    """Tell whether a frame of a page is drawn: a Chromium that has stopped runs scripts, and draws none any more."""
    page.evaluate("requestAnimationFrame(() => { document.documentElement.dataset.drawn = '' })")
    deadline = time.monotonic() + FRAME_S
    while not page.evaluate("document.documentElement.dataset.drawn === ''"):
        if time.monotonic() > deadline:
            return False
        page.wait_for_timeout(30)
    return True
