"""What was seen, as text."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from stealtime.blackout.document import BlackoutDocument, ViewDocument, WatchDocument, WayDocument
from stealtime.blackout.seen import WAY_NAMES
from stealtime.report.notation import number_of
from stealtime.report.plain_table import new_table

_MOST_SHOWN = 50


class BlackoutPage:
    """Renders the document of ``stealtime blackout``."""

    def __init__(self, document: WatchDocument) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document = self._document
        yield _ways(document.ways)
        yield Text()
        watched = f"in {document.duration_ns / 1e9:.1f} s"
        if document.blackouts:
            yield Text(f"{number_of(len(document.blackouts), 'blackout')} {watched}", style="bold")
            yield _blackouts(document.blackouts[:_MOST_SHOWN])
            if len(document.blackouts) > _MOST_SHOWN:
                yield Text(f"and {len(document.blackouts) - _MOST_SHOWN} more: see --json")
        else:
            yield Text(f"no blackout {watched}", style="bold green")
        yield from (Text(line) for line in _remarks(document))


def _ways(ways: list[WayDocument]) -> Table:
    table = new_table()
    for title in ("over", "asked", "round trip (median, 99 %)", "lost", "reordered", "copies", "longest silence", ""):
        table.add_column(title, justify="left" if title in ("over", "asked", "") else "right")
    for way in ways:
        trips = way.round_trip_ns
        table.add_row(
            WAY_NAMES[way.way],
            way.to,
            "-" if trips is None else f"{_ms(trips['p50'])}, {_ms(trips['p99'])}",
            f"{way.lost:,} of {way.sent:,}",
            f"{way.reordered:,}",
            f"{way.duplicated:,}",
            _ms(way.longest_silence_ns),
            f"blackout: over {_ms(way.threshold_ns)}",
        )
    return table


def _blackouts(blackouts: list[BlackoutDocument]) -> Table:
    table = new_table()
    for title in ("began", "after", "over", "gone for", "silent for", "lost", "reordered", "copies", ""):
        table.add_column(title, justify="left" if title in ("began", "over", "") else "right")
    for blackout in blackouts:
        began = datetime.fromtimestamp(blackout.start_wall_ns / 1e9).astimezone()
        for number, view in enumerate(blackout.views):
            half_ns = view.length_ns - view.at_least_ns
            table.add_row(
                f"{began:%H:%M:%S.%f}"[:-3] if number == 0 else "",
                f"{view.since_start_ns / 1e9:.3f} s",
                WAY_NAMES[view.way],
                f"{_ms(view.length_ns)} \N{PLUS-MINUS SIGN} {half_ns / 1e6:,.2f}",
                _ms(view.at_most_ns),
                f"{view.lost:,} of {view.sent:,}",
                f"{view.reordered:,}",
                f"{view.duplicated:,}",
                "; ".join(_words(view)),
            )
    return table


def _words(view: ViewDocument) -> Iterator[str]:
    if not view.ended:
        yield "not ended"
    if view.own_pause_ns:
        yield f"besides, this machine itself stood still for {_ms(view.own_pause_ns)}"
    if view.connection_lost is not None:
        yield f"connection lost: {view.connection_lost}"
    elif view.way == "tcp":
        yield "connection lived"
    yield from (f"{kind}: {count}" for kind, count in Counter(view.violations).items())


def _remarks(document: WatchDocument) -> Iterator[str]:
    for one in document.unjudged[:_MOST_SHOWN]:
        yield (
            f"not judged: {_ms(one.silence_ns)} without an answer over {WAY_NAMES[one.way]} after "
            f"{one.since_start_ns / 1e9:.3f} s, because this machine itself stood still for {_ms(one.own_pause_ns)}"
        )
    for way in document.ways:
        name = WAY_NAMES[way.way]
        if way.last_value is not None and not way.violations_total:
            yield f"{name}: all {way.last_value:,} values that the counter had told were remembered, in their order"
        elif way.violations_total:
            kinds = Counter(str(one["kind"]) for one in way.violations)
            told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            yield f"{name}: {number_of(way.violations_total, 'wrong answer')} of the counter: {told}"
        yield from (f"{name}: the connection was lost: {loss}" for loss in way.connection_losses)
    yield from (f"note: {limit}" for limit in document.limits)
    yield from (f"not valid: {reason}" for reason in document.reasons)


def _ms(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:,.2f} ms"
