"""The live screen: a table of guests to sort, filter and scroll, and a page for each; on Textual.

Guests stay in their lines until they are sorted anew. Only lines that are seen are drawn, so the cost does not grow
with the guests; what the program uses itself stands at the bottom.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from itertools import cycle
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from stealtime.capacity.own_cost import cpu_seconds, resident_bytes
from stealtime.capacity.watch import words
from stealtime.capacity.watch.rows import ORDERS, Key, Order, Row, row_of
from stealtime.capacity.watch.state import Snapshot

Feed = Callable[[], AsyncIterator[Snapshot]]
_MEBIBYTE = 1 << 20
_COST_SAMPLES = 10
"""Its own use of a CPU is told of so many refreshes."""


class GuestTable(DataTable[Text]):
    """A table whose Home and End lead to its first and last line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
    ]


class WatchApp(App[None]):
    """Shows snapshots as they come.

    Args:
        feed: Gives them.
        notes: Said at the bottom.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: 3; padding: 0 1; }
    #status { height: 1; padding: 0 1; color: $text-muted; }
    #filter { height: 1; border: none; display: none; padding: 0 1; }
    #filter.open { display: block; }
    DataTable { height: 1fr; }
    #page { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("s", "sort_next", "sort by"),
        Binding("space", "sort_again", "sort now"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("escape", "no_filter", "all", show=False),
        Binding("p", "pause", "pause"),
    ]

    def __init__(self, feed: Feed, notes: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._feed = feed
        self._notes = notes
        self._order = Order()
        self._orders = cycle([*list(ORDERS)[1:], next(iter(ORDERS))])
        self._keys: list[Key] = []
        self._is_paused = False
        self._is_sorted = False
        self._costs: deque[tuple[float, float]] = deque([(time.monotonic(), cpu_seconds())], maxlen=_COST_SAMPLES)
        self.snapshot: Snapshot | None = None

    def compose(self) -> ComposeResult:
        yield Static(Text("reading counters"), id="head")
        table = GuestTable(cursor_type="row", cell_padding=0)
        for name, width in words.COLUMNS:
            table.add_column(Text(name, justify="left" if name in ("guest", "verdict", "") else "right"), width=width)
        yield table
        yield Input(placeholder="part of a name; Enter keeps it, Escape shows all", id="filter", compact=True)
        yield Static(id="status")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.query_one(GuestTable).focus()
        self.run_worker(self._gather(), exclusive=True)

    async def _gather(self) -> None:
        async for snapshot in self._feed():
            if self._is_paused:
                continue
            self.snapshot = snapshot
            self._refresh()
            if isinstance(self.screen, GuestScreen):
                self.screen.show(snapshot)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let what is about the table alone, where a guest's page is open."""
        del parameters
        return action in ("quit", "pause", "pop_screen") or not isinstance(self.screen, GuestScreen)

    def _rows(self) -> list[Row]:
        assert self.snapshot is not None  # noqa: S101 - for the type checker
        last = self.snapshot.uses[-1]
        return [row_of(key, use, self.snapshot) for key, use in last.guests.items()]

    def _refresh(self) -> None:
        snapshot = self.snapshot
        if snapshot is None:
            return
        rows = self._rows()
        if not self._is_sorted:
            # Once there are verdicts; after that whoever looks says when.
            self._order.sort(rows, self._order.by)
            self._is_sorted = any(row.verdict not in (None, "not judged") for row in rows)
        shown = self._order.shown(rows)
        base = self.screen_stack[0]
        base.query_one("#head", Static).update(
            Text("\n").join([words.headline(snapshot), words.cpus(snapshot, self.size.width - 2)])
        )
        base.query_one("#status", Static).update(self._status(len(shown), len(rows)))
        self._fill(base.query_one(GuestTable), shown, snapshot)

    def _status(self, shown: int, all_of_them: int) -> Text:
        began_s, began_cpu_s = self._costs[0]
        now_s, now_cpu_s = time.monotonic(), cpu_seconds()
        self._costs.append((now_s, now_cpu_s))
        percent = 100 * (now_cpu_s - began_cpu_s) / max(now_s - began_s, 1e-9)
        parts = [f"by {self._order.by}"]
        if self._order.part:
            parts.append(f"{shown} of {all_of_them} hold {self._order.part!r}")
        if self._is_paused:
            parts.append("paused")
        parts += [f"this screen: {percent:.1f} % of a CPU, {resident_bytes() / _MEBIBYTE:.0f} MiB", *self._notes]
        return Text("   ".join(parts), no_wrap=True, overflow="ellipsis")

    def _fill(self, table: GuestTable, shown: list[Row], snapshot: Snapshot) -> None:
        keys = [row.key for row in shown]
        if keys != self._keys:
            selected = self._selected(table)
            offset = table.scroll_y
            table.clear()
            for row in shown:
                table.add_row(*words.cells(row, snapshot), key=f"{row.key[0]}:{row.key[1]}")
            self._keys = keys
            if selected in keys:
                table.move_cursor(row=keys.index(selected), scroll=False)
                table.scroll_to(y=offset, animate=False)
            return
        first = int(table.scroll_y)
        for number, row in list(enumerate(shown))[first : first + table.size.height]:
            for column, cell in enumerate(words.cells(row, snapshot)):
                if table.get_cell_at((number, column)) != cell:  # type: ignore[arg-type]
                    table.update_cell_at((number, column), cell)  # type: ignore[arg-type]

    def _selected(self, table: GuestTable) -> Key | None:
        return self._keys[table.cursor_row] if 0 <= table.cursor_row < len(self._keys) else None

    def action_sort_next(self) -> None:
        self._sort(next(self._orders))

    def action_sort_again(self) -> None:
        self._sort(self._order.by)

    def _sort(self, by: str) -> None:
        self._order.by = by
        if self.snapshot is not None:
            self._order.sort(self._rows(), by)
            self._is_sorted = True
            self._refresh()
            self.query_one(GuestTable).move_cursor(row=0)

    def action_pause(self) -> None:
        self._is_paused = not self._is_paused
        self._refresh()

    def action_filter(self) -> None:
        box = self.query_one("#filter", Input)
        box.add_class("open")
        box.focus()

    def action_no_filter(self) -> None:
        self._close_filter("")

    @on(Input.Changed, "#filter")
    def _filter_as_typed(self, event: Input.Changed) -> None:
        self._order.part = event.value
        self._refresh()

    @on(Input.Submitted, "#filter")
    def _keep_filter(self, event: Input.Submitted) -> None:
        self._close_filter(event.value)

    def _close_filter(self, part: str) -> None:
        box = self.query_one("#filter", Input)
        box.value = part
        box.remove_class("open")
        self._order.part = part
        self.query_one(GuestTable).focus()
        self._refresh()

    @on(DataTable.RowSelected)
    def _drill(self, event: DataTable.RowSelected) -> None:
        if self.snapshot is not None and event.cursor_row < len(self._keys):
            screen = GuestScreen(self._keys[event.cursor_row])
            self.push_screen(screen)
            screen.call_after_refresh(screen.show, self.snapshot)


class GuestScreen(Screen[None]):
    """All that is known of one guest.

    Args:
        key: Of the guest.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,left", "app.pop_screen", "back", key_display="esc"),
        Binding("q", "app.quit", "quit"),
    ]

    def __init__(self, key: Key) -> None:
        super().__init__()
        self._key = key

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(id="page")
        yield Footer(compact=True)

    def show(self, snapshot: Snapshot) -> None:
        if self.is_mounted:
            self.query_one("#page", Static).update(words.page(snapshot, self._key, self.size.width - 2))
