"""Which figures each probe of this study has, how they follow from a result, how they are called and where they stand.

A figure's unit is in its name. A probe of its own kind of result is added here, in ``results`` and in ``trials``.
"""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from stealtime.hosts.checkpoint_figures import checkpoint_figures
from stealtime.report.catalogue.model import Catalogue, Figure, FigureTable, ProbeFigures, counts
from stealtime.studies.telephony.calls.declared import (
    CPU_OF_HOSTS,
    OF_HOSTS,
    OF_STREAMS,
    OF_TRANSCODING,
    TRANSCODED,
    WITHOUT_STANDBY,
)
from stealtime.studies.telephony.calls.results import CallFailover, Calls, Direction, Spread, Towards
from stealtime.studies.telephony.calls.stage_figures import STAGE_CALLS, STAGE_TABLES
from stealtime.studies.telephony.cost import catalogue as cost
from stealtime.studies.telephony.results import (
    RegistrationFailover,
    RegistrationRate,
    Registrations,
    SessionFailover,
    SessionRate,
    TwoStageFailover,
)


def _share(part: Callable[[Any], float | None], whole: Callable[[Any], float]) -> Callable[[Any], float | None]:
    def take(result: Any) -> float | None:
        value, total = part(result), whole(result)
        return None if value is None or not total else value / total

    return take


def _response(name: str) -> Callable[[Any], float | None]:
    return lambda result: None if result.response is None else float(getattr(result.response, name))


def _delay(name: str) -> Callable[[Any], float | None]:
    def take(result: Any) -> float | None:
        spread: Spread | None = result.voice.delay_ns
        return None if spread is None else float(getattr(spread, name))

    return take


def _towards(who: Towards, take: Callable[[Direction], float | None]) -> Callable[[Any], float | None]:
    """Take a figure of one direction; None of a run from before phones spoke."""

    def taken(result: Any) -> float | None:
        one = next((one for one in result.voice.directions if one.towards == who), None)
        return None if one is None else take(one)

    return taken


def _loss_percent(direction: Direction) -> float | None:
    return 100.0 * direction.lost / direction.sent if direction.sent else None


def _median(direction: Direction) -> float | None:
    return None if direction.delay_ns is None else direction.delay_ns.median


def _unprotected(name: str) -> Callable[[Any], float | None]:
    """Take a time of a server that lost its standby; None of one that did not."""
    return lambda result: None if result.unprotected is None else getattr(result.unprotected, name)


def _front(name: str) -> Callable[[Any], float | None]:
    """Take a figure of a front that was lost; None where none was."""
    return lambda result: None if result.front is None else getattr(result.front, name)


def _victim(*victims: str) -> Callable[[Any], bool]:
    """Tell of a cell whether one of these is what is lost; that of a host is told by leaving it out."""
    return lambda cell: cell.parameters.get("victim", "primary") in victims


def _to_running(result: Any) -> float | None:
    """Take the time until the guest ran again; None where it ran on."""
    return None if result.running_ns is None else float(result.running_ns - result.fault_ns)


def _setup(result: Any) -> float | None:
    spread: Spread | None = result.dialogues.answer_ns
    return None if spread is None else spread.median


_CPU = {
    "server_cpu_percent": Figure(
        "server", _share(lambda result: 100.0 * result.server_cpu_ns, lambda result: result.elapsed_ns)
    ),
    "host_cpu_percent": Figure(
        "host side",
        _share(
            lambda result: None if result.host_cpu_ns is None else 100.0 * result.host_cpu_ns,
            lambda result: result.elapsed_ns,
        ),
    ),
}
"""Of one CPU."""


def _evidence(name: str) -> Callable[[Any], float | None]:
    """Take what was seen of a load, or of the last try of a rate that was searched; None of an older run."""

    def take(result: Any) -> float | None:
        tried = result.attempts[-1:] if hasattr(result, "attempts") else [result]
        limit = tried[0].limit if tried else None
        value: float | None = None if limit is None else getattr(limit.evidence, name)
        return value

    return take


