"""Options of ``run`` that make this host one of several: which part of the campaign it measures."""

import os
from typing import TYPE_CHECKING

from stealtime.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from stealtime.campaigns.session import Finished
    from stealtime.store.run import Run
    from stealtime.store.spread import Spread


def spread_of(shard: str | None, resumed: "Run | None", *, each_host: bool) -> "Spread | None":
    """Tell which part of the campaign is asked for; a resumed run goes on with its own.

    Raises:
        UsageError: It is no part, or the resumed run is another one.
    """
    from stealtime.campaigns.sharding import parse_shard
    from stealtime.store.spread import EachHost

    if shard is not None and each_host:
        raise UsageError(
            f"--shard {shard} measures a part here, and --each-host all of it", hint="leave one of the two out"
        )
    asked: Spread | None = EachHost() if each_host else None
    if shard is not None:
        asked = parse_shard(shard, os.environ)
    if resumed is None:
        return asked
    begun = resumed.manifest.spread
    if asked is not None and asked != begun:
        raise UsageError(
            f"{resumed.run_id} was begun {spread_words(begun)}, and now it is asked for {spread_words(asked)}",
            hint="leave --shard and --each-host out: a resumed run goes on as it was begun",
        )
    return begun


def spread_words(spread: "Spread | None") -> str:
    if spread is None:
        return "as a whole"
    return "with --each-host" if spread.kind == "each-host" else f"with --shard {spread}"


def tell_empty(finished: "Finished", as_json: bool) -> None:
    """Tell of the run of a shard without cells."""
    from stealtime.cli.output import print_document, print_line
    from stealtime.report.summarizing import summarize
    from stealtime.store.run import Run

    stored = Run.open(finished.folder)
    if as_json:
        print_document(summarize(stored))
    else:
        print_line(f"run     {stored.run_id} (without a cell)")
