"""The appliance answers, natively and in a protected guest, and what is counted of it is what was on the wire."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence

import pytest
from counting_guest import PATIENT_TIMING
from sip_capture import Capture

from stealtime.hosts.client import LaboratoryClient
from stealtime.hosts.host import NotProtectedError
from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.namespace_testbed import HOSTS, NamespaceTestbed
from stealtime.hosts.waiting import poll
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.calls.sessions import attempt_sessions
from stealtime.studies.telephony.parameters import Transport
from stealtime.studies.telephony.place.guest import GuestPlace
from stealtime.studies.telephony.place.native import NativePlace
from stealtime.studies.telephony.registrations.load import Load, fresh_names, run_load, unknown_users
from stealtime.studies.telephony.sipp.program import widen_ports
from stealtime.vocabulary.errors import StealtimeError

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Laboratory]:
    with Laboratory(HOSTS) as standing:
        widen_ports(LaboratoryClient(standing))
        yield standing


@pytest.fixture(scope="module")
def native(laboratory: Laboratory) -> Iterator[NativePlace]:
    place = NativePlace(laboratory)
    place.start()
    place.await_ready()
    yield place
    place.stop()


def test_a_server_whose_port_is_taken_says_so(laboratory: Laboratory) -> None:
    place = NativePlace(laboratory, up_within_s=5)
    takes = "import socket, time; s = socket.socket(); s.bind(('0.0.0.0', 5060)); s.listen(); time.sleep(600)"
    taker = laboratory.start("a", [sys.executable, "-c", takes])
    place.start()
    try:
        with pytest.raises(StealtimeError, match=r"does not answer within 5 s; it says: .*Address already in use"):
            place.await_ready()
    finally:
        taker.kill()
        place.stop()


@pytest.mark.parametrize("transport", ["udp", "tcp-one", "tcp-each"])
def test_every_acknowledged_phone_is_known_and_no_other(native: NativePlace, transport: Transport) -> None:
    names = fresh_names()
    load = Load(transport=transport, rate_per_s=100, count=100, names=names)
    registered, used, elapsed_ns = run_load(native, load, native.laboratory.folder / names)
    assert sorted(registered.answered_ns) == load.users
    assert (registered.unanswered, registered.finished.counts.failed) == (0, 0)
    assert 0 < registered.response_ns[0] <= registered.response_ns[-1] < elapsed_ns
    assert 0 < used.server_ns < elapsed_ns * (os.cpu_count() or 1)
    asked = [*load.users, "nobody"]
    assert unknown_users(native.client, native.address, asked, native.laboratory.folder / f"asked-{names}") == [
        "nobody"
    ]


def test_sipp_counts_what_is_on_the_wire(native: NativePlace) -> None:
    names = fresh_names()
    load = Load(transport="udp", rate_per_s=500, count=1_000, names=names)
    with Capture(native.laboratory) as capture:
        registered, _, _ = run_load(native, load, native.laboratory.folder / names)
    counts = registered.finished.counts
    assert capture.dropped == 0
    assert capture.counts["REGISTER"] == counts.created + counts.retransmissions
    assert capture.counts["REGISTER"] >= len(registered.sent_ns) == 1_000
    # The server answers each copy that it gets.
    assert capture.counts["200 REGISTER"] >= counts.successful == len(registered.answered_ns)
    assert capture.counts.total() == capture.counts["REGISTER"] + capture.counts["200 REGISTER"]


def test_sessions_are_established_and_ended_as_on_the_wire(native: NativePlace) -> None:
    with Capture(native.laboratory) as capture:
        tried = attempt_sessions(native, "udp", 20, 1, native.laboratory.folder / fresh_names())
    assert (tried.sent, tried.acknowledged, tried.retransmissions, tried.failure) == (20, 20, 0, None)
    # Each request passes from the caller to the server, and from it to the phone.
    assert {name: capture.counts[name] for name in ("INVITE", "ACK", "BYE")} == {"INVITE": 40, "ACK": 40, "BYE": 40}


def test_a_retransmission_is_counted_as_on_the_wire(native: NativePlace) -> None:
    names = fresh_names()
    load = Load(transport="udp", rate_per_s=100, count=200, names=names)
    with Capture(native.laboratory) as capture:
        native.laboratory.cut("a", "clients", "from")
        try:
            registered, _, _ = run_load(native, load, native.laboratory.folder / names)
        finally:
            native.laboratory.mend_all()
    counts = registered.finished.counts
    assert capture.dropped == 0
    # No answer comes back: every phone sends again, and none is acknowledged.
    assert (len(registered.answered_ns), registered.unanswered) == (0, 200)
    assert counts.retransmissions >= 200
    assert capture.counts["REGISTER"] == counts.created + counts.retransmissions
    assert capture.counts["200 REGISTER"] == 0


@pytest.fixture
def own_laboratory() -> Iterator[Laboratory]:
    """Without the native server, which has the address of a guest and would answer in its place."""
    with Laboratory(HOSTS) as standing:
        yield standing


@pytest.mark.truth
def test_a_phone_registers_at_a_protected_server_apart_from_its_media(own_laboratory: Laboratory) -> None:
    laboratory, testbed = own_laboratory, NamespaceTestbed(own_laboratory)
    place = GuestPlace(testbed, "apart", "net", roles="apart", timing=PATIENT_TIMING)
    place.start()
    try:
        place.await_ready()
        assert all(member.protected for member in place.await_protected())
        names = fresh_names()
        load = Load(transport="udp", rate_per_s=10, count=10, names=names)
        registered, used, _ = run_load(place, load, laboratory.folder / names)
        assert sorted(registered.answered_ns) == load.users
        assert unknown_users(place.client, place.address, load.users, laboratory.folder / f"asked-{names}") == []
        assert used.host_ns is not None
        assert min(used.server_ns, used.host_ns) > 0
        # A standby that is lost in the middle is not passed over in silence: the output is not held from then on.
        active, from_ns = place.await_protected(), time.monotonic_ns()
        place.check_protected(active, from_ns)
        standby = testbed.host("b").look(place.signalling.name).member
        assert standby is not None
        assert standby.pid is not None
        os.kill(standby.pid, signal.SIGKILL)
        assert poll(lambda: _was_unprotected(place, active, from_ns), 30.0)
        place.await_protected(frozenset({standby.pid}))
    finally:
        place.stop()


def test_a_guest_that_ends_before_its_server_answers_is_named_at_once(own_laboratory: Laboratory) -> None:
    place = GuestPlace(NamespaceTestbed(own_laboratory), "ends", "off")
    place.start()
    try:
        machine = poll(lambda: next((member.qemu_pid for member in place.members()), None), 30.0)
        assert machine is not None
        os.kill(machine, signal.SIGKILL)
        # Else it would be the error of the server, two minutes later.
        with pytest.raises(StealtimeError, match="the member of 'ends-both' on the host 'a' ended"):
            place.await_ready()
    finally:
        place.stop()


def _was_unprotected(place: GuestPlace, members: Sequence[MemberStatus], from_ns: int) -> bool:
    try:
        place.check_protected(members, from_ns)
    except NotProtectedError:
        return True
    return False
