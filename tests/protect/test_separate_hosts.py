"""Signalling and media on a host each: either side loses its host alone, and only that side sees it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from captured_calls import captured_directions, count_messages
from counting_guest import PATIENT_TIMING
from media_tap import MediaTap
from two_hosts import laboratory_or_skip

from stealtime.hosts.namespace_testbed import NamespaceTestbed
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.calls.dialogues import CALLERS_PORT
from stealtime.studies.telephony.calls.measuring import hosts_of
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.results import CallFailover
from stealtime.studies.telephony.calls.trials import call_failover
from stealtime.studies.telephony.loads import CallFailoverParameters
from stealtime.studies.telephony.parameters import CallVictim
from stealtime.studies.telephony.place.separate_hosts import SeparateHostsPlace
from stealtime.studies.telephony.registrations.load import Load, fresh_names, run_load

pytestmark = [
    pytest.mark.protect,
    pytest.mark.truth,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

_PLAN = CallPlan(3)
_BEFORE_S = 0.5
_SIGNALLING, _STANDBY, _MEDIA = "a", "b", "c"


@pytest.fixture(scope="module")
def place() -> Iterator[SeparateHostsPlace]:
    """A server of two guests on a host each, before anything was done to them."""
    with laboratory_or_skip((_SIGNALLING, _STANDBY, _MEDIA)) as laboratory:
        testbed = NamespaceTestbed(laboratory)
        made = SeparateHostsPlace(testbed, "sides", "net+bypass", timing=PATIENT_TIMING)
        made.start()
        made.await_ready()
        yield made
        made.stop()


def test_each_side_has_a_host_and_each_host_its_cpu(place: SeparateHostsPlace, tmp_path: Path) -> None:
    assert [member.host for member in place.await_protected()] == [_SIGNALLING, _MEDIA]
    before = place.use_by_host()
    load = Load(transport="udp", rate_per_s=50, count=50, names=fresh_names())
    registered, used, _ = run_load(place, load, tmp_path)
    assert registered.unanswered == 0
    found = hosts_of(before, place.use_by_host())
    hosts = {one.host: one for one in found}
    runs = {name: one.runs for name, one in hosts.items()}
    assert runs == {_SIGNALLING: ["signalling"], _STANDBY: [], _MEDIA: ["media"]}
    # A standby runs no guest, but its member, QEMU and daemon work; together they are what all hosts used.
    assert hosts[_STANDBY].guests_ns == 0 < min(hosts[_SIGNALLING].guests_ns, hosts[_MEDIA].guests_ns)
    assert all(one.side_ns is not None and one.side_ns > 0 for one in found)
    # That was read just before and after.
    assert used.server_ns <= sum(one.guests_ns for one in found)


def test_voice_is_lost_with_the_host_of_media_alone(place: SeparateHostsPlace, tmp_path: Path) -> None:
    media = _lost_and_counted(place, "media", tmp_path / "media")
    assert media.voice.lost > 0
    signalling = _lost_and_counted(place, "signalling", tmp_path / "signalling")
    # Its calls have no part on the host that died: what they lost, if anything, is no failover.
    assert signalling.voice.lost < media.voice.lost


def _lost_and_counted(place: SeparateHostsPlace, victim: CallVictim, folder: Path) -> CallFailover:
    """Lose the host of one side under calls; see that a tap counted the same, and that the other side went on."""
    folder.mkdir()
    number = ("signalling", "media").index(victim)
    place.go_home()
    before = place.await_protected()
    wanted = CallFailoverParameters(mode="net+bypass", roles="hosts", streams=2 * _PLAN.calls, victim=victim)
    with MediaTap(place.testbed.laboratory) as tap:  # type: ignore[attr-defined]
        seen = call_failover(place, wanted, _PLAN, _BEFORE_S, folder)
    datagrams = tap.datagrams()

    assert (seen.victim, seen.dialogues.answered, seen.dialogues.ended) == (victim, _PLAN.calls, _PLAN.calls)
    assert count_messages(datagrams, "200 BYE", destination=CALLERS_PORT)[0] == _PLAN.calls
    captured = captured_directions(datagrams, place.media_address, _PLAN)
    for direction in seen.voice.directions:
        on_wire = captured[direction.towards]
        assert (on_wire.said, len(on_wire.delays_ns)) == (direction.sent, direction.received), direction.towards
    assert (seen.registrations.acknowledged, seen.registrations.lost) == (seen.registrations.sent, 0)
    assert seen.registrations.silence_ns is not None

    # What died runs on the standby; the other side is the same process where it was, protected by its own standby.
    now: list[MemberStatus] = place.members()
    other = 1 - number
    assert (before[number].host, now[number].host) == ((_SIGNALLING, _MEDIA)[number], _STANDBY)
    assert (now[other].host, now[other].pid) == (before[other].host, before[other].pid)
    assert place.guests[other].states_since(before[other], seen.fault_ns) == []
    return seen
