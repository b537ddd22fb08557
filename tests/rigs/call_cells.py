"""Made-up cells of calls of the study ``telephony``, whose figures are known."""

from typing import Any

from telephony_cells import GUEST, MS, cell_of

from stealtime.studies.telephony.calls.results import (
    CallFailover,
    Calls,
    Dialogues,
    Moment,
    RegistrationsMeanwhile,
    StreamVoice,
    Voice,
    spread_of,
)
from stealtime.studies.telephony.calls.stage_results import PrimaryCalls, TwoStageCallFailover
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.results import PrimaryUsers


def call_cells() -> list[TelephonyFigures]:
    """Loads of 10 and 100 streams, unprotected and protected, and a failover."""
    cells = [
        cell_of(GUEST, "call", {**mode, "streams": streams}, [_calls(streams, delay_ns * number) for number in (1, 2)])
        for mode, delay_ns in (
            ({"mode": "off"}, 0.2e6),
            ({"mode": "net", "interval_ns": 100 * MS}, 55e6),
            ({"mode": "net+bypass", "interval_ns": 100 * MS}, 0.4e6),
        )
        for streams in (10, 100)
    ]
    failover = {"mode": "net+bypass", "interval_ns": 100 * MS, "streams": 10}
    return [*cells, cell_of(GUEST, "call-failover", failover, [_failover(), _failover()])]


def stage_call_failover() -> TwoStageCallFailover:
    """Ten calls of two primaries: those of the first, whose host dies, hear nothing for 300 ms around the fault."""
    fault_ns = 1_000 * MS

    def calls(host: str, lost: int, silence_ns: int, began_ns: int) -> PrimaryCalls:
        return PrimaryCalls(
            host=host, standby="b", calls=5, kept=5, streams_heard=10, streams_unended=0, sent=1_000,
            received=1_000 - lost, late=0, silence_ns=silence_ns, silence_began_ns=began_ns,
        )  # fmt: skip

    def users(host: str, silence_ns: int) -> PrimaryUsers:
        return PrimaryUsers(host=host, users=15, silence_before_ns=100 * MS, silence_ns=silence_ns, late=0)

    return TwoStageCallFailover(
        host="a", survived="b", fault_ns=fault_ns, running_ns=fault_ns + 133 * MS, lost_within_ns=0, seed=1,
        fronts={"front1": 6, "front2": 4}, dialogues=_dialogues(10), voice=_voice(20, 0.4e6),
        calls=[calls("a", 30, 300 * MS, fault_ns - 10 * MS), calls("c", 0, 22 * MS, 7)],
        registrations=RegistrationsMeanwhile(sent=30, acknowledged=30, lost=0),
        users=[users("a", 350 * MS), users("c", 120 * MS)],
    )  # fmt: skip


def call_results(streams: int) -> list[Calls]:
    """Give two trials of such a load."""
    return [_calls(streams, delay_ns) for delay_ns in (0.2e6, 0.4e6)]


def _voice(streams: int, delay_ns: float, **changed: Any) -> Voice:
    each = [
        StreamVoice(
            sent=1_000, received=1_000 - number % 4, late=0, reordered=0, delay_ns=None, jitter_ns=1e3,
            silence_ns=21 * MS, mos=4.36,
        )
        for number in range(streams)
    ]  # fmt: skip
    received = sum(one.received for one in each)
    return Voice.model_validate(
        {
            "streams": streams, "heard": streams, "sent": 1_000 * streams, "refused": 0, "received": received,
            "duplicated": 0, "reordered": 0, "late": 0, "delay_ns": spread_of([delay_ns / 2, delay_ns, 2 * delay_ns]),
            "jitter_ns": 1e3, "silence_ns": 21 * MS, "silence_began_ns": 7, "sender_late_p99_ns": 100, "each": each,
            "invalid": [], "limits": [], **changed,
        }
    )  # fmt: skip


def _dialogues(calls: int) -> Dialogues:
    return Dialogues(
        begun=calls, answered=calls, ended=calls, retransmissions=0, callee_retransmissions=0, failed=0,
        answer_ns=spread_of([1e6, 3e6]), end_ns=None,
    )  # fmt: skip


def _calls(streams: int, delay_ns: float) -> Calls:
    return Calls(
        dialogues=_dialogues(streams // 2), voice=_voice(streams, delay_ns), server_cpu_ns=5, host_cpu_ns=10,
        elapsed_ns=100,
    )  # fmt: skip


def _failover() -> CallFailover:
    """The voice is silent for 200 ms around the fault."""
    fault_ns = 1_000 * MS
    return CallFailover(
        dialogues=_dialogues(5),
        voice=_voice(10, 0.4e6, silence_ns=200 * MS, silence_began_ns=fault_ns - 10 * MS),
        registrations=RegistrationsMeanwhile(sent=30, acknowledged=30, lost=0),
        fault_ns=fault_ns,
        running_ns=fault_ns + 133 * MS,
        moments=[
            Moment(what="killed", at_ns=fault_ns),
            Moment(what="the standby takes over", at_ns=fault_ns + 124 * MS),
            Moment(what="runs", at_ns=fault_ns + 133 * MS),
        ],
    )
