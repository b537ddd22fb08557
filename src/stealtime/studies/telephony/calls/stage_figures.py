"""The figures of calls through two stages, as the study's catalogue declares them: killed primary, and the others."""

from collections.abc import Callable, Sequence
from typing import Any

from stealtime.report.catalogue.model import Figure, FigureTable, ProbeFigures, counts
from stealtime.report.cells.figures import Figures
from stealtime.studies.telephony.calls.stage_results import PrimaryCalls, TwoStageCallFailover
from stealtime.studies.telephony.lengths import STREAMS_OF_A_CALL

_Of = Callable[[TwoStageCallFailover], Sequence[PrimaryCalls]]


class StageFigures(Figures):
    """What ends of calls through two stages heard, over all repetitions of a cell."""

    silence_ns: int | None
    """The longest of any stream."""
    answered: int
    cut: int
    """Calls that were not kept."""
    unheard: int
    """Streams of which nothing came."""
    unended: int
    """Streams of which nothing came any more after their longest silence."""


def stage_figures(results: Sequence[TwoStageCallFailover]) -> StageFigures | None:
    """Put the repetitions of a cell together; None without any."""
    each = [one for result in results for one in result.calls]
    if not each:
        return None
    return StageFigures(
        silence_ns=max((one.silence_ns for one in each if one.silence_ns is not None), default=None),
        answered=sum(one.calls for one in each),
        cut=sum(one.calls - one.kept for one in each),
        unheard=sum(STREAMS_OF_A_CALL * one.calls - one.streams_heard for one in each),
        unended=sum(one.streams_unended for one in each),
    )


def _died(result: TwoStageCallFailover) -> Sequence[PrimaryCalls]:
    return result.died


def _others(result: TwoStageCallFailover) -> Sequence[PrimaryCalls]:
    return result.others


def _share(of: _Of, part: Callable[[PrimaryCalls], int], whole: Callable[[PrimaryCalls], int]) -> Callable[[Any], Any]:
    """Take a share, in per cent, of some primaries' calls; None where there is nothing of them."""

    def take(result: TwoStageCallFailover) -> float | None:
        total = sum(map(whole, of(result)))
        return 100.0 * sum(map(part, of(result))) / total if total else None

    return take


def _sum(of: _Of, part: Callable[[PrimaryCalls], int]) -> Callable[[Any], float]:
    return lambda result: sum(map(part, of(result)))


def _voice_invalid(result: TwoStageCallFailover) -> Sequence[str]:
    return result.voice.invalid


STAGE_CALLS = ProbeFigures(
    TwoStageCallFailover,
    {
        "gap_ns": Figure("no voice"),
        "others_voice_silence_ns": Figure("others' longest silence"),
        "fault_to_running_ns": Figure("to running", lambda result: float(result.running_ns - result.fault_ns)),
        "loss_percent": Figure("voice lost", _share(_died, lambda one: one.lost, lambda one: one.sent)),
        "others_loss_percent": Figure(
            "others' voice lost", _share(_others, lambda one: one.lost, lambda one: one.sent)
        ),
        "own_calls_kept_percent": Figure("calls kept", _share(_died, lambda one: one.kept, lambda one: one.calls)),
        "others_calls_kept_percent": Figure(
            "others' calls kept", _share(_others, lambda one: one.kept, lambda one: one.calls)
        ),
        "silence_ns": Figure("registrations' silence"),
        "others_silence_ns": Figure("of the others"),
        "others_silence_before_ns": Figure("and before"),
        **counts(
            calls=_sum(_died, lambda one: one.calls),
            kept=_sum(_died, lambda one: one.kept),
            others_calls=_sum(_others, lambda one: one.calls),
            others_kept=_sum(_others, lambda one: one.kept),
            packets=_sum(_died, lambda one: one.sent),
            packets_lost=_sum(_died, lambda one: one.lost),
            others_packets=_sum(_others, lambda one: one.sent),
            others_packets_lost=_sum(_others, lambda one: one.lost),
            call_retransmissions=lambda result: (
                result.dialogues.retransmissions + result.dialogues.callee_retransmissions
            ),
            registrations_acknowledged=lambda result: result.registrations.acknowledged,
            registrations_lost=lambda result: result.registrations.lost,
        ),
        **counts("retries"),
    },
    _voice_invalid,
)
STAGE_TABLES = (
    FigureTable(
        "Two stages: when hosts of primaries die under calls: the voice",
        (
            *("gap_ns", "others_voice_silence_ns", "fault_to_running_ns", "loss_percent", "others_loss_percent"),
            *("packets", "packets_lost", "others_packets", "others_packets_lost"),
        ),
        short=("gap_ns", "others_voice_silence_ns", "loss_percent", "others_loss_percent"),
    ),
    FigureTable(
        "Two stages: when hosts of primaries die under calls: the signalling",
        (
            *("own_calls_kept_percent", "others_calls_kept_percent", "calls", "kept", "others_calls", "others_kept"),
            *("silence_ns", "others_silence_ns", "others_silence_before_ns", "registrations_acknowledged"),
            "registrations_lost",
        ),
        short=("own_calls_kept_percent", "others_calls_kept_percent", "registrations_lost"),
    ),
)
