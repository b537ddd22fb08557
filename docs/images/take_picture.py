"""Take pictures for docs/figures.md: ``.venv/bin/python docs/images/take_picture.py REPORT.html report.png``.

``causes.png`` instead of ``report.png`` takes the bars of whose fault the lost time is.
"""

import sys
from pathlib import Path

from playwright.sync_api import FloatRect, Page, sync_playwright

FIGURE = '[data-figure="time"][data-group="group-0"]'
BARS = FloatRect(x=45, y=0, width=1195, height=895)
"""Below the page's head, which stays: the legend and the bars of six scenarios on three platforms."""


def take_picture(report: Path, picture: Path) -> None:
    """Photograph a part of ``report`` as a reader with a light page sees it."""
    is_of_causes = picture.stem == "causes"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium-headless-shell", args=["--no-sandbox", "--disable-gpu"]
        )
        width = 1280 if is_of_causes else 1100
        page = browser.new_page(viewport={"width": width, "height": 1_300}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        if is_of_causes:
            take_bars(page, picture)
        else:
            figure = page.locator(FIGURE)
            figure.scroll_into_view_if_needed()
            page.wait_for_timeout(1_500)  # drawn when it comes into view; a picture may take its time
            figure.screenshot(path=picture)
        browser.close()


def take_bars(page: Page, picture: Path) -> None:
    """Photograph the bars from where the legend stands at the top of the window."""
    heading = page.get_by_role("heading", name="Whose fault is it?")
    page.wait_for_timeout(1_500)
    top = heading.evaluate("element => element.getBoundingClientRect().top + scrollY")
    page.evaluate("top => window.scrollTo(0, top + 300)", top)
    page.wait_for_timeout(500)
    page.screenshot(path=picture, clip=BARS)


if __name__ == "__main__":
    take_picture(Path(sys.argv[1]), Path(sys.argv[2]))
