"""What is shown of calls: rows of tables, printed and on the page alike, and the lines of the recommendation."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from stealtime.report import notation
from stealtime.studies.telephony.calls.figures import CallFigures
from stealtime.studies.telephony.calls.recommendation import Recommendation
from stealtime.studies.telephony.calls.results import Spread

DELAY_NOTE = (
    "Delay, loss and MOS (ITU-T G.107) are of the voice one way, from caller to phone, by the stamps of both ends, "
    "outside of the server. Delays are min / q1 / median / q3 / max of all packets."
)


@dataclass(frozen=True)
class CallTable:
    """A title, the heads of columns, and rows."""

    title: str
    heads: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True)
class NamedCalls:
    """A cell with its name in tables."""

    name: str
    figures: CallFigures


def call_tables(cells: Sequence[NamedCalls]) -> list[CallTable]:
    """Give the tables that have rows."""
    quiet = [cell for cell in cells if cell.figures.failover is None]
    tables = [
        CallTable(
            "Voice of calls",
            ("", "delay", "lost", "late", "reordered", "jitter", "longest silence", "MOS", "host CPU", "server CPU"),
            [_voice_row(cell) for cell in quiet],
        ),
        CallTable(
            "Signalling of calls",
            ("", "begun", "answered", "BYE answered", "failed", "sent anew", "INVITE to 200"),
            [_signalling_row(cell) for cell in cells],
        ),
        CallTable(
            "When the host dies under calls",
            ("", "calls kept", "registrations lost", "no voice", "blow to running", "lost", "MOS"),
            [_failover_row(cell) for cell in cells if cell.figures.failover is not None],
        ),
    ]
    return [table for table in tables if table.rows]


def spread_words(spread: Spread | None) -> str:
    """Write five durations."""
    if spread is None:
        return notation.ABSENT
    return " / ".join(
        notation.duration(value, 2) for value in (spread.min, spread.q1, spread.median, spread.q3, spread.max)
    )


def share_words(figures: CallFigures) -> str:
    """Write how much was lost of how much."""
    if figures.lost_share is None:
        return notation.ABSENT
    return f"{notation.percent(figures.lost_share)} ({notation.count(figures.lost)} of {notation.count(figures.sent)})"


def mos_words(spread: Spread | None) -> str:
    """Write the median opinion, and the lowest one."""
    return notation.ABSENT if spread is None else f"{spread.median:.2f} (lowest {spread.min:.2f})"


def recommendation_lines(found: Sequence[Recommendation]) -> list[str]:
    """Give a line for each load, and one for each bar."""
    lines = []
    for one in found:
        lines.append(f"{one.title}: {one.text}")
        lines += [f"  {judgement.text}" for judgement in one.judgements]
    return lines


def _voice_row(cell: NamedCalls) -> tuple[str, ...]:
    one = cell.figures
    return (
        _name(cell),
        spread_words(one.delay_ns),
        share_words(one),
        notation.count(one.late),
        notation.count(one.reordered),
        notation.duration(one.jitter_ns, 2),
        notation.duration(one.silence_ns, 3),
        mos_words(one.mos),
        _share(one.host_cpu_share),
        _share(one.server_cpu_share),
    )


def _signalling_row(cell: NamedCalls) -> tuple[str, ...]:
    one = cell.figures
    counts = (one.begun, one.answered, one.ended, one.failed, one.retransmissions)
    return (_name(cell), *(notation.count(count) for count in counts), notation.duration(one.answer_ns, 3))


def _failover_row(cell: NamedCalls) -> tuple[str, ...]:
    one, failover = cell.figures, cell.figures.failover
    assert failover is not None  # noqa: S101 - as chosen above
    registered = failover.registrations
    gap = notation.ABSENT if not failover.gap_ns else notation.duration(median(failover.gap_ns), 3)
    if failover.unheard:
        gap += f" ({failover.unheard}x not heard)"
    return (
        _name(cell),
        f"{one.ended} of {one.answered}",
        f"{registered.lost} of {registered.acknowledged}",
        gap,
        notation.duration(median(failover.running_ns), 3),
        share_words(one),
        mos_words(one.mos),
    )


def _name(cell: NamedCalls) -> str:
    return f"{cell.name} ({cell.figures.repetitions}x)"


def _share(share: float | None) -> str:
    return notation.ABSENT if share is None else notation.percent(share)
