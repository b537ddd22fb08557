"""Hosts that are left before they go down, two of three at a time: no machine moves to one that goes down, too."""

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from protect_command import protect
from three_hosts import ALL_HOSTS, THIRD, ThreeHosts
from two_hosts import Counting, assert_unharmed, await_that, laboratory_or_skip

from stealtime.protect.control import ControlError
from stealtime.protect.status import MemberStatus

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]


@pytest.fixture
def hosts() -> Iterator[ThreeHosts]:
    with laboratory_or_skip(ALL_HOSTS) as laboratory:
        hosts = ThreeHosts(laboratory, interval="50ms")
        hosts.boot()
        yield hosts


def _leave(hosts: ThreeHosts, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    prefix = hosts.laboratory.host(name).prefix
    return protect(hosts.state, "leave", "--host", name, *options, prefix=prefix)


def _has_run(hosts: ThreeHosts, name: str) -> bool:
    try:
        return any(event["event"] == "active" for event in hosts.events(name))
    except FileNotFoundError:
        return False


def _standby(status: MemberStatus) -> str:
    assert status.standby is not None
    return status.standby.name


@pytest.mark.parametrize("order", [("b", "a"), pytest.param(("a", "b"), marks=pytest.mark.truth)])
def test_two_of_three_hosts_that_are_left_at_the_same_time_move_their_machine_to_the_third(
    hosts: ThreeHosts, order: tuple[str, str]
) -> None:
    counting = Counting(hosts)
    counting.await_answers()
    before = hosts.settled()
    assert (before.host, _standby(before)) == ("a", "b")
    first, second = order
    with ThreadPoolExecutor(2) as leaving:
        begun = leaving.submit(_leave, hosts, first)
        await_that((hosts.state.host(first).path / ".leaving").exists, hosts.log_tail)
        done = {second: _leave(hosts, second), first: begun.result()}
    assert [one.returncode for one in done.values()] == [0, 0], done
    assert done["a"].stderr == "counter has left\n"
    hosts.await_running(THIRD)
    if first == "b":
        # Else it may have moved there, and on, before anybody knew.
        assert not _has_run(hosts, "b"), hosts.log_tail()
    counting.await_answers()

    def says_why() -> bool:
        status = hosts.status(THIRD)
        assert status is not None
        return all(any(f"{name} is leaving" in text for text in status.warnings) for name in ("a", "b"))

    await_that(says_why, hosts.log_tail)
    back = _leave(hosts, "b", "--back")
    assert (back.returncode, back.stderr) == (0, "b takes machines again\n")
    assert _standby(hosts.settled()) == "b"
    assert_unharmed(counting.end())


def test_a_standby_whose_host_is_left_is_replaced_and_no_failover_goes_there(hosts: ThreeHosts) -> None:
    counting = Counting(hosts)
    counting.await_answers()
    before = hosts.settled()
    hosts.laboratory.power_off(THIRD)
    left = _leave(hosts, "b")
    assert (left.returncode, left.stderr) == (0, "")

    def says_so() -> bool:
        status = hosts.status("a")
        return status is not None and any("b, which stands by, is to go down" in text for text in status.warnings)

    await_that(says_so, hosts.log_tail)
    for name in ("a", "b"):
        with pytest.raises(ControlError, match=r"b is (to go down|leaving)"):
            hosts.control(name).failover()
    # Nobody else is there: it stays protected, and where it is.
    stays = _leave(hosts, "a", "--timeout", "2s")
    assert stays.returncode == 3
    assert "counter is still here: no standby has taken it over" in stays.stderr
    assert hosts.settled().pid == before.pid
    assert _leave(hosts, "a", "--back").returncode == 0
    hosts.start_daemon(THIRD)
    # It was to leave, and goes to the first host that can take it.
    hosts.await_running(THIRD)
    assert not _has_run(hosts, "b"), hosts.log_tail()
    after = hosts.settled(unlike=frozenset({before.pid or 0}))
    assert (after.host, _standby(after)) == (THIRD, "a")
    assert_unharmed(counting.end())


def test_a_guest_that_is_offered_to_a_host_just_when_that_is_left_goes_on_where_it_was(hosts: ThreeHosts) -> None:
    counting = Counting(hosts)
    counting.await_answers()
    before = hosts.settled()
    for _ in range(3):
        host = hosts.state.host(_standby(hosts.settled()))
        host.leave()
        # The standby sees that within 100 ms, and tells it: mostly it is offered the guest before.
        with pytest.raises(ControlError, match=r"(did not take over|is to go down)"):
            hosts.control("a").failover()
        host.stay()
        counting.await_answers()
    assert hosts.settled().pid == before.pid
    offered = [event for event in hosts.events("a") if event["event"] == "state" and event["state"] == "Resigned"]
    assert offered, "nobody was offered the guest"
    assert_unharmed(counting.end())
