"""From the repetitions of a cell with calls to its figures. Pure."""

from collections.abc import Sequence
from statistics import median

from stealtime.report.cells.figures import Figures
from stealtime.studies.telephony.calls.results import (
    CallFailover,
    Calls,
    Moment,
    RegistrationsMeanwhile,
    Spread,
    spread_of,
)


class FailoverFigures(Figures):
    """What became of calls whose host died."""

    gap_ns: list[int]
    """The longest silence of any caller or phone around the fault, of each repetition in which one was heard."""
    unheard: int
    """Repetitions in which the longest silence was not at the fault."""
    running_ns: list[int]
    """From the fault until the guest ran again, by repetition; none where it ran on, as its standby was lost."""
    registrations: RegistrationsMeanwhile
    """Of all repetitions."""
    moments: list[Moment]
    """Of the last repetition, from the fault on its time line."""
    gap_began_ns: int | None
    """Of the last repetition, from the fault, as ``gap_ended_ns``; None where it was not heard."""
    gap_ended_ns: int | None


class CallLoad(Figures):
    """What was asked for."""

    streams: int
    mode: str
    interval_ns: int | None = None
    roles: str = "together"
    """Whether signalling and media share a guest, or are ``apart``."""
    transport: str = "udp"
    """Of signalling."""
    media: str = "relay"
    """What the server does with voice: passes it on, or ``transcoding``."""


class CallFigures(CallLoad):
    """Calls with their voice, over all repetitions of a cell."""

    repetitions: int
    begun: int
    answered: int
    ended: int
    """Whose BYE was answered with 200."""
    ended_anew: int = 0
    """Of the others, over TCP, those whose BYE was answered over a new connection."""
    failed: int
    retransmissions: int
    """Of callers and phones."""
    answer_ns: float | None
    """From INVITE to 200, the median of the repetitions' medians."""
    sent: int
    """Packets of voice."""
    lost: int
    late: int
    reordered: int
    duplicated: int
    loss_percent: Spread | None
    """Of the streams of all repetitions."""
    delay_ns: Spread | None
    """Ends: those of all packets; quartiles and median: the medians of the repetitions' ones."""
    delay_of_repetitions_ns: list[float]
    """The median of each."""
    jitter_ns: float | None
    """The most of any stream."""
    silence_ns: int | None
    """The longest of any stream."""
    unheard: int = 0
    """Streams of which nothing came."""
    unended: int = 0
    """Streams of which nothing came any more after their longest silence."""
    mos: Spread | None
    """Of the streams of all repetitions."""
    host_cpu_share: float | None
    """Of one CPU, while the voice went on; the median of the repetitions. None natively and in failovers."""
    server_cpu_share: float | None
    failover: FailoverFigures | None = None

    @property
    def cut(self) -> int:
        """Calls that were not kept."""
        return self.answered - self.ended - self.ended_anew

    @property
    def lost_share(self) -> float | None:
        """Of the packets sent."""
        return self.lost / self.sent if self.sent else None


def figures_of(load: CallLoad, results: Sequence[Calls | CallFailover]) -> CallFigures:
    """Compute the figures of a cell.

    Args:
        load: Of the cell.
        results: Of its measured repetitions.
    """
    dialogues, voices = [one.dialogues for one in results], [one.voice for one in results]
    each = [stream for voice in voices for stream in voice.each]
    quiet = [one for one in results if isinstance(one, Calls)]
    answers = [one.answer_ns.median for one in dialogues if one.answer_ns is not None]
    host = [one.host_cpu_ns / one.elapsed_ns for one in quiet if one.host_cpu_ns is not None]
    server = [one.server_cpu_ns / one.elapsed_ns for one in quiet]
    failovers = [one for one in results if isinstance(one, CallFailover)]
    return CallFigures(
        **load.model_dump(),
        repetitions=len(results),
        begun=sum(one.begun for one in dialogues),
        answered=sum(one.answered for one in dialogues),
        ended=sum(one.ended for one in dialogues),
        ended_anew=sum(one.ended_anew for one in dialogues),
        failed=sum(one.failed for one in dialogues),
        retransmissions=sum(one.retransmissions + one.callee_retransmissions for one in dialogues),
        answer_ns=median(answers) if answers else None,
        sent=sum(one.sent for one in voices),
        lost=sum(one.lost for one in voices),
        late=sum(one.late for one in voices),
        reordered=sum(one.reordered for one in voices),
        duplicated=sum(one.duplicated for one in voices),
        loss_percent=spread_of([100.0 * (1 - one.received / one.sent) for one in each if one.sent]),
        delay_ns=_together([one.delay_ns for one in voices if one.delay_ns is not None]),
        delay_of_repetitions_ns=[one.delay_ns.median for one in voices if one.delay_ns is not None],
        jitter_ns=max((one.jitter_ns for one in voices if one.jitter_ns is not None), default=None),
        silence_ns=max((one.silence_ns for one in voices if one.silence_ns is not None), default=None),
        unheard=sum(one.streams - one.heard for one in voices),
        unended=sum(not one.silence_ended for one in each),
        mos=spread_of([one.mos for one in each if one.mos is not None]),
        host_cpu_share=median(host) if host else None,
        server_cpu_share=median(server) if server else None,
        failover=_failover(failovers) if failovers else None,
    )


def _together(spreads: Sequence[Spread]) -> Spread | None:
    if not spreads:
        return None
    return Spread(
        min=min(one.min for one in spreads),
        q1=median(one.q1 for one in spreads),
        median=median(one.median for one in spreads),
        q3=median(one.q3 for one in spreads),
        max=max(one.max for one in spreads),
    )


def _failover(results: Sequence[CallFailover]) -> FailoverFigures:
    last = results[-1]
    gaps = [one.gap_ns for one in results]
    began = last.voice.silence_began_ns if last.gap_ns is not None else None
    return FailoverFigures(
        gap_ns=[gap for gap in gaps if gap is not None],
        unheard=gaps.count(None),
        running_ns=[one.running_ns - one.fault_ns for one in results if one.running_ns is not None],
        registrations=RegistrationsMeanwhile(
            sent=sum(one.registrations.sent for one in results),
            acknowledged=sum(one.registrations.acknowledged for one in results),
            lost=sum(one.registrations.lost for one in results),
        ),
        moments=[Moment(what=one.what, at_ns=one.at_ns - last.fault_ns) for one in last.moments],
        gap_began_ns=None if began is None else began - last.fault_ns,
        gap_ended_ns=None if began is None or last.gap_ns is None else began + last.gap_ns - last.fault_ns,
    )
