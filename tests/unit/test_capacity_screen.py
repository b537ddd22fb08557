"""The live screen in a terminal of 80 x 24, as somebody uses it: sort, filter, scroll, a guest's page, quit."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from synthetic_use import guest, use
from syrupy.assertion import SnapshotAssertion
from textual.pilot import Pilot

from stealtime.capacity.rules import load_rules
from stealtime.capacity.use import Use
from stealtime.capacity.watch import words
from stealtime.capacity.watch.app import WatchApp
from stealtime.capacity.watch.rows import ORDERS, Order, row_of
from stealtime.capacity.watch.state import Blame, Neighbours, Snapshot, State

pytestmark = pytest.mark.asyncio
SIZE = (80, 24)
NEIGHBOURS = Neighbours((Blame("web", 0, "guest db", 48.0), Blame("web", 0, "kworker/0:1", 1.5, tid=77)), 0.2)
STEERING = "\x1b[31m[red]x[/red]\n"


def fleet(web_wait: float = 50.0) -> Use:
    """A host of many guests: two share a CPU, one has a name that would steer the terminal."""
    others = [guest(f"shop-frontend-production-{number:03}", wait=[number / 40]) for number in range(40)]
    crowded = [guest("web", run=[50.0], wait=[web_wait], cpus=[0]), guest("db", run=[49.0, 1.0], wait=[50.5, 0.0])]
    return use([*others, *crowded, guest(STEERING, run=[5.0])], busy=(100.0, 3.0, *[40.0] * 6))


def snapshots(seen: Sequence[Use]) -> list[Snapshot]:
    state = State(load_rules())
    state.blame(NEIGHBOURS)
    for _ in range(11):
        state.take(seen[0])
    return [state.take(one) for one in seen]


class Watched:
    """The program in a terminal, fed with one snapshot after the other."""

    def __init__(self, *seen: Use) -> None:
        self._snapshots = snapshots(seen or [fleet()])
        self._next = asyncio.Event()
        self.app = WatchApp(self._feed)

    async def _feed(self) -> AsyncIterator[Snapshot]:
        for one in self._snapshots:
            yield one
            await self._next.wait()
            self._next.clear()
        await asyncio.Event().wait()

    async def more(self, pilot: Pilot[None]) -> None:
        self._next.set()
        await pilot.pause()
        await pilot.pause()

    def lines(self) -> list[str]:
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    def guests(self) -> list[str]:
        return [line.split()[0] for line in self.lines()[4:-2] if line.strip()]


async def test_it_fits_80_columns_and_shows_the_worst_first(snapshot: SnapshotAssertion) -> None:
    watched = Watched()
    async with watched.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        lines = watched.lines()
        assert len(lines) == SIZE[1]
        assert max(map(len, lines)) <= SIZE[0]
        assert watched.guests()[:2] == ["db", "web"]
        # What it uses itself differs each time.
        assert "this screen: " in lines[-2]
        assert " % of a CPU, " in lines[-2]
        assert "\n".join([*lines[:-2], lines[-1]]) == snapshot


async def test_rows_stay_where_they_are_until_they_are_sorted_anew() -> None:
    # `web` waits no longer: it would stand after `db` and far down.
    watched = Watched(fleet(60.0), fleet(0.0), fleet(0.0))
    async with watched.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert watched.guests()[:2] == ["web", "db"]
        await watched.more(pilot)
        assert watched.guests()[:2] == ["web", "db"]
        assert "0.0%" in watched.lines()[4]
        await pilot.press("s")
        await pilot.pause()
        assert watched.guests()[0] == "db"
        assert "web" not in watched.guests()
        assert "by wait" in watched.lines()[-2]


async def test_a_filter_leaves_the_others_out_and_escape_brings_them_back() -> None:
    watched = Watched()
    async with watched.app.run_test(size=SIZE) as pilot:
        await pilot.press("slash", *"039")
        await pilot.press("enter")
        await pilot.pause()
        assert len(watched.guests()) == 1
        assert "1 of 43 hold '039'" in watched.lines()[-2]
        await pilot.press("escape")
        await pilot.pause()
        assert len(watched.guests()) > 10


async def test_end_and_home_scroll_and_refreshing_does_not() -> None:
    watched = Watched(fleet(), fleet(40.0), fleet())
    async with watched.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("end")
        await pilot.pause(0.2)
        last = watched.guests()
        assert "web" not in last
        await watched.more(pilot)
        assert watched.guests() == last
        await pilot.press("home")
        await pilot.pause(0.2)
        assert "web" in watched.guests()


async def test_a_guests_page_says_who_took_its_cpu_and_what_to_change(snapshot: SnapshotAssertion) -> None:
    watched = Watched()
    async with watched.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("down", "enter")
        await pilot.pause(0.1)
        assert "\n".join(watched.lines()) == snapshot
        await pilot.press("escape")
        await pilot.pause()
        assert "db" in watched.guests()


async def test_a_name_does_not_steer_the_terminal() -> None:
    watched = Watched()
    async with watched.app.run_test(size=SIZE) as pilot:
        await pilot.press("slash", *"red")
        await pilot.pause(0.1)
        text = "\n".join(watched.lines())
        assert "\x1b" not in text
        assert r"\x1b[31m[" in text


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_paused_it_stands_still_and_a_key_ends_it(key: str) -> None:
    watched = Watched(fleet(60.0), fleet(0.0))
    async with watched.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("p")
        await pilot.pause()
        assert "paused" in watched.lines()[-2]
        before = watched.lines()[4]
        await watched.more(pilot)
        assert watched.lines()[4] == before
        await pilot.press(key)
        await pilot.pause()
        assert watched.app._exit


@pytest.mark.parametrize("by", ORDERS)
async def test_rows_sort_by_each_column(by: str) -> None:
    (shown,) = snapshots([fleet()])
    rows = [row_of(key, one, shown) for key, one in shown.uses[-1].guests.items()]
    order = Order()
    order.sort(rows[::-1], by)
    first = order.shown(rows)[0].name
    expected = {"worst": "db", "wait": "db", "stretch": "db", "run": "db", "name": STEERING}
    assert first == expected[by]


async def test_a_guest_that_idles_has_no_stretch() -> None:
    (shown,) = snapshots([use([guest("idle", run=[0.1], wait=[0.8]), guest("busy", run=[1.0], wait=[1.0])])])
    rows = {one.guest.name: row_of(key, one, shown) for key, one in shown.uses[-1].guests.items()}
    assert (rows["idle"].stretch, rows["busy"].stretch) == (None, 2.0)


@pytest.mark.parametrize(("name", "shown"), [("web", "web"), ("a" * 12, "a" * 12), ("abcdefghijklm", "abcdefg…jklm")])
async def test_long_names_are_cut_in_their_middle(name: str, shown: str) -> None:
    assert words.shortened(name, 12)[:3] == shown[:3]
    assert len(words.shortened(name, 12)) == min(len(name), 12)
    assert words.shortened(name, 12)[-4:] == shown[-4:]
