"""Bars of a check: a duration, or those that a run is held against, by name or file."""

from dataclasses import dataclass

from stealtime.report.acceptance.library import bar_names, find_bars
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import parse_duration_ns

QUANTITY = "wakeup-latency"
"""What a check measures."""


@dataclass(frozen=True)
class CheckBar:
    """The latest that a wake-up may be."""

    name: str
    at_most_ns: int
    title: str | None = None
    watched_ns: int | None = None
    """How long the bar asks to watch."""


def read_bar(text: str) -> CheckBar:
    """Read a bar.

    Raises:
        UsageError: It is neither a duration nor bars, or bars of other quantities only.
    """
    if text.endswith(".toml") or text in bar_names():
        bars = find_bars(text)
        ours = next((bar for bar in bars.bars if bar.quantity == QUANTITY), None)
        if ours is None:
            have = ", ".join(bar.quantity for bar in bars.bars)
            raise UsageError(
                f"{text} has no bar of {QUANTITY}, which a check measures, but of {have}",
                hint="measure the others with `stealtime run`, and hold the run against them: show --accept",
            )
        return CheckBar(text, ours.at_most, bars.title, ours.watched)
    try:
        at_most_ns = parse_duration_ns(text)
    except ValueError:
        hint = f"write a duration such as 100us, {', '.join(bar_names())}, or a .toml file of bars"
        raise UsageError(f"--bar: {text!r} is no bar", hint=hint) from None
    if at_most_ns <= 0:
        raise UsageError(f"--bar: {text} is no bar, because every wake-up takes longer", hint="write 100us, for one")
    return CheckBar(text, at_most_ns)
