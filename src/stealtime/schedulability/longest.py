"""The longest time that the analysis reckons with: some 9 years; sums are checked."""

from typing import Annotated

from pydantic import AfterValidator

from stealtime.vocabulary.quantities import NANOSECONDS, DurationNs, format_duration

LONGEST_NS = 1 << 58
"""As of ``crates/schedulability/src/task.rs``."""


def not_longer(time_ns: int) -> int:
    """Give a time back.

    Raises:
        ValueError: It is longer than the longest.
    """
    if time_ns > LONGEST_NS:
        days = LONGEST_NS // NANOSECONDS["d"]
        raise ValueError(f"{format_duration(time_ns)} is longer than the analysis reckons with, {days} days")
    return time_ns


AnalysedNs = Annotated[DurationNs, AfterValidator(not_longer)]
"""A time of a task or a kernel."""
