"""The prediction as a table: a line for each guest, a column for the host as it is and for each change."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from stealtime.capacity.prediction.document import PredictionDocument, Scenario, StretchPrediction

_MOST_COLUMNS = 3
"""Of changes, beside each other; of more, those without a guest get a line each."""
_PRESSURE = "the share of the CPU time that all guests want for which they wait"


class PredictionPage:
    """Renders what was predicted."""

    def __init__(self, document: PredictionDocument) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document = self._document
        if document.now is None:
            yield Text(f"stretch: not predicted, because {document.because}")
            return
        if not document.scenarios:
            # Each guest's own line tells its stretch.
            yield Text(f"pressure: {document.now.pressure:.2f}, {_PRESSURE}", style="dim")
            return
        shown, rest = document.scenarios, list[Scenario]()
        if len(shown) > _MOST_COLUMNS:
            shown, rest = ([one for one in shown if (one.added is None) == is_without] for is_without in (False, True))
        yield _by_guest(document.now, shown)
        if rest:
            yield _by_change(rest)
        for because, name in {one.because: one.guest for one in document.now.guests if one.because is not None}.items():
            yield Text(f"{name}: {because}", style="dim")
        yield Text(f"stretch is (run + wait) / run; pressure is {_PRESSURE}", style="dim")


def _by_guest(now: Scenario, changes: list[Scenario]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("stretch of")
    for one in (now, *changes):
        table.add_column(_title(one), justify="right")
    columns = [{guest.guest: guest for guest in one.guests} for one in (now, *changes)]
    for name in dict.fromkeys(name for column in columns for name in column):
        cells = [_cell(column.get(name), is_measured=number == 0) for number, column in enumerate(columns)]
        table.add_row(name, *cells)
    table.add_row("pressure, 0 to 1", *(f"{one.pressure:.2f}" for one in (now, *changes)), style="bold")
    return table


def _by_change(changes: list[Scenario]) -> Table:
    table = Table("change", box=None, pad_edge=False)
    table.add_column("pressure", justify="right")
    table.add_column("most stretched then")
    for one in changes:
        known = [guest for guest in one.guests if guest.stretch is not None]
        worst = max(known, key=lambda guest: guest.stretch or 0.0, default=None)
        text = "-" if worst is None else f"{worst.guest}: {_cell(worst, is_measured=False)}"
        table.add_row(_title(one), f"{one.pressure:.2f}", text)
    return table


def _title(one: Scenario) -> str:
    return f"with {one.added}" if one.added else f"without {one.removed}" if one.removed else "now"


def _cell(one: StretchPrediction | None, *, is_measured: bool) -> str:
    if one is None:
        return "-"
    if one.stretch is None:
        return "not known"
    interval = "" if is_measured or one.low == one.high else f" ({one.low:.2f} to {one.high:.2f})"
    return f"{one.stretch:.2f}{interval}"
