"""What the kernel kills for want of memory is one process among several: the guest goes on, and that is told."""

import os
from collections.abc import Callable, Iterator

import pytest
from evidence import Witness
from memory_group import MemoryGroup
from two_hosts import Counting, TwoHosts, assert_unharmed, laboratory_or_skip, other

from stealtime.protect.state import recorded_process
from stealtime.protect.status import MemberStatus

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

_ROOM_FOR_ONE_BYTES = 16 << 20


@pytest.fixture
def hosts() -> Iterator[TwoHosts]:
    with laboratory_or_skip() as laboratory:
        yield TwoHosts(laboratory, interval="50ms")


def _daemon(hosts: TwoHosts, name: str) -> int:
    process = recorded_process(hosts.state.host(name).pid_file)
    assert process is not None
    return int(process.pid)


def _pid(member: MemberStatus | None) -> int:
    assert member is not None
    assert member.pid is not None
    return member.pid


def _qemu(member: MemberStatus | None) -> int:
    assert member is not None
    assert member.qemu_pid is not None
    return member.qemu_pid


_VICTIMS: dict[str, Callable[[TwoHosts, MemberStatus], int]] = {
    "the active member": lambda _, active: _pid(active),
    "the guest's QEMU": lambda _, active: _qemu(active),
    "the standby": lambda hosts, active: hosts.pid(other(active.host)),
    "the standby's QEMU": lambda hosts, active: _qemu(hosts.status(other(active.host))),
    "the daemon of the standby's host": lambda hosts, active: _daemon(hosts, other(active.host)),
}
_MOVING = ("the active member", "the guest's QEMU")


@pytest.mark.truth
def test_each_process_may_be_killed_for_want_of_memory(hosts: TwoHosts) -> None:
    with Witness(hosts) as witness:
        hosts.boot()
        counting = Counting(hosts)
        for whom, victim in _VICTIMS.items():
            before = hosts.settled()
            pid = victim(hosts, before)
            with MemoryGroup(_ROOM_FOR_ONE_BYTES) as group:
                group.kill(pid)
                hosts.await_end(pid)
            if whom == "the daemon of the standby's host":
                assert hosts.settled().pid == before.pid, "a machine does not need the daemon that has received it"
                hosts.start_daemon(other(before.host))
            after = hosts.settled(unlike=frozenset({pid}))
            assert (after.host != before.host) == (whom in _MOVING), whom
        assert_unharmed(counting.end())
        witness.assert_all()
