"""An etcd without space, which can be read and takes no writes: a guest that is alone goes on, and nobody stops it."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from two_hosts import Counting, TwoHosts, assert_unharmed, await_that, etcd_or_skip, laboratory_or_skip, other

from stealtime.hosts.laboratory import ARBITER
from stealtime.protect.status import MemberStatus

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

_TIMING = {"active_deadline": "1s", "standby_timeout": "1600ms", "register_deadline": "2s"}
WATCHED_S = 10.0
"""Of several `register_deadline`s: a guest that was stopped for each standby that could not be named stood thrice."""

# Raises or ends etcd's alarm for want of space, as its quota does: URL, ACTIVATE or DEACTIVATE.
_ALARM = """
import json, sys, urllib.request
def post(path, **body):
    request = urllib.request.Request(sys.argv[1] + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
member = post("/v3/maintenance/status")["header"]["member_id"]
post("/v3/maintenance/alarm", action=sys.argv[2], memberID=member, alarm="NOSPACE")
"""


@pytest.fixture
def hosts() -> Iterator[TwoHosts]:
    with laboratory_or_skip() as laboratory:
        hosts = TwoHosts(laboratory, etcd_or_skip(laboratory), interval="50ms", timing=_TIMING)
        hosts.boot()
        yield hosts


@contextmanager
def full(hosts: TwoHosts) -> Iterator[None]:
    _alarm(hosts, "ACTIVATE")
    yield
    _alarm(hosts, "DEACTIVATE")


def _alarm(hosts: TwoHosts, action: str) -> None:
    assert hosts.etcd is not None
    argv = [sys.executable, "-c", _ALARM, hosts.etcd.url, action]
    assert hosts.laboratory.start(ARBITER, argv).wait(timeout=60) == 0


@pytest.mark.truth
def test_a_guest_that_lost_its_standby_is_not_stopped_while_etcd_is_full_and_is_protected_again_thereafter(
    hosts: TwoHosts, tell: Callable[[str], None]
) -> None:
    before = hosts.settled()
    counting = Counting(hosts, linear_timeouts=True)
    counting.await_answers()
    standby_pid = hosts.pid(other(before.host))
    with full(hosts):
        hosts.kill(standby_pid)

        def alone() -> MemberStatus | None:
            status = hosts.status(before.host)
            assert status is not None
            said = [alarm.text for alarm in status.alarms if alarm.kind == "register"]
            is_told = any("takes no writes" in text and "no standby is looked for" in text for text in said)
            return status if status.role == "solo" and is_told else None

        status = await_that(alone, lambda: f"not alone, or no alarm\n{hosts.log_tail()}")
        assert (status.pid, status.protected) == (before.pid, False)
        alone_ns = time.monotonic_ns()
        # Its other host is up, and would take it.
        time.sleep(WATCHED_S)
        stopped = [state for state in hosts.states_since(before, alone_ns) if state != "Unprotected"]
        assert stopped == [], hosts.log_tail()
    after = hosts.settled(unlike=frozenset({standby_pid}))
    assert after.pid == before.pid
    seen = counting.end()
    assert_unharmed(seen)
    longest_ms = max(seen["longest_outage_ns"].values()) / 1e6
    tell(f"etcd without space, the standby dies: the client waited for {longest_ms:.0f} ms at most in {WATCHED_S:g} s")
