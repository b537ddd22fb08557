"""Several machines come to a host at once: no more are copied at a time than it takes, and the important ones first."""

import os
from itertools import pairwise

import pytest
from counting_guest import CountingGuest
from two_hosts import PATIENCE_S, TIMING, laboratory_or_skip

from stealtime.hosts.namespace_testbed import NamespaceTestbed
from stealtime.hosts.waiting import poll
from stealtime.protect.endpoint import DEFAULT_PORT

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

ORDERS = {"phones": 30, "registrar": 10, "voicemail": 20}


def copied(guest: CountingGuest) -> tuple[int, int]:
    """Give from when to when all memory of a guest was copied, in ns of the monotonic clock."""
    states = {event["state"]: int(event["monotonic_ns"]) for event in guest.events("a") if event["event"] == "state"}
    return states["Syncing"], states["Naming"]


def test_of_several_machines_one_after_the_other_is_copied_in_their_order() -> None:
    with laboratory_or_skip() as laboratory:
        testbed = NamespaceTestbed(laboratory)
        endpoint = f"tcp:{laboratory.host('b').address('replication')}:{DEFAULT_PORT}"
        testbed.tell("b", listen=endpoint, identity=testbed.identity("b"), copies=1)
        laboratory.power_off("b")
        guests = [
            CountingGuest(testbed, name, number=number, copy_order=order, timing=TIMING)
            for number, (name, order) in enumerate(ORDERS.items())
        ]
        for guest in guests:
            guest.start()
        assert poll(lambda: all(guest.running("a") for guest in guests) or None, PATIENCE_S), testbed.log_tail()
        testbed.start_daemon("b")
        for guest in guests:
            guest.await_ready()
        spans = sorted((*copied(guest), guest.vm.copy_order) for guest in guests)
        assert all(one[1] <= other[0] for one, other in pairwise(spans)), spans
        # Whoever asked first was alone, and the others waited meanwhile.
        orders = [order for _, _, order in spans[1:]]
        assert orders == sorted(orders), spans
        refusals = {event["reason"] for guest in guests for event in guest.events("a") if event["event"] == "refused"}
        waits = [reason for reason in refusals if "waits for its turn" in reason]
        # The first one, too, if it was taken and its link broke off before it was copied.
        assert len(waits) >= 2, refusals
        assert all(reason.startswith("b refuses: b receives 1 machines at a time, and ") for reason in waits)
        for guest in guests:
            guest.stop()
