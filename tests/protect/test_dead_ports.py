"""A guest that runs and reaches nobody, since somebody took its TAP or its bridge away, moves to where it does."""

import os
import re

import pytest
from two_hosts import Counting, TwoHosts, assert_unharmed, other

from stealtime.protect.laboratory import GUEST_BRIDGE
from stealtime.protect.laboratory_network import run

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("link delete {tap}", "there is no TAP {tap} any more"),
        ("link set {tap} down", "the TAP {tap} was taken out of use"),
        ("link set {bridge} down", "the bridge {bridge} was taken out of use"),
    ],
    ids=["TAP deleted", "TAP down", "bridge down"],
)
def test_a_guest_that_reaches_nobody_moves(protected_hosts: TwoHosts, change: str, told: str) -> None:
    counting = Counting(protected_hosts)
    counting.await_answers()
    before = protected_hosts.settled()
    assert before.pid is not None
    node = protected_hosts.laboratory.host(before.host)
    (tap,) = re.findall(r"(?:tap-|stt)[^:@ ]+", run(*node.prefix, "ip", "-oneline", "link"))
    names = {"tap": tap, "bridge": GUEST_BRIDGE}
    run(*node.prefix, "ip", *change.format(**names).split())
    protected_hosts.await_end(before.pid)
    if "bridge" in change:
        run(*node.prefix, "ip", "link", "set", GUEST_BRIDGE, "up")
    after = protected_hosts.settled(unlike=frozenset({before.pid}))
    assert after.host == other(before.host)
    alarms = [
        event
        for event in protected_hosts.events(before.host)
        if event["pid"] == before.pid and event["event"] == "alarm" and event["alarm"] == "port"
    ]
    assert len(alarms) == 1, alarms
    assert told.format(**names) in str(alarms[0]["text"])
    counting.await_answers()
    assert_unharmed(counting.end())
