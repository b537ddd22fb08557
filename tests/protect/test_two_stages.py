"""Protected primaries behind fronts, and one standby for all: the host of one dies, and only its users see it."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from counting_guest import PATIENT_TIMING
from two_hosts import laboratory_or_skip

from stealtime.hosts.client import LaboratoryClient
from stealtime.hosts.namespace_testbed import STANDBY, NamespaceTestbed
from stealtime.studies.telephony.calls.dialogues import CallSignalling
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.loads import TwoStageFailoverParameters
from stealtime.studies.telephony.place.fronts import FIRST_STAGE_NODES, laboratory_fronts
from stealtime.studies.telephony.place.two_stage import PRIMARY_HOSTS, TwoStagePlace
from stealtime.studies.telephony.registrations.two_stages import fail_over_of_several
from stealtime.studies.telephony.sipp.program import widen_ports
from stealtime.vocabulary.errors import StealtimeError

pytestmark = [
    pytest.mark.protect,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

_RATE_PER_S = 100.0
_BEFORE_S = 2.0
_CALLS = 12
_HOLD_S = 1.0


@pytest.fixture(scope="module")
def place() -> Iterator[TwoStagePlace]:
    """Two primaries and their standby, before anything was done to them."""
    with laboratory_or_skip((*PRIMARY_HOSTS, STANDBY), FIRST_STAGE_NODES) as laboratory:
        widen_ports(LaboratoryClient(laboratory))
        testbed = NamespaceTestbed(laboratory)
        fronts = laboratory_fronts(laboratory, testbed.client)
        made = TwoStagePlace(testbed, fronts, "sip", "net", primaries=2, timing=PATIENT_TIMING)
        made.start()
        made.await_ready()
        yield made
        made.stop()


@pytest.mark.truth
def test_a_primary_is_added_and_another_one_dies_and_nobody_is_lost(place: TwoStagePlace, tmp_path: Path) -> None:
    before, from_ns = place.await_protected(), time.monotonic_ns()
    wanted = TwoStageFailoverParameters(mode="net", primaries=2, transport="udp", rate_per_s=_RATE_PER_S)
    seen = fail_over_of_several(place, wanted, _BEFORE_S, tmp_path)
    count = round(2 * _BEFORE_S * _RATE_PER_S)

    # The name server led phones to both fronts, and these shared them between all primaries.
    assert len(seen.fronts) == len(place.fronts.addresses)
    assert sum(seen.fronts.values()) == seen.sent == seen.acknowledged == count
    assert [one.host for one in seen.primaries] == list(PRIMARY_HOSTS)
    assert all(one.users > count / 10 for one in seen.primaries)
    assert sum(one.users for one in seen.primaries) == count
    assert (seen.lost, seen.lost_users, seen.unanswered) == (0, [], 0)

    # The third one was added while phones registered, and took some of those that had done so.
    added = seen.added
    assert (added.host, added.lost, added.lost_users, added.unanswered) == (PRIMARY_HOSTS[-1], 0, [], 0)
    assert 0 < added.moved < added.before < added.acknowledged

    # One guest went on where the standby is; the others ran and were protected all the time, where they are.
    assert seen.host == PRIMARY_HOSTS[0]
    first, *others = place.guests
    assert [member.host for member in first.running_members()] == [STANDBY]
    assert all([member.host for member in guest.running_members()] == [guest.home] for guest in others)
    # That of the third one is not known before it was added.
    untouched, member = others[0], before[1]
    (status,) = untouched.running_members()
    assert status.pid == member.pid
    assert untouched.states_since(member, from_ns) == []
    with pytest.raises(StealtimeError, match="there is no host for another primary beside 3"):
        place.add_primary()


@pytest.mark.truth
def test_phones_of_one_primary_call_those_of_another(place: TwoStagePlace, tmp_path: Path) -> None:
    plan = CallPlan(_CALLS)
    with CallSignalling(place.client, place.address, plan, tmp_path) as signalling:
        signalling.register()
        answers = signalling.call(_HOLD_S)
        made = signalling.end()
    assert (made.begun, made.answered, made.ended, made.failed) == (_CALLS, _CALLS, _CALLS, 0)
    # Each call is relayed by the primary of the phone that is called: more than one of them has such a phone.
    relays = {relay.rpartition(":")[0] for relay in answers.of_callers.values()}
    assert relays <= {guest.ip_address for guest in place.guests}
    assert len(relays) > 1
