"""A guest that runs and reaches nobody, since somebody took its TAP or its bridge away, moves to where it does.

That one would reach nobody from its standby is an alarm.
"""

import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass

import pytest
from protect_command import protect
from truth import some_of
from two_hosts import HOSTS, Counting, TwoHosts, assert_unharmed, await_that, laboratory_or_skip, other

from stealtime.hosts.laboratory import GUEST_BRIDGE, Node
from stealtime.hosts.network import NAMESPACES, run

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

WITHOUT_PORT = (
    ("link delete {tap}", "there is no TAP {tap} any more"),
    ("link set {tap} down", "the TAP {tap} was taken out of use"),
    ("link set {bridge} down", "the bridge {bridge} was taken out of use"),
)
"""What is done to a host, and what an operator is told of it."""
_SOMEBODY_MUST_SEE_TO_IT = 4
_LOOKED_AT_AGAIN_S = 3.0


@dataclass(frozen=True)
class SeeingNode(Node):
    """A node whose processes see its own network interfaces in ``/sys``, as those of a machine do."""

    @property
    def prefix(self) -> tuple[str, ...]:
        """As of any node: it ends in an exec."""
        mount = 'mount -t sysfs sysfs /sys && exec "$0" "$@"'
        return ("nsenter", f"--net={NAMESPACES / self.namespace}", "--", "unshare", "--mount", "sh", "-c", mount)


@pytest.fixture
def seeing_hosts() -> Iterator[TwoHosts]:
    with laboratory_or_skip() as laboratory:
        for name in HOSTS:
            laboratory.nodes[name] = SeeingNode(*astuple(laboratory.nodes[name]))
        hosts = TwoHosts(laboratory, interval="50ms")
        hosts.boot()
        yield hosts


def tap_on(hosts: TwoHosts, name: str) -> str:
    """Give the name of the guest's TAP on a host."""
    (tap,) = re.findall(r"(?:tap-|stt)[^:@ ]+", run(*hosts.laboratory.host(name).prefix, "ip", "-oneline", "link"))
    return str(tap)


def alarms(hosts: TwoHosts, name: str) -> dict[str, str]:
    """Give the alarms of the member on a host, by their kind."""
    status = hosts.status(name)
    return {alarm.kind: alarm.text for alarm in status.alarms} if status is not None else {}


def alarms_of(hosts: TwoHosts, name: str, pid: int) -> list[str]:
    """Give the alarms of its port that a member has raised."""
    events = [event for event in hosts.events(name) if event["pid"] == pid and event["event"] == "alarm"]
    return [str(event["text"]) for event in events if event["alarm"] == "port"]


@pytest.mark.parametrize(
    ("change", "told"),
    some_of(WITHOUT_PORT, WITHOUT_PORT[-1]),
    ids=["TAP deleted", "TAP down", "bridge down"],
)
def test_a_guest_that_reaches_nobody_moves(protected_hosts: TwoHosts, change: str, told: str) -> None:
    counting = Counting(protected_hosts)
    counting.await_answers()
    before = protected_hosts.settled()
    assert before.pid is not None
    node = protected_hosts.laboratory.host(before.host)
    names = {"tap": tap_on(protected_hosts, before.host), "bridge": GUEST_BRIDGE}
    run(*node.prefix, "ip", *change.format(**names).split())
    protected_hosts.await_end(before.pid)
    if "bridge" in change:
        run(*node.prefix, "ip", "link", "set", GUEST_BRIDGE, "up")
    after = protected_hosts.settled(unlike=frozenset({before.pid}))
    assert after.host == other(before.host)
    raised = alarms_of(protected_hosts, before.host, before.pid)
    assert len(raised) == 1, raised
    assert told.format(**names) in raised[0]
    counting.await_answers()
    assert_unharmed(counting.end())


