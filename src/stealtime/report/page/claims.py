"""The part of the page where a run stands beside published figures; a study puts it where it fits."""

from markupsafe import Markup

from stealtime.report.claims.comparison import comparison_of_campaign
from stealtime.report.page.templates import rendered, templates_of
from stealtime.report.summary import RunSummary


def published_section(summary: RunSummary) -> Markup | None:
    """Draw the publication that the campaign of a run redoes; None where it redoes none, or no cell fits."""
    comparison = comparison_of_campaign(summary)
    if comparison is None:
        return None
    return rendered(templates_of("stealtime.report.page"), "section_published.html.jinja", {"published": comparison})
