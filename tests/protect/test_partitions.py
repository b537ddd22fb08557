"""Members that cannot reach each other, the register, or both; and one that stood still and does not know it."""

import os
import signal
import time
from collections.abc import Iterator

import pytest
from two_hosts import HOSTS, Counting, TwoHosts, await_that, laboratory_or_skip, other

from stealtime.errors import StealtimeError
from stealtime.protect.laboratory_etcd import Etcd

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

STANDSTILL_S = float(os.environ.get("STEALTIME_STANDSTILL_S", "3"))


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    with laboratory_or_skip() as laboratory:
        try:
            etcd = Etcd(laboratory)
        except StealtimeError as error:
            pytest.skip(f"no register to be cut off from: {error.message}")
        hosts = TwoHosts(laboratory, etcd, interval="100ms")
        hosts.start()
        yield hosts


def assert_unharmed(counting: Counting) -> None:
    seen = counting.end()
    assert seen["violations_total"] == 0, seen["violations"]
    assert seen["tcp_lived"] is True
    assert seen["check"]["mismatches"] == 0


def test_without_the_register_a_protected_machine_goes_on(hosts: TwoHosts) -> None:
    before = hosts.settled()
    counting = Counting(hosts)
    for name in HOSTS:
        hosts.laboratory.cut(name, "register")
    try:
        # Longer than the register's deadline: nobody needs it as long as the two hear each other.
        reached = before.epoch + 2 * hosts.vm.timing.register_deadline_ns // before.interval_ns

        def goes_on() -> bool:
            status = hosts.status(before.host)
            assert status is not None
            assert status.role == "active", status
            return status.acknowledged > reached

        await_that(goes_on, hosts.last_words)
    finally:
        hosts.laboratory.mend_all()
    assert hosts.settled().pid == before.pid
    assert_unharmed(counting)


def test_without_standby_and_register_the_guest_stands_still_until_one_is_back(hosts: TwoHosts) -> None:
    before = hosts.settled()
    counting = Counting(hosts)
    total = int(hosts.ask("status")["total"])
    for name in HOSTS:
        hosts.laboratory.cut(name, "register")
    hosts.laboratory.cut(before.host, "replication")
    try:

        def is_stopped() -> bool:
            status = hosts.status(before.host)
            return status is not None and status.role == "stopped"

        await_that(is_stopped, hosts.last_words)
        standby = hosts.status(other(before.host))
        assert standby is None or standby.role == "standby", "it took over without asking anybody"
    finally:
        hosts.laboratory.mend_all()
    hosts.settled()
    assert int(hosts.ask("status")["total"]) >= total
    assert_unharmed(counting)


def test_a_member_that_stood_still_is_fenced_and_releases_nothing(hosts: TwoHosts) -> None:
    before = hosts.settled()
    assert before.pid is not None
    counting = Counting(hosts)
    hosts.ask("status")
    os.kill(before.pid, signal.SIGSTOP)
    try:

        def has_taken_over() -> bool:
            status = hosts.status(other(before.host))
            return status is not None and status.role in ("solo", "active")

        await_that(has_taken_over, hosts.last_words)
        # The guest serves on the other host while the first one still believes that it has it.
        hosts.ask("status")
        time.sleep(STANDSTILL_S)
    finally:
        os.kill(before.pid, signal.SIGCONT)
    hosts.await_end(before.pid)
    events = (hosts.member(before.host).path / "events.jsonl").read_text().splitlines()
    assert any('"fenced"' in line and f'"pid":{before.pid},' in line for line in events), events[-10:]
    after = hosts.settled(unlike=frozenset({before.pid}))
    assert after.host == other(before.host)
    assert_unharmed(counting)
