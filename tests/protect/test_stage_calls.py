"""Calls through fronts and protected primaries: hosts of primaries die, and a tap counts what each one's users hear."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from captured_calls import count_messages
from counting_guest import PATIENT_TIMING
from media_tap import Datagram, MediaTap
from two_hosts import laboratory_or_skip

from stealtime.hosts.client import LaboratoryClient
from stealtime.hosts.namespace_testbed import NamespaceTestbed
from stealtime.studies.telephony.calls.fronted import stage_plan
from stealtime.studies.telephony.calls.stage_results import TwoStageCallFailover
from stealtime.studies.telephony.calls.stage_trials import fail_over_stage_calls
from stealtime.studies.telephony.loads import TwoStageCallFailoverParameters
from stealtime.studies.telephony.parameters import PrimaryVictim
from stealtime.studies.telephony.place.fronts import FIRST_STAGE_NODES, laboratory_fronts
from stealtime.studies.telephony.place.two_stage import TwoStagePlace, standby_numbers
from stealtime.studies.telephony.sipp.program import widen_ports

pytestmark = [
    pytest.mark.protect,
    pytest.mark.alone,
    pytest.mark.truth,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]

_PLAN = stage_plan(16)
_BEFORE_S = 0.5
_PRIMARIES, _STANDBYS = ("a", "c"), ("b", "d")


@pytest.fixture(scope="module")
def place() -> Iterator[TwoStagePlace]:
    """Two primaries, each with a standby of its own (n x m)."""
    with laboratory_or_skip((*_PRIMARIES, *_STANDBYS), FIRST_STAGE_NODES) as laboratory:
        widen_ports(LaboratoryClient(laboratory))
        testbed = NamespaceTestbed(laboratory)
        fronts = laboratory_fronts(laboratory, testbed.client)
        standbys = standby_numbers(len(_PRIMARIES), len(_STANDBYS))
        made = TwoStagePlace(
            testbed, fronts, "stages", "net+bypass", primaries=2, standbys=standbys, timing=PATIENT_TIMING
        )
        made.start()
        made.await_ready()
        yield made
        made.stop()


def test_only_users_of_the_killed_primary_hear_nothing(place: TwoStagePlace, tmp_path: Path) -> None:
    first, second = place.guests
    before = place.await_protected()
    seen = _lost_and_counted(place, "primary", tmp_path)
    assert (seen.host, seen.survived) == ("a", "b")
    # The other primary is the same process where it was, protected by its own standby all the time.
    assert [member.host for member in first.running_members()] == ["b"]
    (untouched,) = second.running_members()
    assert (untouched.host, untouched.pid) == ("c", before[1].pid)
    assert second.states_since(before[1], seen.fault_ns) == []
    killed, other = seen.calls
    assert killed.lost > other.lost


def test_each_primary_is_taken_over_by_its_own_standby(place: TwoStagePlace, tmp_path: Path) -> None:
    seen = _lost_and_counted(place, "all-primaries", tmp_path)
    assert (seen.host, seen.survived) == ("a, c", "b, d")
    assert [one.runs_on for one in seen.users] == ["b", "d"]
    assert min(one.lost for one in seen.calls) > 0
    assert seen.others == []


def _lost_and_counted(place: TwoStagePlace, victim: PrimaryVictim, folder: Path) -> TwoStageCallFailover:
    """Lose hosts under calls; see that nothing was lost but voice, and that a tap counted the same of each primary."""
    wanted = TwoStageCallFailoverParameters(mode="net+bypass", primaries=2, streams=2 * _PLAN.calls, victim=victim)
    with MediaTap(place.testbed.laboratory) as tap:  # type: ignore[attr-defined]
        seen = fail_over_stage_calls(place, wanted, _PLAN, _BEFORE_S, folder)
    datagrams = tap.datagrams()
    assert (seen.dialogues.answered, seen.dialogues.ended) == (_PLAN.calls, _PLAN.calls)
    assert [(one.host, one.standby, one.kept) for one in seen.calls] == [
        (home, standby, one.calls) for home, standby, one in zip(_PRIMARIES, _STANDBYS, seen.calls, strict=True)
    ]
    assert sum(one.calls for one in seen.calls) == _PLAN.calls
    assert sum(seen.fronts.values()) == _PLAN.calls
    assert (seen.registrations.acknowledged, seen.registrations.lost) == (seen.registrations.sent, 0)
    assert sum(one.users for one in seen.users) == seen.registrations.acknowledged
    for guest, one in zip(place.guests, seen.calls, strict=True):
        assert _captured(datagrams, guest.ip_address) == (one.calls, one.sent, one.received), guest.home
    # From the caller to its front, from that to the primary, and from it to the phone: the first and the last are here.
    invited, _ = count_messages(datagrams, "INVITE")
    assert invited == 2 * _PLAN.calls
    return seen


def _captured(datagrams: Sequence[Datagram], relay: str) -> tuple[int, int, int]:
    """Count the calls that a relay has, the different packets that their ends said, and those that came from it."""
    voice = [(one, one.mark) for one in datagrams if one.mark is not None]
    came = {
        (one.destination_port in _PLAN.phones, mark.stream, mark.index) for one, mark in voice if one.source == relay
    }
    calls = {stream for _, stream, _ in came}
    said = {
        (one.source_port in _PLAN.caller_ports, mark.stream, mark.index)
        for one, mark in voice
        if one.source_port in (*_PLAN.caller_ports, *_PLAN.phones) and mark.stream in calls
    }
    return len(calls), len(said), len(came)
