"""Wall clocks that are set while a machine is protected: leases and deadlines do not look at them.

Nothing is compared with the wall clock but the validity of certificates, which bears an hour of difference.
"""

import os
import subprocess
import sys
import time

import pytest
import wall_clock
from truth import some_of
from two_hosts import HOSTS, await_that, other
from watched import Watched

from stealtime.hosts.laboratory import ARBITER
from stealtime.protect.status import MemberStatus, Role

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(not wall_clock.IS_POSSIBLE, reason="single processes are given a wall clock on x86-64 only"),
]

HOUR_S = 3600

# Tells in minutes how far its clocks have gone since it began.
CLOCKS = """
import sys, time
clocks = (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME)
first = [time.clock_gettime(clock) for clock in clocks]
print("ready", flush=True)
while sys.stdin.readline():
    print(*(round((time.clock_gettime(clock) - then) / 60) for clock, then in zip(clocks, first)), flush=True)
"""


def find(watched: Watched, host: str, role: Role) -> MemberStatus | None:
    """Give the member on a host if it has this role."""
    status = watched.hosts.status(host)
    return status if status is not None and status.role == role else None


def set_clocks(watched: Watched, ahead_s: dict[str, int]) -> None:
    """Set the wall clock of everything that runs on these nodes now."""
    for name, ahead in ahead_s.items():
        wall_clock.set_ahead(watched.hosts.laboratory.processes(name), ahead)


def test_a_process_sees_the_wall_clock_that_it_is_given_and_no_other_clock_jumps() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CLOCKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for ahead_s in (HOUR_S, -HOUR_S, 0):
            wall_clock.set_ahead([process.pid], ahead_s)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline().split() == [str(ahead_s // 60), "0", "0"]


@pytest.mark.parametrize("of_standby_s", some_of([HOUR_S, -HOUR_S], HOUR_S), ids=["standby_ahead", "standby_behind"])
def test_clocks_that_jump_apart_change_nothing(watched: Watched, of_standby_s: int) -> None:
    hosts, before = watched.hosts, watched.hosts.settled()
    standby = other(before.host)
    standby_pid = hosts.pid(standby)
    assert before.pid is not None

    set_clocks(watched, {before.host: -of_standby_s, standby: of_standby_s, ARBITER: of_standby_s})
    # As long as any lease lasts, and half as long again.
    reached = before.acknowledged + 1.5 * hosts.vm.timing.register_deadline_ns // before.interval_ns
    await_that(
        lambda: (status := hosts.status(before.host)) is not None and status.acknowledged > reached,
        lambda: f"epochs stand still\n{hosts.log_tail()}",
    )
    still = hosts.settled()
    assert (still.pid, still.term) == (before.pid, before.term), "protection was lost meanwhile"
    assert hosts.pid(standby) == standby_pid

    hosts.laboratory.cut(before.host, "register")
    hosts.laboratory.cut(before.host, "replication")
    try:
        # Silence is noticed on both sides: the one goes on, and the other stops the guest.
        alone = await_that(lambda: find(watched, standby, "solo"), lambda: f"nobody goes on\n{hosts.log_tail()}")
        await_that(lambda: find(watched, before.host, "stopped"), lambda: f"it is not stopped\n{hosts.log_tail()}")
        # What it says of the present is an hour off: the jump was real.
        assert alone.since_unix_ns is not None
        assert abs(alone.since_unix_ns / 1e9 - time.time() - of_standby_s) < HOUR_S / 2
        # Alone, it lives on the register's lease; both clocks are set back and forth under it.
        set_clocks(watched, {standby: -of_standby_s, ARBITER: -of_standby_s})
        time.sleep(1.5 * hosts.vm.timing.register_deadline_ns / 1e9)
        assert hosts.pid(standby) == standby_pid
        hosts.ask("status")
    finally:
        hosts.laboratory.mend_all()

    # It connects to another standby, whose certificate it looks at by its own clock.
    after = hosts.settled(unlike=frozenset({before.pid}))
    assert after.pid == standby_pid
    set_clocks(watched, dict.fromkeys((*HOSTS, ARBITER), 0))
    watched.assert_unharmed()
