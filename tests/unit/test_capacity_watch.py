"""The one screen of ``watch --once``, and what it is made of, on made-up figures."""

import re

import pytest
from rich.console import Console
from synthetic_use import guest, use
from syrupy.assertion import SnapshotAssertion

from stealtime.capacity.rules import load_rules
from stealtime.capacity.use import Use
from stealtime.capacity.watch.neighbours import buffer_bytes
from stealtime.capacity.watch.screen import render
from stealtime.capacity.watch.sparkline import sparkline
from stealtime.capacity.watch.state import Blame, Neighbours, Snapshot, State
from stealtime.capacity.wording import duration
from stealtime.vocabulary.readings import Absent

RULES = load_rules()
BLAMES = (Blame("web", 0, "guest db", 48.0), Blame("web", 0, "kworker/0:1", 1.5, tid=77))


def busy_host() -> Use:
    web = guest("web", run=[50.0], wait=[50.0], cpus=[0], queue=2.0)
    db = guest("db", run=[49.0, 1.0], wait=[50.5, 0.0], cpus=[0])
    lost = guest("lost", unreadable=Absent(absent="its virtual CPUs cannot be told from its other threads"))
    return use([web, db, lost], busy=(100.0, 3.0))


def snapshot(seen: Use, samples: int = 12, neighbours: Neighbours | None = None) -> Snapshot:
    state = State(RULES)
    if neighbours is not None:
        state.blame(neighbours)
    for _ in range(samples):
        last = state.take(seen)
    return last


def drawn(shown: Snapshot) -> str:
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(render(shown, notes=["a note"]))
    return console.export_text()


def test_bars_end_at_the_highest_and_a_missing_one_is_no_bar() -> None:
    assert sparkline([0, 12.5, 50, 99.9, 100, 250, None], width=9) == "  ▁▂▅███·"
    assert sparkline(list(range(100)), width=3) == "███"


def test_durations_have_three_digits() -> None:
    assert [duration(one) for one in (12.0, 3_780_000.0, 2.5e9)] == ["12 ns", "3.78 ms", "2.5 s"]


def test_the_screen(snapshot_text: SnapshotAssertion) -> None:
    assert drawn(snapshot(busy_host(), neighbours=Neighbours(BLAMES, 0.2))) == snapshot_text


@pytest.fixture(name="snapshot_text")
def _snapshot_text(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot


def test_a_host_without_guests_is_shown_too() -> None:
    text = drawn(snapshot(use()))
    assert "host: not judged" in text
    assert "no guest runs on this host" in text


def test_many_guests_stand_the_worst_first_and_nothing_but_long_names_is_cut() -> None:
    guests = [guest(f"g{number:02}", run=[50.0], wait=[float(number)]) for number in range(40)]
    lines = drawn(snapshot(use(guests, busy=[50.0] * 64))).splitlines()
    shown = [line.split()[0] for line in lines if re.match(r"g\d\d ", line)]
    assert sorted(shown) == sorted(one.guest.name for one in guests)
    assert shown[0] == "g39"
    assert "…" not in "".join(lines)


def test_no_name_of_a_guest_is_markup_or_steers_the_terminal() -> None:
    names = ("[red]a[/red]", "x[/]", "esc\x1b[2J")
    text = drawn(snapshot(use([guest(name, run=[50.0], wait=[50.0]) for name in names])))
    assert all(name in text for name in names[:2])
    assert "\x1b" not in text


def test_why_there_are_no_neighbours_is_said() -> None:
    text = drawn(snapshot(busy_host(), neighbours=Neighbours(absent=Absent(absent="tracefs is for root"))))
    assert "neighbours: not known, because tracefs is for root" in text


def test_guests_that_come_and_go_leave_no_verdicts_behind() -> None:
    state = State(RULES)
    state.take(use([guest("a"), guest("b")]))
    last = state.take(use([guest("a")]))
    assert last.guests.keys() == {guest("a").guest.key}


@pytest.mark.parametrize(("cpus", "bytes_each"), [(1, 4 << 20), (16, 4 << 20), (256, 256 << 10), (4096, 128 << 10)])
def test_the_buffers_of_the_trace_are_bounded_over_all_cpus(cpus: int, bytes_each: int) -> None:
    assert buffer_bytes(cpus) == bytes_each