_GENERATORS = {
    "generator_cpu_percent": Figure("SIPp's CPU", _evidence("cpu_percent")),
    "generator_waiting_percent": Figure("waited for a CPU", _evidence("waiting_percent")),
    "sent_late_p99_ns": Figure("99 % sent within", _evidence("late_p99_ns")),
    "sent_late_max_ns": Figure("all sent within", _evidence("late_max_ns")),
    "server_busy_percent": Figure("server's CPUs", _evidence("server_cpu_percent")),
    "late_timers": Figure("late timers", _evidence("late_timers")),
    "datagrams_dropped": Figure("datagrams dropped", _evidence("datagrams_dropped")),
    "segments_sent_again": Figure("segments sent again", _evidence("segments_sent_again")),
    "frames_dropped": Figure("frames dropped", _evidence("frames_dropped")),
}
"""Of those that offered a load, and of what is around them."""
_COST_OF_PROTECTION = ("pause_p50_ns", "pause_p99_ns", "epochs_per_s", "epoch_bytes", "epoch_pages")
_CHECKPOINTS = checkpoint_figures(*_COST_OF_PROTECTION)
"""What protection itself tells."""
_WITHOUT_STANDBY = {
    "fault_to_alone_ns": Figure("to alone", _unprotected("fault_to_alone_ns")),
    "unprotected_ns": Figure("unprotected for", _unprotected("fault_to_protected_ns")),
    "back_to_protected_ns": Figure("host back to protected", _unprotected("back_to_protected_ns")),
}
_SILENCE = Figure("silence")
_TO_RUNNING = Figure("to running")
_TO_ANSWER = Figure("to answer")
_REGISTRATIONS_KEPT = Figure(
    "registrations kept",
    _share(lambda result: 100.0 * (result.acknowledged - result.lost), lambda result: result.acknowledged),
)
_LOSS = Figure("voice lost", lambda result: 100.0 * result.voice.lost_share)
_MOS = Figure(
    "MOS", lambda result: median(result.voice.mos) if result.voice.mos else None, write=lambda mos: f"{mos:.2f}"
)
_CALLS_KEPT = Figure(
    "calls kept", _share(lambda result: 100.0 * result.dialogues.kept, lambda result: result.dialogues.answered)
)
_REGISTRATION_COUNTS = (
    "sent",
    "acknowledged",
    "lost",
    "unanswered",
    "retransmissions",
    "connections_failed",
    "retries",
)
_CALL_COUNTS = counts(
    begun=lambda result: result.dialogues.begun,
    answered=lambda result: result.dialogues.answered,
    ended=lambda result: result.dialogues.ended,
    ended_anew=lambda result: result.dialogues.ended_anew,
    packets=lambda result: result.voice.sent,
    packets_lost=lambda result: result.voice.lost,
    packets_late=lambda result: result.voice.late,
    packets_reordered=lambda result: result.voice.reordered,
    retransmissions=lambda result: result.dialogues.retransmissions + result.dialogues.callee_retransmissions,
    connections_lost=lambda result: result.dialogues.connections_lost,
)


def _voice_invalid(result: Any) -> Sequence[str]:
    invalid: Sequence[str] = result.voice.invalid
    return invalid


