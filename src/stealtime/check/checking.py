"""From a target to a verdict. The judgement is the agent's alone, so that node checks and this have the same."""

import asyncio
import json
from dataclasses import dataclass

from pydantic import ValidationError

from stealtime.check.bars import CheckBar
from stealtime.check.document import VERDICTS, AgentReport, CheckDocument
from stealtime.check.place import Answer, OnProgress, Place
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError
from stealtime.vocabulary.quantities import format_duration

WITHIN_S = 90.0
LONGEST_NS = 75_000_000_000
"""What the agent measures at most; the rest of the time is for going there."""

_JUDGED = (ExitCode.FINE, ExitCode.THRESHOLD, ExitCode.NOT_JUDGED)
_HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True)
class Order:
    """What is to be checked, how long, and against what."""

    target: str
    bar: CheckBar
    duration_ns: int

    def __post_init__(self) -> None:
        if not 0 < self.duration_ns <= LONGEST_NS:
            raise UsageError(
                f"--for {format_duration(self.duration_ns)} is not possible: a check measures for at most 75s",
                hint="`stealtime run wakeup -D 1h` measures longer, and keeps every sample",
            )

    @property
    def arguments(self) -> tuple[str, ...]:
        bar = ("--bar", f"{self.bar.at_most_ns}ns")
        return ("check", "--format", "json", *bar, "--duration", f"{self.duration_ns}ns")


async def check(order: Order, place: Place, on_progress: OnProgress) -> CheckDocument:
    """Check a machine.

    Raises:
        StealtimeError: It could not be checked, or not in time.
    """
    try:
        async with asyncio.timeout(WITHIN_S):
            answer = await place.run(order.arguments, on_progress)
    except TimeoutError:
        raise StealtimeError(
            f"{order.target} gave no verdict within {WITHIN_S:.0f} s",
            hint="is it overloaded, or the way to it slow? copy stealtime-agent there and run `stealtime-agent check`",
        ) from None
    return document_of(order, answer)


def document_of(order: Order, answer: Answer) -> CheckDocument:
    """Make the document of an answer.

    Raises:
        StealtimeError: The agent failed; what it says.
    """
    if answer.exit_code not in _JUDGED:
        raise _failure(order, answer)
    try:
        report = AgentReport.model_validate_json(answer.output)
    except ValidationError:
        raise _failure(order, answer) from None
    limits = [*report.limits, *_watched_too_short(order)]
    return CheckDocument(
        target=order.target,
        verdict=VERDICTS[report.state],
        summary=report.summary,
        cause=None if report.cause is None else report.cause.text,
        cause_is_known=report.cause is not None and report.cause.is_known,
        hint=report.hint,
        limits=limits,
        reasons=report.reasons,
        bar=order.bar.name,
        bar_title=order.bar.title,
        agent=json.loads(answer.output),
    )


def _watched_too_short(order: Order) -> list[str]:
    watched_ns = order.bar.watched_ns
    if watched_ns is None or watched_ns <= order.duration_ns:
        return []
    asked = f"{watched_ns / _HOUR_NS:g} h" if watched_ns >= _HOUR_NS else f"{watched_ns / 1e9:g} s"
    return [
        f"the bar {order.bar.name} asks to watch for {asked}, and the latest wake-up grows with time: "
        f"{order.duration_ns / 1e9:g} s within it are no pass of that bar, only no failure"
    ]


def _failure(order: Order, answer: Answer) -> StealtimeError:
    found = {kind: text for line in answer.said for kind, _, text in [line.partition(": ")]}
    last = " ".join(answer.said[-2:]) or answer.output.strip()[-200:] or "it said nothing"
    message = found.get("error", f"the agent ended with {answer.exit_code}: {last}")
    return StealtimeError(f"{order.target} cannot be checked: {message}", hint=found.get("hint"))
