"""Members as people see them: tables, remarks, and what a demonstration showed."""

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from stealtime.cli.output import print_table
from stealtime.hosts.demo_result import Demonstration, MedianTrips
from stealtime.protect.showing import remarks, show_full_copy, status_table
from stealtime.protect.status import Alarm, FullCopy, MemberStatus, Peer, StatusDocument

ACTIVE = MemberStatus(
    vm="phone",
    host="a",
    role="active",
    protected=True,
    mode="net",
    epoch=1234,
    lag_epochs=1,
    interval_ns=100_000_000,
    pause_p50_ns=6_543_210,
    hold_p50_ns=57_000_000,
    dirty_pages_per_s=1850.4,
    bytes_per_s=2_500_000.0,
    held_bytes=4096,
    standby=Peer(name="b", endpoint="unix:/run/b.sock"),
)
STANDBY = MemberStatus(vm="phone", host="b", role="standby", protected=False, epoch=1233)
GONE = MemberStatus(vm="fax", host="a", role="gone", protected=False)
SOLO = MemberStatus(
    vm="fax", host="b", role="solo", protected=False, mode="net", warnings=("no standby answers",), epoch=3
)


def render(thing: Any) -> str:
    console = Console(width=140, highlight=False, no_color=True)
    with console.capture() as captured:
        console.print(thing)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def test_members_as_a_table(snapshot: SnapshotAssertion) -> None:
    assert render(status_table([STANDBY, ACTIVE, GONE, SOLO])) == snapshot


def test_what_members_say_in_sentences() -> None:
    alarmed = ACTIVE.model_copy(update={"alarms": (Alarm(kind="port", text="the TAP is gone"),)})
    assert remarks([alarmed]) == ["phone on a: alarm: the TAP is gone"]
    fenced = MemberStatus(vm="phone", host="a", role="fenced", protected=False, fenced_reason="b claimed")
    assert remarks([ACTIVE, SOLO, fenced]) == ["fax on b: no standby answers", "phone on a was fenced: b claimed"]


def test_a_host_is_well_when_each_of_its_machines_is_protected() -> None:
    assert StatusDocument(members=(ACTIVE, STANDBY)).is_protected()
    assert not StatusDocument(members=(ACTIVE, SOLO)).is_protected()
    assert not StatusDocument(members=(STANDBY,)).is_protected()
    assert not StatusDocument(members=()).is_protected()


def test_the_progress_of_the_full_copy_is_shown_at_a_terminal_only() -> None:
    copying = ACTIVE.model_copy(
        update={"protected": False, "role": "solo", "full_copy": FullCopy(done_bytes=32 << 20, total_bytes=128 << 20)}
    )
    terminal = Console(force_terminal=True, width=100, no_color=True, record=True)
    with terminal.capture() as captured, show_full_copy(terminal) as update:
        update(copying)
    assert "copying all memory" in captured.get()
    assert "32.0/128.0 MiB" in captured.get()
    quiet = Console(width=100)
    with quiet.capture() as captured, show_full_copy(quiet) as update:
        update(copying)
    assert captured.get() == ""


SHOWN = Demonstration(
    mode="net",
    interval="100ms",
    min_interval=None,
    seen={
        "acknowledged": 2345,
        "violations_total": 0,
        "tcp_lived": True,
        "longest_outage_ns": {"tcp": 412_000_000, "udp": 305_000_000},
        "check": {"mismatches": 0},
    },
    trips_without=MedianTrips(tcp_ns=552_000, udp_ns=431_000),
    trips_protected=MedianTrips(tcp_ns=99_700_000, udp_ns=101_200_000),
    before=ACTIVE,
    after=ACTIVE.model_copy(update={"host": "b", "standby": Peer(name="a", endpoint="x"), "resume_ns": 11_000_000}),
    killed_monotonic_ns=5_000_000_000,
    runs_again_monotonic_ns=5_230_000_000,
)


def test_what_a_demonstration_showed(snapshot: SnapshotAssertion) -> None:
    assert render(SHOWN.table()) == snapshot
    document = SHOWN.document()
    assert document["runs_again_after_ns"] == 230_000_000
    assert document["round_trip_p50"] == {
        "without_protection": {"tcp_ns": 552_000, "udp_ns": 431_000},
        "protected": {"tcp_ns": 99_700_000, "udp_ns": 101_200_000},
    }


def test_a_loss_is_not_whole() -> None:
    assert SHOWN.is_whole()
    for change in ({"violations_total": 3}, {"tcp_lived": False}):
        lossy = replace(SHOWN, seen={**SHOWN.seen, **change})
        assert not lossy.is_whole()
        assert "3 violations" in render(lossy.table()) or "was lost" in render(lossy.table())
    assert not replace(SHOWN, seen={**SHOWN.seen, "acknowledged": 0}).is_whole(), "nothing could be missing"
    unseen = replace(SHOWN, runs_again_monotonic_ns=None, after=SOLO, trips_protected=None)
    assert unseen.document()["round_trip_p50"]["protected"] is None
    assert "not measured: the guest was not protected all the time" in render(unseen.table())
    assert unseen.document()["runs_again_after_ns"] is None
    assert "not yet" in render(unseen.table())


def test_no_column_is_cut_where_no_terminal_says_how_wide_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    name, host = "a-machine-with-a-long-name-as-many-have-it", "host-17.rack-4.dc-2.example.com"
    member = MemberStatus(vm=name, host=host, role="active", protected=True, mode="net+bypass", epoch=123_456_789)
    print_table(status_table([member]))
    said = capsys.readouterr().out
    assert all(word in said for word in (name, host, "net+bypass", "123456789", "dirty pages/s"))
    assert "…" not in said
    assert len(said.splitlines()) == 2


def test_why_a_machine_is_refused_is_told_while_it_is_waited_for() -> None:
    console = Console(width=140, no_color=True)
    refusal = "b refuses: b has no room (hint: free some)"
    refused = SOLO.model_copy(update={"warnings": (refusal, "no standby answers")})
    with console.capture() as captured, show_full_copy(console) as update:
        for status in (SOLO, refused, refused):
            update(status)
    assert captured.get().strip() == refusal