CATALOGUE = Catalogue(
    title="Telephony",
    question=(
        "What does a SIP server carry natively, in a guest and protected, and what do phones notice when its host dies?"
    ),
    probes={
        "registration-rate": ProbeFigures(
            RegistrationRate,
            {"rate_per_s": Figure("registration rate"), **counts("retries"), **_GENERATORS},
        ),
        "session-rate": ProbeFigures(
            SessionRate,
            {
                "sessions_per_s": Figure("session establishment rate", lambda result: result.rate_per_s),
                **counts("retries"),
                **_GENERATORS,
            },
        ),
        "register": ProbeFigures(
            Registrations,
            {
                "offered_per_s": Figure("offered"),
                "kept_percent": Figure(
                    "acknowledged", _share(lambda result: 100.0 * result.acknowledged, lambda result: result.sent)
                ),
                "median_ns": Figure("median", _response("median_ns")),
                "p99_ns": Figure("99 %", _response("p99_ns")),
                **_CPU,
                "server_cpu_each_ns": Figure(
                    "server, each", _share(lambda result: result.server_cpu_ns, lambda result: result.acknowledged)
                ),
                "host_cpu_each_ns": Figure(
                    "host side, each", _share(lambda result: result.host_cpu_ns, lambda result: result.acknowledged)
                ),
                **_CHECKPOINTS,
                **cost.STANDBY,
                **cost.WORK,
                **counts("sent", "acknowledged", "unanswered", "retransmissions", "connections_failed", "retries"),
                **_GENERATORS,
            },
        ),
        "register-failover": ProbeFigures(
            RegistrationFailover,
            {
                "silence_ns": _SILENCE,
                "silence_before_ns": Figure("silence before"),
                "longest_ns": Figure("longest registration"),
                "fault_to_detection_ns": Figure("to detection"),
                "fault_to_running_ns": _TO_RUNNING,
                "fault_to_answer_ns": _TO_ANSWER,
                **_WITHOUT_STANDBY,
                "kept_percent": _REGISTRATIONS_KEPT,
                **counts(*_REGISTRATION_COUNTS, "lost_of_before"),
            },
        ),
        "session-failover": ProbeFigures(
            SessionFailover,
            {
                "silence_ns": _SILENCE,
                "fault_to_detection_ns": Figure("to detection"),
                "fault_to_running_ns": _TO_RUNNING,
                "fault_to_answer_ns": _TO_ANSWER,
                **_WITHOUT_STANDBY,
                "sessions_kept_percent": Figure(
                    "sessions kept",
                    _share(lambda result: 100.0 * (result.kept + result.answered_late), lambda result: result.begun),
                ),
                **counts("begun", "kept", "answered_late", "never_answered", "half_open"),
                "bye_refused": Figure("BYE refused", combine="sum"),
                "bye_unanswered": Figure("BYE unanswered", combine="sum"),
                "leaked_ports": Figure("leaked ports"),
                **counts("relay_ports", "retransmissions", "connections_lost", "retries"),
            },
        ),
        "two-stage-failover": ProbeFigures(
            TwoStageFailover,
            {
                "silence_ns": _SILENCE,
                "others_silence_ns": Figure("silence of the others"),
                "others_silence_before_ns": Figure("others' silence before"),
                "fault_to_running_ns": _TO_RUNNING,
                "fault_to_answer_ns": _TO_ANSWER,
                "kept_percent": _REGISTRATIONS_KEPT,
                "front_share_percent": Figure("busiest front", lambda result: 100.0 * result.front_share),
                "primary_share_percent": Figure("most at a primary", lambda result: 100.0 * result.primary_share),
                "boot_to_ready_ns": Figure("to ready", lambda result: result.added.boot_to_ready_ns),
                "ready_to_dealt_ns": Figure("fronts told in", lambda result: result.added.ready_to_dealt_ns),
                "longest_wait_ns": Figure("longest wait", _front("longest_wait_ns")),
                "median_wait_ns": Figure("median wait", _front("median_wait_ns")),
                **counts(
                    *_REGISTRATION_COUNTS,
                    late=lambda result: sum(one.late for one in result.died),
                    others_late=lambda result: sum(one.late for one in result.others),
                    phones_of_front=_front("phones"),
                    turned=_front("turned"),
                    undelivered=_front("undelivered"),
                    timed_out=_front("timed_out"),
                    registered_while_added=lambda result: result.added.acknowledged,
                    moved=lambda result: result.added.moved,
                    lost_while_added=lambda result: result.added.lost,
                ),
            },
        ),
        "two-stage-call-failover": STAGE_CALLS,
        "call": ProbeFigures(
            Calls,
            {
                "delay_min_ns": Figure("delay, min", _delay("min")),
                "delay_q1_ns": Figure("q1", _delay("q1")),
                "delay_median_ns": Figure("delay, median", _delay("median")),
                "delay_q3_ns": Figure("q3", _delay("q3")),
                "delay_max_ns": Figure("delay, max", _delay("max")),
                "loss_percent": _LOSS,
                "phones_delay_ns": Figure("delay to phones", _towards("phones", _median)),
                "callers_delay_ns": Figure("to callers", _towards("callers", _median)),
                "phones_loss_percent": Figure("lost to phones", _towards("phones", _loss_percent)),
                "callers_loss_percent": Figure("lost to callers", _towards("callers", _loss_percent)),
                "jitter_ns": Figure("jitter", lambda result: result.voice.jitter_ns),
                "voice_silence_ns": Figure("longest silence", lambda result: result.voice.silence_ns),
                "mos": _MOS,
                "setup_ns": Figure("INVITE to 200", _setup),
                **_CPU,
                **OF_HOSTS,
                **OF_STREAMS,
                **OF_TRANSCODING,
                **_CHECKPOINTS,
                **cost.STANDBY,
                **cost.WORK,
                **_CALL_COUNTS,
                **counts("retries"),
            },
            _voice_invalid,
        ),
        "call-failover": ProbeFigures(
            CallFailover,
            {
                "gap_ns": Figure("no voice"),
                "fault_to_running_ns": Figure("to running", _to_running),
                **_WITHOUT_STANDBY,
                "silence_ns": Figure("longest silence", lambda result: result.voice.silence_ns),
                "calls_kept_percent": _CALLS_KEPT,
                "loss_percent": _LOSS,
                "mos": _MOS,
                "longest_silence_ns": Figure("longest silence", lambda result: result.voice.silence_ns),
                "registrations_silence_ns": Figure(
                    "registrations' silence", lambda result: result.registrations.silence_ns
                ),
                "registrations_silence_before_ns": Figure(
                    "and before", lambda result: result.registrations.silence_before_ns
                ),
                **OF_TRANSCODING,
                **_CALL_COUNTS,
                **counts(
                    registrations_acknowledged=lambda result: result.registrations.acknowledged,
                    registrations_lost=lambda result: result.registrations.lost,
                ),
                **counts("retries"),
            },
            _voice_invalid,
        ),
    },
    tables=(
        FigureTable("The most registrations a second without a failure", ("rate_per_s",), short=("rate_per_s",)),
        FigureTable(
            "The most sessions a second without a failure, each established and ended",
            ("sessions_per_s",),
            short=("sessions_per_s",),
        ),
        FigureTable(
            "Phones that register",
            ("offered_per_s", "median_ns", "p99_ns", "kept_percent", "sent", "unanswered", "retransmissions"),
            short=("offered_per_s", "median_ns", "p99_ns", "kept_percent"),
        ),
        FigureTable(
            "What registrations cost",
            ("server_cpu_percent", "host_cpu_percent", "server_cpu_each_ns", "host_cpu_each_ns"),
        ),
        FigureTable(
            "What offered the load, and what was lost around it",
            (
                *("generator_cpu_percent", "generator_waiting_percent", "sent_late_p99_ns", "sent_late_max_ns"),
                *("late_timers", "datagrams_dropped", "frames_dropped", "server_busy_percent"),
            ),
            only_measured=True,
        ),
        FigureTable(
            "What protection costs while phones register, or calls are up",
            (*_COST_OF_PROTECTION, "server_cpu_percent", "host_cpu_percent"),
        ),
        *cost.TABLES,
        FigureTable(
            "When the server's host dies while phones register",
            (
                *("silence_ns", "fault_to_detection_ns", "fault_to_running_ns", "fault_to_answer_ns"),
                *("acknowledged", "lost", "unanswered", "retransmissions"),
            ),
            short=("silence_ns", "fault_to_running_ns", "acknowledged", "lost"),
            of=_victim("primary"),
        ),
        FigureTable(
            "When the host that backs the server is lost while phones register",
            (
                *("silence_ns", "silence_before_ns", "longest_ns", "fault_to_alone_ns", "unprotected_ns"),
                *("back_to_protected_ns", "acknowledged", "lost", "unanswered", "retransmissions"),
            ),
            short=("silence_ns", "longest_ns", "unprotected_ns", "lost"),
            of=_victim("standby"),
        ),
        FigureTable(
            "When the server's host dies while sessions are set up and ended: what became of them",
            (
                *("silence_ns", "fault_to_running_ns", "begun", "kept", "answered_late", "never_answered"),
                *("half_open", "bye_refused", "bye_unanswered", "leaked_ports"),
            ),
            short=("silence_ns", "begun", "kept", "never_answered", "half_open"),
            of=_victim("primary", "signalling", "media"),
        ),
        FigureTable(
            "When the host that backs the server is lost while sessions are set up and ended: what became of them",
            (
                *("silence_ns", "fault_to_alone_ns", "unprotected_ns", "back_to_protected_ns", "begun", "kept"),
                *("answered_late", "never_answered", "half_open", "bye_refused", "bye_unanswered", "leaked_ports"),
            ),
            short=("silence_ns", "unprotected_ns", "begun", "kept", "half_open"),
            of=_victim("standby"),
        ),
        FigureTable(
            "Two stages: when hosts of primaries die while phones register",
            (
                *("silence_ns", "others_silence_ns", "others_silence_before_ns", "fault_to_running_ns", "acknowledged"),
                *("lost", "unanswered", "late", "others_late"),
            ),
            short=("silence_ns", "others_silence_ns", "acknowledged", "lost"),
            of=_victim("primary", "all-primaries"),
        ),
        FigureTable(
            "Two stages: when a front is lost, and its phones turn to the other one",
            (
                *("longest_wait_ns", "median_wait_ns", "phones_of_front", "turned", "undelivered", "timed_out"),
                *("silence_ns", "others_silence_ns", "acknowledged", "lost", "unanswered"),
            ),
            short=("longest_wait_ns", "turned", "unanswered", "lost"),
            of=_victim("front"),
        ),
        FigureTable(
            "Two stages: a primary is added while phones register",
            (
                *("boot_to_ready_ns", "ready_to_dealt_ns", "front_share_percent", "primary_share_percent"),
                *("registered_while_added", "moved", "lost_while_added"),
            ),
            short=("boot_to_ready_ns", "ready_to_dealt_ns", "lost_while_added"),
        ),
        *STAGE_TABLES,
        FigureTable(
            "Calls: delay of their voice",
            ("delay_min_ns", "delay_q1_ns", "delay_median_ns", "delay_q3_ns", "delay_max_ns", "jitter_ns"),
        ),
        FigureTable(
            "Calls: what callers and phones hear",
            ("loss_percent", "mos", "voice_silence_ns", "packets", "packets_lost", "packets_late", "packets_reordered"),
            short=("loss_percent", "mos", "voice_silence_ns"),
        ),
        FigureTable(
            "Calls: each direction of their voice",
            ("phones_delay_ns", "callers_delay_ns", "phones_loss_percent", "callers_loss_percent"),
        ),
        FigureTable(
            "Calls: signalling and cost",
            (
                *("setup_ns", "server_cpu_percent", "server_cpu_stream_percent", "host_cpu_percent"),
                *("begun", "answered", "ended", "retransmissions"),
            ),
        ),
        TRANSCODED,
        CPU_OF_HOSTS,
        FigureTable(
            "When the server's host dies under calls: the voice",
            (
                *("gap_ns", "longest_silence_ns", "fault_to_running_ns", "loss_percent", "mos", "packets"),
                "packets_lost",
            ),
            short=("gap_ns", "fault_to_running_ns", "loss_percent", "mos"),
            of=_victim("primary", "signalling", "media"),
        ),
        WITHOUT_STANDBY,
        FigureTable(
            "When the server's host dies under calls: the signalling",
            (
                *("calls_kept_percent", "registrations_silence_ns", "registrations_silence_before_ns", "answered"),
                *("ended", "ended_anew", "retransmissions", "connections_lost", "registrations_acknowledged"),
                "registrations_lost",
            ),
            short=("calls_kept_percent", "registrations_acknowledged", "registrations_lost"),
            of=_victim("primary", "signalling", "media"),
        ),
    ),
)
