"""Processes that are stopped for a while and continue; and one that dies before it is needed."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from two_hosts import HOSTS, await_that, other
from watched import Watched

from stealtime.protect.control import ControlError

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

STANDSTILL_S = float(os.environ.get("STEALTIME_STANDSTILL_S", "2"))
"""Longer than the deadlines of both members; 10 in the full form."""


@contextmanager
def standing_still(watched: Watched, *pids: int | None) -> Iterator[None]:
    """Stop processes; they go on at the end, in this order."""
    stopped = [pid for pid in pids if pid is not None]
    assert len(stopped) == len(pids)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        for pid in stopped:
            watched.hosts.stand_still(pid)
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def await_alone(watched: Watched, host: str) -> None:
    """Wait until the member on a host runs the guest without a standby, and the guest answers."""

    def is_alone() -> bool:
        status = watched.hosts.status(host)
        return status is not None and status.role in ("solo", "active") and status.standby is None

    await_that(is_alone, lambda: f"{host} does not go on alone\n{watched.hosts.log_tail()}")
    watched.hosts.ask("status")


def test_an_active_member_that_stood_still_is_fenced_and_releases_nothing(watched: Watched) -> None:
    hosts, before = watched.hosts, watched.hosts.settled()
    assert before.pid is not None
    with standing_still(watched, before.pid):
        # The guest serves on the other host while the first one still believes that it has it.
        await_alone(watched, other(before.host))
        time.sleep(STANDSTILL_S)
    hosts.await_end(before.pid)
    mine = [event for event in hosts.events(before.host) if event["pid"] == before.pid]
    assert mine[-1]["event"] == "fenced", mine[-5:]
    after = hosts.settled(unlike=frozenset({before.pid}))
    assert after.host == other(before.host)
    watched.assert_unharmed()


def test_a_standby_that_stood_still_leaves_the_guest_where_it_is(watched: Watched) -> None:
    hosts, before = watched.hosts, watched.hosts.settled()
    standby_pid = hosts.pid(other(before.host))
    with standing_still(watched, standby_pid):
        await_alone(watched, before.host)
        time.sleep(STANDSTILL_S)
        assert hosts.pid(before.host) == before.pid
    # It asks the register, which does not name it any more.
    hosts.await_end(standby_pid)
    after = hosts.settled(unlike=frozenset({standby_pid}))
    assert after.pid == before.pid
    watched.assert_unharmed()


def test_of_two_members_that_stood_still_one_goes_on(watched: Watched) -> None:
    hosts, before = watched.hosts, watched.hosts.settled()
    standby_pid = hosts.pid(other(before.host))
    # The standby goes on first: it hears nobody, and finds itself named.
    with standing_still(watched, standby_pid, before.pid):
        time.sleep(STANDSTILL_S)
    hosts.settled()
    watched.assert_unharmed()


def test_a_guest_whose_qemu_stands_still_is_silent_and_goes_on_where_it_was(watched: Watched) -> None:
    hosts, before = watched.hosts, watched.hosts.settled()
    standby_pid = hosts.pid(other(before.host))
    with standing_still(watched, before.qemu_pid):
        time.sleep(STANDSTILL_S)
        heard = watched.witness.voice.frames()
        time.sleep(STANDSTILL_S)
        assert watched.witness.voice.frames() == heard, "something of the guest is heard"
        # The member lives, so nobody takes the guest from it: the copy would be no better off.
        stood = hosts.status(before.host)
        assert stood is not None
        assert (stood.role, stood.pid) == ("active", before.pid)
    watched.assert_unharmed()
    after = hosts.settled()
    assert (after.pid, after.term) == (before.pid, before.term), "protection was lost meanwhile"
    assert hosts.pid(other(before.host)) == standby_pid


@pytest.mark.truth
def test_a_planned_failover_that_is_not_acknowledged_is_given_up(watched: Watched) -> None:
    hosts, before = watched.hosts, watched.hosts.settled()
    assert before.pid is not None
    since_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    # The standby is heard all the time; it only does not get on with what it is sent.
    hosts.control(other(before.host)).fault("after-stage", "delay")
    with pytest.raises(ControlError, match="did not acknowledge"):
        hosts.control(before.host).failover()

    def what_happened() -> list[str]:
        events = hosts.events(before.host)
        return [event["event"] for event in events if event["pid"] == before.pid and event["monotonic_ns"] > since_ns]

    await_that(lambda: "guest-continued" in what_happened(), lambda: str(what_happened()))
    watched.assert_unharmed()
    after = hosts.settled()
    assert (after.pid, after.term) == (before.pid, before.term), "protection was lost meanwhile"
    # And later it is carried out.
    hosts.control(before.host).failover()
    hosts.await_end(before.pid)
    assert hosts.settled().host == other(before.host)
    watched.assert_unharmed()


def test_a_standby_whose_qemu_dies_is_replaced_and_the_guest_goes_on(watched: Watched) -> None:
    hosts, before = watched.hosts, watched.hosts.settled()
    standby = hosts.status(other(before.host))
    assert standby is not None
    assert standby.qemu_pid is not None
    assert standby.pid is not None
    since_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    hosts.kill(standby.qemu_pid)
    # A standby that could not take over must not be taken for one.
    hosts.await_end(standby.pid)
    after = hosts.settled(unlike=frozenset({standby.pid}))
    assert after.pid == before.pid
    assert after.host == before.host
    assert after.term > before.term
    stopped = [
        event
        for name in HOSTS
        for event in hosts.events(name)
        if event["event"] == "guest-stopped" and event["monotonic_ns"] > since_ns
    ]
    assert stopped == [], "the guest was stopped"
    watched.assert_unharmed()
