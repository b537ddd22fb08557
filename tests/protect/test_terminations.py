"""Only the guest itself and ``protect stop`` end a machine: a host that goes down in order moves it."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from protect_command import protect
from truth import some_of
from two_hosts import HOSTS, PATIENCE_S, Counting, TwoHosts, assert_unharmed, await_that, laboratory_or_skip, other

from stealtime.protect.control import ControlError
from stealtime.protect.status import MemberStatus

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]


@pytest.fixture
def hosts() -> Iterator[TwoHosts]:
    with laboratory_or_skip() as laboratory:
        hosts = TwoHosts(laboratory, interval="50ms")
        hosts.boot()
        yield hosts


def _pids(member: MemberStatus) -> tuple[int, int]:
    assert member.pid is not None
    assert member.qemu_pid is not None
    return member.pid, member.qemu_pid


def _ending(hosts: TwoHosts, member: MemberStatus) -> dict[str, object]:
    return [event for event in hosts.events(member.host) if event["pid"] == member.pid][-1]


@pytest.mark.parametrize("whom", some_of(["member", "qemu", "member and qemu"], "member"))
def test_a_process_that_is_terminated_moves_the_guest(hosts: TwoHosts, whom: str) -> None:
    counting = Counting(hosts)
    counting.await_answers()
    before = hosts.settled()
    member, qemu = _pids(before)
    group = os.getpgid(qemu)
    for name, pid in (("member", member), ("qemu", qemu)):
        if name in whom:
            os.kill(pid, signal.SIGTERM)
    hosts.await_end(member)
    after = hosts.settled(unlike=frozenset({member}))
    assert after.host == other(before.host)
    if whom == "member":
        assert "handed over" in str(_ending(hosts, before)["reason"]), "a planned failover loses nothing"
    assert_unharmed(counting.end())
    assert group == qemu, "a signal for the member's group would be QEMU's too"


def test_a_host_that_goes_down_hands_over_what_runs_there(hosts: TwoHosts) -> None:
    counting = Counting(hosts)
    counting.await_answers()
    before = hosts.settled()
    left = protect(hosts.state, "leave", "--host", before.host, prefix=hosts.laboratory.host(before.host).prefix)
    assert (left.returncode, left.stderr) == (0, "counter has left\n")
    hosts.await_running(other(before.host))
    # It takes the machine again when it is back.
    back = protect(hosts.state, "leave", "--back", "--host", before.host)
    assert back.returncode == 0
    after = hosts.settled(unlike=frozenset({_pids(before)[0]}))
    assert after.host == other(before.host)
    assert_unharmed(counting.end())


@pytest.mark.truth
def test_a_stop_during_a_planned_failover_ends_the_machine(hosts: TwoHosts) -> None:
    before = hosts.settled()
    standby = other(before.host)
    pids = (_pids(before)[0], hosts.pid(standby))
    hosts.control(standby).fault("after-claim", "stop")
    with ThreadPoolExecutor(1) as asking:
        moving = asking.submit(hosts.control(before.host).failover)
        hosts.stand_still(pids[1])
        hosts.control(before.host).stop()
        refusal = moving.exception(PATIENCE_S)
    assert isinstance(refusal, ControlError)
    assert "asked to stop before it had moved" in refusal.message
    os.kill(pids[1], signal.SIGCONT)
    for pid in pids:
        hosts.await_end(pid)
    assert [hosts.status(name) for name in HOSTS] == [None, None]


def test_a_guest_that_powers_off_ends_on_both_hosts(hosts: TwoHosts) -> None:
    members = [status for status in map(hosts.status, HOSTS) if status is not None]
    assert len(members) == len(HOSTS)
    hosts.ask("power-off")
    for status in members:
        hosts.await_end(_pids(status)[0])
    assert [hosts.status(name) for name in HOSTS] == [None, None]


def test_a_member_without_standby_stays_until_somebody_takes_the_machine(hosts: TwoHosts) -> None:
    before = hosts.settled()
    member, _ = _pids(before)
    hosts.power_off(other(before.host))
    await_that(lambda: (status := hosts.status(before.host)) is not None and status.role == "solo", hosts.log_tail)
    os.kill(member, signal.SIGTERM)

    def says_why() -> bool:
        status = hosts.status(before.host)
        return status is not None and any("was asked to leave" in text for text in status.warnings)

    await_that(says_why, hosts.log_tail)
    hosts.ask("status")
    hosts.start_daemon(other(before.host))
    hosts.await_end(member)
    assert hosts.settled(unlike=frozenset({member})).host == other(before.host)
    hosts.ask("status")


def test_a_standby_that_is_terminated_leaves_and_another_is_found(hosts: TwoHosts) -> None:
    before = hosts.settled()
    standby = hosts.pid(other(before.host))
    os.kill(standby, signal.SIGTERM)
    hosts.await_end(standby)
    after = hosts.settled(unlike=frozenset({standby}))
    assert (after.host, after.pid) == (before.host, before.pid)


@pytest.mark.truth
def test_a_standby_that_is_terminated_while_it_claims_goes_on_and_then_hands_over(hosts: TwoHosts) -> None:
    counting = Counting(hosts)
    counting.await_answers()
    before = hosts.settled()
    member, _ = _pids(before)
    standby = hosts.pid(other(before.host))
    hosts.control(other(before.host)).fault("before-claim", "stop")
    hosts.kill(member)
    hosts.stand_still(standby)
    os.kill(standby, signal.SIGTERM)
    os.kill(standby, signal.SIGCONT)
    hosts.await_end(standby)
    assert hosts.settled(unlike=frozenset({member, standby})).host == before.host
    assert_unharmed(counting.end())
