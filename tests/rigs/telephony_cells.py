"""Made-up cells of the study ``telephony``, whose figures are known."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from stealtime.store.model import Cell, Failure, TrialRecord
from stealtime.store.results import Result
from stealtime.store.run import Trial
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.results import (
    AnswersOverTime,
    FrontLost,
    PrimaryAdded,
    PrimaryUsers,
    RateAttempt,
    RegistrationFailover,
    RegistrationRate,
    Registrations,
    ResponseTimes,
    SessionFailover,
    TwoStageFailover,
    Unprotected,
)
from stealtime.studies.telephony.study import STUDY

MS = 1_000_000
GUEST = "qemu-tcg-paravirt"


def cell_of(
    platform: str,
    probe: str,
    parameters: Mapping[str, Any],
    results: Sequence[Result],
    *,
    failure: str | None = None,
) -> TelephonyFigures:
    """Summarize results as those of the repetitions of a cell; with a failure, of one more that failed so."""
    cell = Cell(platform=platform, scenario="telephony", probe=probe, parameters=dict(parameters), traced=False)
    records = [_record(cell, number, state="measured", result=one) for number, one in enumerate(results, start=1)]
    if failure is not None:
        records.append(_record(cell, len(records) + 1, state="failed", failure=Failure(message=failure)))
    figures = STUDY.summarize_cell([Trial(Path("nowhere"), record) for record in records])
    assert isinstance(figures, TelephonyFigures)
    return figures


def _record(cell: Cell, repetition: int, **what: Any) -> TrialRecord:
    return TrialRecord(
        cell=cell,
        repetition=repetition,
        host="local",
        started_at=datetime(2026, 11, 25, tzinfo=UTC),
        elapsed_s=1.0,
        **what,
    )


def registrations(rate_per_s: float = 200.0, **changes: Any) -> Registrations:
    """Everything is acknowledged; a registration costs the server 1 ms and the host side a quarter of that."""
    sent = round(2 * rate_per_s)
    values: dict[str, Any] = {
        "rate_per_s": rate_per_s, "offered_per_s": rate_per_s, "saturation_per_s": None, "elapsed_ns": 2_000 * MS,
        "sent": sent, "acknowledged": sent, "unanswered": 0, "retransmissions": 0, "connections_failed": 0,
        "response": ResponseTimes(
            min_ns=MS, q1_ns=2 * MS, median_ns=3 * MS, q3_ns=5 * MS, p99_ns=90 * MS, max_ns=100 * MS
        ),
        "server_cpu_ns": sent * MS, "host_cpu_ns": sent * MS // 4,
    }  # fmt: skip
    return Registrations(**{**values, **changes})


def failover(**changes: Any) -> RegistrationFailover:
    """Phones hear nothing for 200 ms, and nothing is lost."""
    values: dict[str, Any] = {
        "host": "a", "rate_per_s": 200.0, "users": 400, "sent": 400, "acknowledged": 400, "acknowledged_before": 200,
        "lost": 0, "lost_users": [], "unanswered": 0, "retransmissions": 20, "connections_failed": 0,
        "silence_ns": 200 * MS, "fault_to_detection_ns": 120 * MS, "fault_to_running_ns": 130 * MS,
        "fault_to_answer_ns": 190 * MS,
        "over_time": AnswersOverTime(
            step_ns=20 * MS, first_step_ns=-1_000 * MS, answers=[4] * 50 + [0] * 10 + [8] * 20 + [0] * 120
        ),
    }  # fmt: skip
    return RegistrationFailover(**{**values, **changes})


def session_failover(**changes: Any) -> SessionFailover:
    """Callers hear nothing for 200 ms, and all sessions are kept."""
    whole = failover()
    values: dict[str, Any] = {
        "host": "a", "rate_per_s": 200.0, "saturation_per_s": None, "begun": 400, "kept": 400, "answered_late": 0,
        "never_answered": 0, "half_open": 0, "bye_refused": 0, "bye_unanswered": 0, "relay_ports": 800,
        "leaked_ports": 0, "retransmissions": 9, "connections_lost": 0, "silence_ns": whole.silence_ns,
        "fault_to_detection_ns": whole.fault_to_detection_ns, "fault_to_running_ns": whole.fault_to_running_ns,
        "fault_to_answer_ns": whole.fault_to_answer_ns, "over_time": whole.over_time,
    }  # fmt: skip
    return SessionFailover(**{**values, **changes})


def two_stage_failover(**changes: Any) -> TwoStageFailover:
    """The users of one primary hear nothing for 200 ms, those of the others for as long as before; nothing is lost."""
    whole = failover()
    values: dict[str, Any] = {
        "host": "a", "rate_per_s": 200.0, "seed": 7, "fronts": {"front1": 220, "front2": 180}, "sent": 400,
        "acknowledged": 400, "lost": 0, "lost_users": [], "unanswered": 0, "retransmissions": 20,
        "connections_failed": 0,
        "primaries": [
            PrimaryUsers(host="a", users=100, silence_before_ns=90 * MS, silence_ns=200 * MS, late=9),
            PrimaryUsers(host="c", users=180, silence_before_ns=95 * MS, silence_ns=93 * MS, late=1),
            PrimaryUsers(host="d", users=120, silence_before_ns=80 * MS, silence_ns=96 * MS, late=2),
        ],
        "added": PrimaryAdded(
            host="d", acknowledged=300, unanswered=0, lost=0, lost_users=[], before=240, moved=80,
            boot_to_ready_ns=9_000 * MS, ready_to_dealt_ns=1_300 * MS,
        ),
        "fault_to_detection_ns": 120 * MS, "fault_to_running_ns": 130 * MS, "fault_to_answer_ns": 190 * MS,
        "over_time": whole.over_time, "others_over_time": whole.over_time.model_copy(update={"answers": [4] * 200}),
    }  # fmt: skip
    return TwoStageFailover(**{**values, **changes})


def standby_loss(**changes: Any) -> RegistrationFailover:
    """Phones hear nothing for 150 ms, while the server looks after its standby; it has none for 900 ms."""
    values: dict[str, Any] = {
        "victim": "standby", "host": "b", "silence_ns": 150 * MS, "silence_before_ns": 104 * MS,
        "longest_ns": 190 * MS, "fault_to_detection_ns": None, "fault_to_running_ns": None,
        "fault_to_answer_ns": 40 * MS,
        "unprotected": Unprotected(
            fault_to_noticed_ns=2 * MS, fault_to_alone_ns=20 * MS, fault_to_protected_ns=900 * MS,
            fault_to_back_ns=None,
        ),
    }  # fmt: skip
    return failover(**{**values, **changes})


def front_loss(**changes: Any) -> TwoStageFailover:
    """Of the 220 phones of a front 110 turn, the last of them after 560 ms; nobody is lost."""
    front = FrontLost(
        name="front1", timer_f_ns=32_000 * MS, phones=220, turned=110, undelivered=110, timed_out=0,
        longest_wait_ns=560 * MS, median_wait_ns=60 * MS, silence_ns=120 * MS, others_silence_ns=105 * MS,
        others_silence_before_ns=103 * MS, offered_per_s=199.0,
    )  # fmt: skip
    values: dict[str, Any] = {
        "victim": "front", "host": "front1", "front": front, "fault_to_detection_ns": None,
        "fault_to_running_ns": None, "fault_to_answer_ns": 50 * MS,
    }  # fmt: skip
    return two_stage_failover(**{**values, **changes})


def rate(rate_per_s: float, *, is_bounded: bool = True) -> RegistrationRate:
    """One attempt, which was borne."""
    attempt = RateAttempt(
        rate_per_s=rate_per_s,
        duration_s=1.0,
        offered_per_s=rate_per_s,
        sent=100,
        acknowledged=100,
        retransmissions=0,
        failure=None,
    )
    return RegistrationRate(rate_per_s=rate_per_s, is_bounded=is_bounded, attempts=[attempt])


def some_cells() -> list[TelephonyFigures]:
    """Cells of every probe, natively and in guests."""
    net: dict[str, JsonValue] = {"mode": "net", "interval_ns": 100 * MS, "transport": "udp"}
    off: dict[str, JsonValue] = {"mode": "off", "transport": "udp"}
    return [
        cell_of("native", "registration-rate", off, [rate(12_800)]),
        cell_of("native", "register", {**off, "share": 0.5}, [registrations(6_400, host_cpu_ns=None)]),
        cell_of(GUEST, "register", {**off, "share": 0.5}, [registrations(1_200)]),
        cell_of(GUEST, "register", {**net, "share": 0.1}, [registrations(240)]),
        cell_of(GUEST, "register", {**net, "share": 0.5}, [registrations(1_200)]),
        cell_of(GUEST, "register-failover", {**net, "rate_per_s": 200}, [failover()]),
        cell_of(GUEST, "register-failover", {**net, "mode": "no-net", "rate_per_s": 200}, [
            failover(
                lost=6, lost_users=["phone9-000197"], silence_ns=None, fault_to_answer_ns=None, unanswered=40,
            )
        ]),
        cell_of(GUEST, "register-failover", {**net, "victim": "standby", "rate_per_s": 200}, [standby_loss()]),
        cell_of(GUEST, "two-stage-failover", {**net, "primaries": 3, "victim": "front", "rate_per_s": 200}, [
            front_loss()
        ]),
        cell_of(GUEST, "two-stage-failover", {**net, "primaries": 3, "rate_per_s": 200}, [two_stage_failover()]),
    ]  # fmt: skip
