"""Help texts that end with what comes with stealtime, and the lists of ``--list``."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from typer.core import TyperCommand

Rows = Iterable[tuple[str, str]]


class WithCampaigns(TyperCommand):
    """A command whose help lists the builtin campaigns."""

    def format_epilog(self, _context: Any, formatter: Any) -> None:
        """Write the list, which is read only now: no other command waits for it."""
        with formatter.section("Campaigns (see --list)"):
            formatter.write_dl(campaign_rows())


class WithPublished(TyperCommand):
    """A command whose help lists the published figures."""

    def format_epilog(self, _context: Any, formatter: Any) -> None:
        """Write the list, which is read only now: no other command waits for it."""
        with formatter.section("Published figures"):
            formatter.write_dl(published_rows())


def campaign_rows() -> list[tuple[str, str]]:
    from stealtime.campaigns.listed import listed_campaigns

    return [(one.name, one.answers) for one in listed_campaigns()]


def published_rows() -> list[tuple[str, str]]:
    from stealtime.campaigns.listed import listed_figures

    return [(one.name, one.citation) for one in listed_figures()]


def list_campaigns(as_json: bool) -> None:
    """Print all builtin campaigns with what they measure."""
    from stealtime.campaigns.listed import listed_campaigns
    from stealtime.cli.output import data_console, print_document

    campaigns = listed_campaigns()
    if as_json:
        print_document({"schema_version": 1, "campaigns": [asdict(one) for one in campaigns]})
        return
    console = data_console()
    for one in campaigns:
        short = ", has a short form (--short)" if one.has_short_form else ""
        console.print(f"{one.name}: {', '.join(one.probes)}{short}", style="bold")
        console.print(f"{one.description}\n")
    console.print("how long one takes here: stealtime run NAME --dry-run")


def list_published(as_json: bool) -> None:
    """Print all sets of published figures with their sources."""
    from stealtime.campaigns.listed import listed_figures
    from stealtime.cli.output import data_console, print_document

    figures = listed_figures()
    if as_json:
        print_document({"schema_version": 1, "published": [asdict(one) for one in figures]})
        return
    console = data_console()
    for one in figures:
        console.print(one.name, style="bold")
        console.print(f"{one.citation}\n")
