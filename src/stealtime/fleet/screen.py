"""The progress of all hosts: one table on a terminal, a line an event elsewhere."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from stealtime.fleet.record import HostRecord
from stealtime.vocabulary.quantities import approximate_duration

_REFRESHES_A_SECOND = 2
_STYLES = {"whole": "green", "measuring": "bold", "lost": "red", "failed": "red", "refused": "red"}
_ROWS_MOST = 40
"""Of 200 hosts those that measure or are in trouble are shown; the others are counted."""
_ORDER = ("lost", "failed", "refused", "interrupted", "incomplete", "measuring", "waiting", "whole")


class Screen(Protocol):
    """Is told what happens."""

    def tell(self, host: str, words: str) -> None: ...

    def doing(self, host: str, words: str) -> None: ...


@contextmanager
def show_fleet(console: Console, hosts: Sequence[HostRecord]) -> Iterator[Screen]:
    """Show the hosts until the context is left; their records may change meanwhile."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield _Lines(console)
        return
    table = _Table(console, hosts)
    with Live(console=console, refresh_per_second=_REFRESHES_A_SECOND, get_renderable=table.render, transient=True):
        yield table


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console

    def tell(self, host: str, words: str) -> None:
        self._console.print(Text(f"{host}: {words}"), soft_wrap=True)

    def doing(self, host: str, words: str) -> None:
        """What is only of interest while it lasts is no line of a log."""


class _Table:
    def __init__(self, console: Console, hosts: Sequence[HostRecord]) -> None:
        self._console, self._hosts = console, hosts
        self._doing: dict[str, str] = {}
        self._begin = time.monotonic()

    def tell(self, host: str, words: str) -> None:
        self._doing[host] = words
        if self._state(host) in ("lost", "failed", "refused"):
            self._console.print(Text(f"{host}: {words}", style="red"), soft_wrap=True)

    def doing(self, host: str, words: str) -> None:
        self._doing[host] = words

    def render(self) -> Group:
        shown = sorted(self._hosts, key=lambda one: (_ORDER.index(one.state), one.name))
        head = Text(f"{sum(one.state == 'whole' for one in shown)} of {len(shown)} hosts whole, ")
        head.append(f"{sum(one.whole for one in shown)} trials, elapsed ")
        head.append(approximate_duration(time.monotonic() - self._begin))
        if len(shown) > _ROWS_MOST:
            head.append(f"; {len(shown) - _ROWS_MOST} more hosts are not shown")
        return Group(host_table(shown[:_ROWS_MOST], self._doing), head)

    def _state(self, name: str) -> str:
        return next((one.state for one in self._hosts if one.name == name), "")


def host_table(hosts: Sequence[HostRecord], doing: dict[str, str] | None = None) -> Table:
    """Give a row for each host: its state, how many of its trials have arrived, and what it does or why it stopped."""
    table = Table(box=None, pad_edge=False)
    for name in ("host", "state", "trials", "doing" if doing is not None else "why"):
        table.add_column(name, overflow="fold", justify="right" if name == "trials" else "left")
    for one in hosts:
        words = (doing or {}).get(one.name, "") if doing is not None else one.words or ""
        state = Text(one.state, style=_STYLES.get(one.state, ""))
        planned = "?" if one.planned is None else str(one.planned)
        table.add_row(Text(one.name), state, f"{one.whole}/{planned}", Text(words))
    return table
