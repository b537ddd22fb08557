"""Tables of many hosts, and of a day: names are text, whatever is in them."""

from datetime import datetime

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from stealtime.capacity.exporter.history import HistoryDocument
from stealtime.capacity.fleet import FleetDocument
from stealtime.capacity.rules import Verdict
from stealtime.capacity.severity import TO_CHANGE, short
from stealtime.capacity.terminal import STYLES
from stealtime.vocabulary.visible import in_one_line

_TO_SEE_TO: tuple[Verdict, ...] = (*TO_CHANGE, "not judged")
_COLUMNS = tuple(map(short, _TO_SEE_TO))


class FleetPage:
    """Renders the document of ``stealtime advise --from``."""

    def __init__(self, document: FleetDocument) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        hosts = self._document.hosts
        crowded = sum(one.verdict == "over-committed host" for one in hosts)
        guests = sum(sum(one.guests.values()) for one in hosts)
        count = "1 host" if len(hosts) == 1 else f"{len(hosts)} hosts"
        yield Text(f"{count}, {crowded} over-committed; {guests} guests\n")
        yield self._table()

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._table())

    def _table(self) -> Table:
        columns = ("guests", *_COLUMNS)
        table = _table(("host", "verdict", *columns, "worst guest", "watched until"), right=columns)
        for one in self._document.hosts:
            table.add_row(
                _name(one.host_name or one.source),
                Text(one.verdict, STYLES[one.verdict]),
                Text(str(sum(one.guests.values()))),
                *(Text(str(one.guests.get(verdict, 0))) for verdict in _TO_SEE_TO),
                _name(one.worst_guest or ""),
                Text("" if one.ended_at is None else _minute(one.ended_at)),
            )
        return table


class HistoryPage:
    """Renders the document of ``stealtime advise --history``."""

    def __init__(self, document: HistoryDocument) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document = self._document
        yield Text.assemble(
            (in_one_line(document.host), "bold"),
            f": {_minute(document.first)} to {_minute(document.last)}, "
            f"{document.watched_s / 3600:.1f} h of it were watched\n",
        )
        yield self._table()

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._table())

    def _table(self) -> Table:
        table = _table(
            ("", *_COLUMNS, "stretch", "crowded", "worst hour"),
            right=(*_COLUMNS, "stretch", "crowded"),
        )
        for one in self._document.subjects:
            worst = "" if one.worst_hour is None else f"{_minute(one.worst_hour)} ({one.worst_hour_percent:.0f} %)"
            table.add_row(
                _name(one.name),
                *(Text(f"{one.verdict_percent.get(verdict, 0.0):.0f} %") for verdict in _TO_SEE_TO),
                Text("" if one.stretch is None else f"{one.stretch:.2f}"),
                Text("" if one.crowded_percent is None else f"{one.crowded_percent:.0f} %"),
                Text(worst),
            )
        return table


def _table(names: tuple[str, ...], right: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        justify: JustifyMethod = "right" if name in right else "left"
        table.add_column(name, justify=justify, no_wrap=True)
    return table


def _name(name: str) -> Text:
    return Text(in_one_line(name), "bold")


def _minute(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")
