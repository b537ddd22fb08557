"""The page over many runs: one HTML file that fetches nothing and runs no script."""

from importlib import resources
from pathlib import Path

from markupsafe import Markup

import stealtime
from stealtime.report import notation
from stealtime.report.page.file import write_page
from stealtime.report.page.templates import templates_of
from stealtime.site.overview import Named, SiteDocument
from stealtime.site.peers import STALLS
from stealtime.site.picture import draw
from stealtime.vocabulary.quantities import approximate_duration


def write_site(site: SiteDocument, path: Path, heading: str) -> int:
    """Write the page; gives its size in bytes.

    Raises:
        StealtimeError: It cannot be written.
    """
    template = templates_of("stealtime.site").get_template("site.html.jinja")
    named_hosts = list(dict.fromkeys(one.host for one in site.named))
    style = (resources.files("stealtime.site") / "templates" / "site.css").read_text("utf-8")
    text = template.render(
        site=site,
        heading=heading,
        version=stealtime.__version__,
        number_of=notation.number_of,
        style=Markup(style),  # noqa: S704 - our own
        watched=approximate_duration(site.watched_s),
        named_hosts=named_hosts,
        values=[figure_words(one) for one in site.named],
        pictures=[(cell.cell, draw(cell, named_hosts)) for cell in site.curves],
    )
    page = text.encode()
    write_page(path, page)
    return len(page)


def figure_words(one: Named) -> tuple[str, str, str]:
    """Give a host's value, that of its peers, and how many times it is."""
    times = "" if one.peers_median <= 0 else f"{one.value / one.peers_median:.2f}"
    if one.figure in STALLS:
        return f"{one.value:.2f} a minute", f"{one.peers_median:.2f} a minute", times
    return notation.duration(one.value), notation.duration(one.peers_median), times