def test_a_standby_from_which_the_guest_would_reach_nobody_is_an_alarm_on_both_hosts(protected_hosts: TwoHosts) -> None:
    before = protected_hosts.settled()
    standby = other(before.host)
    node = protected_hosts.laboratory.host(standby)
    tap = tap_on(protected_hosts, standby)

    def is_known(told: str) -> bool:
        ours, theirs = alarms(protected_hosts, standby), alarms(protected_hosts, before.host)
        return told in ours.get("port", "") and told in theirs.get("standby-port", "")

    def is_over() -> bool:
        return not alarms(protected_hosts, standby) and not alarms(protected_hosts, before.host)

    run(*node.prefix, "ip", "link", "set", tap, "down")
    await_that(lambda: is_known(f"the TAP {tap} was taken out of use"), protected_hosts.log_tail)
    shown = protect(protected_hosts.state, "status", prefix=node.prefix)
    assert shown.returncode == _SOMEBODY_MUST_SEE_TO_IT, shown
    run(*node.prefix, "ip", "link", "set", tap, "up")
    await_that(is_over, protected_hosts.log_tail)
    run(*node.prefix, "ip", "link", "delete", tap)
    await_that(lambda: is_known(f"there is no TAP {tap} any more"), protected_hosts.log_tail)
    assert protected_hosts.settled().host == before.host, "its memory is safe there"
    # What the alarm says to do.
    pid = protected_hosts.pid(standby)
    assert f"kill {pid}" in alarms(protected_hosts, standby)["port"]
    os.kill(pid, signal.SIGTERM)
    protected_hosts.await_end(pid)
    after = protected_hosts.settled(unlike=frozenset({pid}))
    assert (after.host, after.pid) == (before.host, before.pid)
    await_that(is_over, protected_hosts.log_tail)


def test_a_carrier_that_is_lost_is_known_to_a_standby_that_came_later(seeing_hosts: TwoHosts) -> None:
    counting = Counting(seeing_hosts)
    counting.await_answers()
    before = seeing_hosts.settled()
    assert before.pid is not None
    first, second = before.host, other(before.host)
    seeing_hosts.laboratory.unplug(first, "clients")
    seeing_hosts.await_end(before.pid)
    after = seeing_hosts.settled(unlike=frozenset({before.pid}))
    assert after.host == second
    counting.await_answers()
    lost = f"no port of the bridge {GUEST_BRIDGE} has a carrier"
    await_that(lambda: lost in alarms(seeing_hosts, second).get("standby-port", ""), seeing_hosts.log_tail)
    seeing_hosts.laboratory.unplug(second, "clients")
    await_that(lambda: lost in alarms(seeing_hosts, second).get("port", ""), seeing_hosts.log_tail)
    time.sleep(_LOOKED_AT_AGAIN_S)
    status = seeing_hosts.settled()
    assert (status.host, status.pid) == (second, after.pid), "it stays where it is, with an alarm"
    for name in HOSTS:
        seeing_hosts.laboratory.plug(name, "clients")
    await_that(lambda: not alarms(seeing_hosts, first) and not alarms(seeing_hosts, second), seeing_hosts.log_tail)
    counting.await_answers()
    assert_unharmed(counting.end())


@pytest.mark.truth
def test_a_bridge_that_does_not_forward_for_the_guest_is_as_bad(seeing_hosts: TwoHosts) -> None:
    before = seeing_hosts.settled()
    assert before.pid is not None
    tap = tap_on(seeing_hosts, before.host)
    node = seeing_hosts.laboratory.host(before.host)
    run(*node.prefix, "bridge", "link", "set", "dev", tap, "state", "0")
    seeing_hosts.await_end(before.pid)
    assert seeing_hosts.settled(unlike=frozenset({before.pid})).host == other(before.host)
    raised = alarms_of(seeing_hosts, before.host, before.pid)
    assert f"the bridge {GUEST_BRIDGE} does not forward what comes from the TAP {tap}" in raised[0]
