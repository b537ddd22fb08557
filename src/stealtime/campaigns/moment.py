"""What a run does at the first sample that is too long (``run --on-threshold``)."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import Field

from stealtime.store.model import TrialRecord
from stealtime.vocabulary.quantities import DurationNs
from stealtime.vocabulary.toml_table import Table
from stealtime.wire.threshold import OnThreshold

Action = Literal["stop", "go-on"]
OnHit = Callable[[Path, TrialRecord], None]
"""Is called in a thread once a trial with such a sample is on the disk: its folder and its record."""

KEPT_BYTES = 32 << 20
"""Of the host's trace, for each CPU, where the run stops at the sample: half a million events. A hunt may take a day,
and what a host does in one is a hundred gigabytes."""


class ThresholdRule(Table):
    """What to do at the first sample that exceeds the floor by more than a threshold."""

    overhead_ns: DurationNs = Field(alias="overhead", gt=0)
    """By how much: over the calibrated floor of ``tick``; of the other probes, whose floor is known afterwards, the
    whole sample."""
    action: Action = "stop"
    """``stop`` ends the trial and the run; ``go-on`` goes on measuring, and counts further samples."""

    @property
    def request(self) -> OnThreshold:
        """What the agent is asked for."""
        return OnThreshold(overhead_ns=self.overhead_ns, stop=self.action == "stop")


def kept_bytes(asked: OnThreshold | None) -> int | None:
    """Give how much of a trace is kept: all of it, unless the run stops at the sample that it is to explain."""
    return KEPT_BYTES if asked is not None and asked.stop else None


def ends_run(record: TrialRecord) -> bool:
    """Tell whether nothing is measured after a trial: it had a sample at which the run was to stop."""
    outcome = record.outcome
    if outcome is None or outcome.threshold is None:
        return False
    return outcome.request.on_threshold is not None and outcome.request.on_threshold.stop
