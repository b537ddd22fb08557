"""Parts of the page that are the same for every study; a study puts them where they fit into its section."""

from collections.abc import Sequence

from markupsafe import Markup

from stealtime.report.circumstances.exits import hypervisor_lines, kind_meanings
from stealtime.report.claims.comparison import comparison_of_campaign
from stealtime.report.page.templates import rendered, templates_of
from stealtime.report.summary import RunSummary


def published_section(summary: RunSummary) -> Markup | None:
    """Draw the publication that the campaign of a run redoes; None where it redoes none, or no cell fits."""
    comparison = comparison_of_campaign(summary)
    if comparison is None:
        return None
    return rendered(templates_of("stealtime.report.page"), "section_published.html.jinja", {"published": comparison})


def hypervisor_section(summary: RunSummary, platforms: Sequence[str]) -> Markup | None:
    """Draw how often and how long the hypervisor was entered; None where nothing was counted.

    Args:
        summary: Of the cells that are shown.
        platforms: In the order of their looks.
    """
    lines = hypervisor_lines(summary)
    if not lines:
        return None
    values = {
        "hypervisor": lines,
        "hypervisor_kinds": kind_meanings(lines),
        "platforms": list(platforms),
        "several_scenarios": len({cell.scenario for cell in summary.cells}) > 1,
    }
    return rendered(templates_of("stealtime.report.page"), "section_hypervisor.html.jinja", values)
