"""Signalling and media on a host each: which cells there are, what they need, and how they are told."""

from typing import Any

import pytest
from call_cells import _dialogues, _failover, _voice
from pydantic import ValidationError
from telephony_cells import GUEST, MS, cell_of

from stealtime.hosts.host import CpuTimes
from stealtime.lab.scenarios.real_hosts import RealHosts
from stealtime.report import notation
from stealtime.report.answer import Quotes
from stealtime.report.catalogue.rows import tables_of
from stealtime.studies.telephony.answer import _died
from stealtime.studies.telephony.calls.measuring import hosts_of
from stealtime.studies.telephony.calls.results import CallFailover, Calls, HostOfCalls
from stealtime.studies.telephony.driver import refuse_few_hosts
from stealtime.studies.telephony.limits import limits
from stealtime.studies.telephony.parameters import ServerParameters
from stealtime.studies.telephony.place.model import HostUse
from stealtime.studies.telephony.probes import CallFailoverCells, SessionFailoverCells
from stealtime.studies.telephony.study import STUDY
from stealtime.vocabulary.errors import UsageError

HOSTS = {"mode": "net+bypass", "interval_ns": 100 * MS, "roles": "hosts"}


def cells(**changed: Any) -> CallFailoverCells:
    return CallFailoverCells.model_validate({"probe": "call-failover", "duration": "1s", **changed})


def test_a_side_is_lost_alone_where_it_has_a_host_of_its_own() -> None:
    asked = cells(roles=["together", "apart", "hosts"], victim=["primary", "signalling", "media"], mode=["net"])
    found = [(one.stored.get("roles"), one.stored.get("victim")) for one in asked.parameter_sets()]
    assert found == [
        (None, None), ("apart", None), ("hosts", None), ("hosts", "signalling"), ("hosts", "media"),
    ]  # fmt: skip
    with pytest.raises(ValidationError, match="the victim 'media' has a host of its own with the roles 'hosts' only"):
        cells(roles=["apart"], victim=["media"])
    with pytest.raises(ValidationError, match=r"the mode 'net\+no-net' needs the roles 'apart' or 'hosts'"):
        cells(mode=["net+no-net"])
    assert [one.stored["roles"] for one in cells(mode=["net+no-net"], roles=["hosts"]).parameter_sets()] == ["hosts"]


def test_what_was_valid_for_sessions_still_is_and_a_side_is_new() -> None:
    def sessions(**changed: Any) -> list[dict[str, Any]]:
        table = {"probe": "session-failover", "duration": "1s", "rate": [10], **changed}
        return [one.stored for one in SessionFailoverCells.model_validate(table).parameter_sets()]

    (usual,) = sessions()
    assert "roles" not in usual
    assert [one["victim"] for one in sessions(victim=["standby"])] == ["standby"]
    (side,) = sessions(roles=["hosts"], victim=["signalling"])
    assert (side["roles"], side["victim"]) == ("hosts", "signalling")
    with pytest.raises(ValidationError, match="the victim 'signalling' has a host of its own"):
        sessions(victim=["signalling"])


@pytest.mark.parametrize(
    ("server", "needed"),
    [
        (ServerParameters(mode="net"), 2),
        (ServerParameters(mode="net", roles="apart"), 2),
        (ServerParameters(mode="net", roles="hosts"), 3),
        (ServerParameters(mode="net", primaries=2), 3),
        (ServerParameters(mode="net", primaries=3), 4),
    ],
)
def test_a_scenario_with_too_few_hosts_is_refused_before_any_is_asked(server: ServerParameters, needed: int) -> None:
    terms = RealHosts(standby="ssh:b", guest="10.0.0.100/24", more_hosts=tuple(f"ssh:m{n}" for n in range(needed - 2)))
    assert server.hosts_needed == needed
    refuse_few_hosts([server], terms)
    if needed > 2:
        fewer = terms.model_copy(update={"more_hosts": terms.more_hosts[1:]})
        with pytest.raises(UsageError, match=f"need {needed} hosts, and the scenario names {needed - 1}"):
            refuse_few_hosts([ServerParameters(mode="net"), server], fewer)


def test_a_host_that_came_or_went_meanwhile_has_no_time() -> None:
    before = {"a": HostUse(("signalling",), CpuTimes(5, 2)), "b": HostUse((), CpuTimes(0, 1))}
    after = {"a": HostUse((), CpuTimes(25, 9)), "c": HostUse(("media",), CpuTimes(4, 4))}
    assert hosts_of(before, after) == [HostOfCalls(host="a", runs=["signalling"], guests_ns=20, side_ns=7)]


def _calls(hosts: list[HostOfCalls]) -> Calls:
    return Calls(
        dialogues=_dialogues(5), voice=_voice(10, 1e6), server_cpu_ns=50, host_cpu_ns=20, elapsed_ns=100, hosts=hosts
    )


def test_each_host_is_told_by_what_runs_there() -> None:
    names = ("signalling_host_percent", "signalling_guests_percent", "media_host_percent", "media_guest_percent")

    def figures(hosts: list[HostOfCalls]) -> list[float | None]:
        cell = cell_of(GUEST, "call", {**HOSTS, "streams": 10}, [_calls(hosts)])
        return [cell.figure(name).p50 for name in (*names, "standby_host_percent")]

    own = [
        HostOfCalls(host="a", runs=["signalling"], guests_ns=30, side_ns=11),
        HostOfCalls(host="b", runs=[], guests_ns=0, side_ns=2),
        HostOfCalls(host="c", runs=["media"], guests_ns=20, side_ns=7),
    ]
    assert figures(own) == [11, 30, 7, 20, 2]
    # Both on one host: that is told once.
    shared = [HostOfCalls(host="a", runs=["signalling", "media"], guests_ns=50, side_ns=18), own[1]]
    assert figures(shared) == [18, 50, None, None, 2]
    assert figures([]) == [None] * 5


def _without_gap() -> CallFailover:
    """The host of signalling died, and voice was never silent for longer than between two packets."""
    failover = _failover()
    quiet = failover.voice.model_copy(update={"silence_ns": 21 * MS, "silence_began_ns": 7})
    registrations = failover.registrations.model_copy(update={"silence_ns": 300 * MS, "silence_before_ns": 100 * MS})
    return failover.model_copy(update={"voice": quiet, "victim": "signalling", "registrations": registrations})


def test_voice_that_went_on_is_no_unknown_gap_where_signalling_died() -> None:
    seen = _without_gap()
    assert limits([seen]) == []
    assert any(
        "the longest silence was not at the fault" in one
        for one in limits([seen.model_copy(update={"victim": "media"})])
    )
    cell = cell_of(GUEST, "call-failover", {**HOSTS, "streams": 10, "victim": "signalling"}, [seen])
    said = _died(Quotes(), [cell])
    assert said.startswith("Host of signalling lost (")
    assert "media on another host, signalling's host" in said
    assert "voice went on (its longest silence was 21.0 ms), no phone was answered for 300 ms" in said
    (row,) = [row for table in tables_of(STUDY, [cell]) if "the voice" in table.title for row in table.rows]
    assert row[1:3] == (notation.ABSENT, "21.0 ms")
