"""A failover as a time line: what phones were told, step by step, and the moments of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from stealtime.report import notation
from stealtime.report.page.plane import Tick, percent, ticks_of
from stealtime.studies.telephony.figures import TelephonyFigures, TimeLine
from stealtime.studies.telephony.results import AnswersOverTime
from stealtime.studies.telephony.wording import cell_words

_TICK_NS = 500_000_000
_STRUCK = {"killed": "SIGKILL", "silent": "silent", "planned": "moved"}
"""What happens to the host or the front, by the fault."""
_OTHERS = {False: "users of the other primaries", True: "phones of the other front"}
"""By whether a front is lost."""


@dataclass(frozen=True)
class Bar:
    """The answers of a step; places in percent, as all of a chart."""

    x: float
    y: float
    width: float
    height: float
    words: str


@dataclass(frozen=True)
class Moment:
    """What happened when."""

    x: float
    words: str


@dataclass(frozen=True)
class Chart:
    """One failover."""

    title: str
    bars: list[Bar]
    moments: list[Moment]
    ticks: list[Tick]
    words: str


def charts(cells: Sequence[TelephonyFigures]) -> list[Chart]:
    """Draw the first failover of each cell; where there were other primaries, what their users were told below it."""
    drawn = []
    for cell in (one for one in cells if one.time_lines):
        title, line = cell_words(cell), cell.time_lines[0]
        struck = (_STRUCK.get(str(cell.parameters.get("fault", "killed")), "lost"), 0)
        moments = [struck, *_went_on(cell, line), ("first answer", line.fault_to_answer_ns)]
        drawn.append(_chart(title, line.over_time, moments, line.silence_ns))
        if line.others_over_time is not None:
            others = f"{title}, {_OTHERS[cell.parameters.get('victim') == 'front']}"
            drawn.append(_chart(others, line.others_over_time, [struck], line.others_silence_ns))
    return drawn


def _went_on(cell: TelephonyFigures, line: TimeLine) -> list[tuple[str, int | None]]:
    """Give the moments at which what was lost was replaced."""
    if cell.parameters.get("mode") == "replicated":
        return [("the other server has the address", line.fault_to_running_ns)]
    if (lapse := line.unprotected) is not None:
        return [
            ("the server knows that it is alone", lapse.fault_to_alone_ns),
            ("the host is back", lapse.fault_to_back_ns),
            ("protected again", lapse.fault_to_protected_ns),
        ]
    return [("the standby takes over", line.fault_to_detection_ns), ("the guest runs", line.fault_to_running_ns)]


def _chart(
    title: str, steps: AnswersOverTime, moments: Sequence[tuple[str, int | None]], silence_ns: int | None
) -> Chart:
    span_ns = steps.step_ns * len(steps.answers)

    def place(after_fault_ns: float) -> float:
        return percent((after_fault_ns - steps.first_step_ns) / span_ns)

    highest = max([1, *steps.answers])
    width = 100.0 * steps.step_ns / span_ns
    bars = [
        Bar(
            round(number * width, 2),
            percent(1 - count / highest),
            round(width, 3),
            percent(count / highest),
            f"{count} answers from {notation.duration(steps.first_step_ns + number * steps.step_ns, 3)} on",
        )
        for number, count in enumerate(steps.answers)
        if count
    ]
    first_tick = -(-steps.first_step_ns // _TICK_NS)
    last_tick = (steps.first_step_ns + span_ns) // _TICK_NS
    ticks = [
        (place(number * _TICK_NS), f"{number * _TICK_NS / 1e9:g} s") for number in range(first_tick, last_tick + 1)
    ]
    return Chart(
        title,
        bars,
        [
            Moment(place(at_ns), f"{words}: {notation.duration(at_ns, 3) if at_ns else '0'}")
            for words, at_ns in moments
            # What comes later than the picture ends is in the table.
            if at_ns is not None and at_ns < span_ns + steps.first_step_ns
        ],
        ticks_of(ticks, 2.0),
        "phones heard nothing any more"
        if silence_ns is None
        else f"phones heard nothing for {notation.duration(silence_ns, 3)} at most",
    )
