"""What operators run beside protection: two servers that replicate each other, and a call whose keys only one has."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from counting_guest import PATIENT_TIMING
from encrypted_call import PROGRAM, EncryptedCall, make_encrypted_call
from two_hosts import laboratory_or_skip

from stealtime.hosts.client import LaboratoryClient
from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.namespace_testbed import HOSTS, NamespaceTestbed, other
from stealtime.studies.telephony.calls.measuring import make_calls
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.loads import RegisterFailoverParameters
from stealtime.studies.telephony.place.guest import GuestPlace
from stealtime.studies.telephony.place.replicated import STORE_HOST, ReplicatedPlace, store_node
from stealtime.studies.telephony.registrations.failover import fail_over
from stealtime.studies.telephony.sipp.program import widen_ports

pytestmark = [
    pytest.mark.protect,
    pytest.mark.alone,
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

_CALLS = 4
_RATE_PER_S = 50.0
_BEFORE_S = 2.0
_AFTER_S = 4.0
_ADVERTISEMENT_NS = 300_000_000
"""Not to wait for long; a translated guest on a crowded host still keeps to three of them."""


@pytest.fixture
def laboratory() -> Iterator[Laboratory]:
    with laboratory_or_skip((*HOSTS, STORE_HOST)) as found:
        widen_ports(LaboratoryClient(found))
        yield found


@pytest.mark.truth
def test_replicated_servers_keep_registrations_and_calls_and_are_whole_again(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    testbed = NamespaceTestbed(laboratory)
    store = store_node(laboratory, testbed)
    place = ReplicatedPlace(testbed, "replica", advertisement_ns=_ADVERTISEMENT_NS, store=store)
    place.start()
    place.await_ready()
    first = place.serving_host()
    wanted = RegisterFailoverParameters(mode="replicated", transport="udp", rate_per_s=_RATE_PER_S)
    found = fail_over(place, wanted, _RATE_PER_S, _BEFORE_S, tmp_path)
    assert found.host == first
    assert place.serving_host() == other(first)
    assert 0 < found.acknowledged_before < found.acknowledged == found.users
    # A server that was told of nothing would know none of those; what it was just being told of may be missing.
    assert found.lost <= _RATE_PER_S * _ADVERTISEMENT_NS / 1e9, found.lost_users

    faults = []

    def fault() -> None:
        time.sleep(_BEFORE_S)
        faults.append(place.lose_host())

    made = make_calls(place, CallPlan(_CALLS), 2 * _BEFORE_S + _AFTER_S, tmp_path, meanwhile=fault)
    assert faults[0].died == other(first)
    assert made.dialogues.answered == made.dialogues.ended == _CALLS
    assert made.voice.silence_ns is not None
    # Voice goes on: more came than all that was said before the fault.
    assert all(stream.received > stream.sent / 2 for stream in made.voice.each)
    assert len(made.voice.each) == 2 * _CALLS
    place.await_protected()


@pytest.mark.truth
@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="the package baresip-core is not installed")
def test_an_encrypted_call_outlives_its_host_in_the_mode_net(laboratory: Laboratory) -> None:
    place = GuestPlace(NamespaceTestbed(laboratory), "encrypted", "net", timing=PATIENT_TIMING)
    place.start()
    place.await_ready()
    running_ns = []

    def fault() -> int:
        blown = place.lose_host()
        running_ns.append(blown.running_ns)
        return blown.struck_ns

    call = make_encrypted_call(laboratory, place.address, fault, before_s=_BEFORE_S, after_s=_AFTER_S)
    _check_it_goes_on(call, running_ns[0])
    assert call.used_twice == 0


def _check_it_goes_on(call: EncryptedCall, running_ns: int) -> None:
    """Both directions are heard to the end, with the keys of before, and the call can be hung up."""
    last_second_ns = call.ended_ns - 1_000_000_000
    assert last_second_ns > running_ns
    assert call.after(call.to_callee, last_second_ns), "the relay could not decrypt"
    assert call.after(call.to_caller, last_second_ns), "the relay said nothing to the encrypted phone"
    assert not call.after(call.handshakes, call.fault_ns), "keys were negotiated anew"
    received = len([one for one in call.to_caller if one.at_ns < call.ended_ns])
    assert call.heard >= received - 10, "the phone could not decrypt"
    assert call.hung_up
