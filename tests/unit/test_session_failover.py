"""Sessions whose server dies: what became of each, by what both ends wrote down, and which ports stay open."""

import socket

import pytest
from pydantic import ValidationError
from telephony_cells import GUEST, MS, cell_of, session_failover

from stealtime.hosts.client import LocalClient
from stealtime.report.catalogue.rows import tables_of
from stealtime.studies.telephony.answer import _FAILOVERS
from stealtime.studies.telephony.calls import relay_ports
from stealtime.studies.telephony.calls.outcomes import Outcome, sessions_of
from stealtime.studies.telephony.calls.relay_ports import open_ports
from stealtime.studies.telephony.catalogue import CATALOGUE
from stealtime.studies.telephony.limits import limits
from stealtime.studies.telephony.loads import CallFailoverParameters
from stealtime.studies.telephony.probes import CallFailoverCells, SessionFailoverCells
from stealtime.studies.telephony.results import Unprotected
from stealtime.studies.telephony.sipp.log import LoggedMessage
from stealtime.studies.telephony.study import STUDY

RELAY = "10.77.1.100:30000"


def _line(kind: str, at_ns: int = 0, status: str = "-") -> LoggedMessage:
    return LoggedMessage(kind, "1-77@c", status, at_ns)


@pytest.mark.parametrize(
    ("callers", "phones", "outcome"),
    [
        ([_line("sent"), _line("answered", 9 * MS, RELAY), _line("ended", 20 * MS)], ["invited", "left"], "kept"),
        (
            [_line("sent"), _line("answered", 501 * MS, RELAY), _line("ended", 520 * MS)],
            ["invited", "left"],
            "answered_late",
        ),
        # The phone has answered, and the server has lost its answer: one side believes.
        ([_line("sent")], ["invited"], "half_open"),
        ([_line("sent")], ["invited", "left"], "never_answered"),
        ([_line("sent")], [], "never_answered"),
        # Whatever its caller was told, a phone that saw no BYE believes that it talks.
        ([_line("sent"), _line("answered", MS, RELAY), _line("ended", 2 * MS)], ["invited"], "half_open"),
        ([_line("sent"), _line("answered", MS, RELAY), _line("refused", 2 * MS)], ["invited"], "half_open"),
        ([_line("sent"), _line("answered", MS, RELAY)], ["invited"], "half_open"),
        ([_line("sent"), _line("answered", MS, RELAY), _line("refused", 2 * MS)], ["invited", "left"], "bye_refused"),
        ([_line("sent"), _line("answered", MS, RELAY)], ["invited", "left"], "bye_unanswered"),
    ],
)
def test_every_session_has_one_outcome(callers: list[LoggedMessage], phones: list[str], outcome: Outcome) -> None:
    sessions = sessions_of(callers, [_line(kind, status="10.77.1.100:30002") for kind in phones])
    counts = sessions.counts()
    assert counts.pop(outcome) == 1
    assert set(counts.values()) == {0}
    told = {RELAY} if sessions.answered_ns else set()
    assert sessions.relays == told | ({"10.77.1.100:30002"} if "invited" in phones else set())


def test_a_replicated_server_is_killed_and_nothing_else() -> None:
    cells = CallFailoverCells.model_validate(
        {
            "probe": "call-failover",
            "duration": "1s",
            "mode": ["net", "replicated"],
            "fault": ["killed", "silent", "planned"],
        }
    )
    found = {(one.mode, one.fault) for one in cells.parameter_sets() if isinstance(one, CallFailoverParameters)}
    assert found == {("net", "killed"), ("net", "silent"), ("net", "planned"), ("replicated", "killed")}
    with pytest.raises(ValidationError, match="the mode 'replicated' has the fault 'killed' only, not 'planned'"):
        CallFailoverCells.model_validate(
            {"probe": "call-failover", "duration": "1s", "mode": ["replicated"], "fault": ["planned"]}
        )


def test_a_port_is_open_where_nothing_refuses_what_is_sent_there() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken, socket.socket(type=socket.SOCK_DGRAM) as freed:
        taken.bind(("127.0.9.3", 0))
        freed.bind(("127.0.9.3", 0))
        left_open = f"127.0.9.3:{taken.getsockname()[1]}"
        closed = f"127.0.9.3:{freed.getsockname()[1]}"
        freed.close()
        assert open_ports(LocalClient("127.0.9.3"), {left_open, closed}) == [left_open]


def test_ports_are_not_judged_where_closed_ones_do_not_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as taken, socket.socket(type=socket.SOCK_DGRAM) as silent:
        taken.bind(("127.0.9.4", 0))
        silent.bind(("127.0.9.4", 0))
        # As behind a firewall that drops refusals.
        monkeypatch.setattr(relay_ports, "_CLOSED", [silent.getsockname()[1]])
        assert open_ports(LocalClient("127.0.9.4"), {f"127.0.9.4:{taken.getsockname()[1]}"}) is None


def test_what_was_left_half_open_is_told_and_counted() -> None:
    probe = CATALOGUE.probes["session-failover"]
    fine, harmed = session_failover(), session_failover(kept=380, half_open=15, never_answered=5, leaked_ports=30)
    assert probe.value("sessions_kept_percent", fine) == 100
    assert probe.value("sessions_kept_percent", harmed) == 95
    assert limits([fine]) == []
    told = limits([fine, harmed])
    assert told[0].startswith("15 of 800 sessions are half open in 1 of 2 failovers: the phone believes")
    assert told[1].startswith("30 of 1600 ports of the relay are still open in 1 of 2 failovers")
    (unjudged,) = limits([session_failover(leaked_ports=None)])
    assert unjudged.startswith("which ports the relay leaves open is not judged: ")
    assert probe.value("leaked_ports", session_failover(leaked_ports=None)) is None
    assert "session-failover" in _FAILOVERS


def test_sessions_of_a_server_that_lost_its_standby_are_told_apart() -> None:
    lapse = Unprotected(
        fault_to_noticed_ns=MS, fault_to_alone_ns=9 * MS, fault_to_protected_ns=700 * MS, fault_to_back_ns=None
    )
    lost = session_failover(victim="standby", unprotected=lapse, fault_to_detection_ns=None, fault_to_running_ns=None)
    parameters = {"mode": "net", "interval_ns": 100 * MS, "rate_per_s": 200}
    cells = [
        cell_of(GUEST, "session-failover", parameters, [session_failover()]),
        cell_of(GUEST, "session-failover", {**parameters, "victim": "standby"}, [lost]),
    ]
    tables = {one.title: [row[0] for row in one.rows] for one in tables_of(STUDY, cells)}
    died, backed = tables.values()
    assert [len(died), len(backed)] == [1, 1]
    assert backed == [f"{GUEST} net every 100ms, its standby, 200/s (1x)"]
    assert cells[1].figure("unprotected_ns").p50 == 700 * MS
    sets = SessionFailoverCells.model_validate(
        {
            "probe": "session-failover",
            "duration": "1s",
            "victim": ["primary", "standby"],
            "fault": ["killed", "planned"],
        }
    ).parameter_sets()
    assert [(one.stored.get("victim"), one.stored.get("fault")) for one in sets] == [
        (None, None), ("standby", None), (None, "planned"),
    ]  # fmt: skip
