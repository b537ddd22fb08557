"""What the figures of a cell are taken from: the requests of a trial, their ways, and what the guest believes."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stealtime.studies.devices.analysis.way import Ways, ways_of
from stealtime.studies.devices.requests import Requests, read_requests
from stealtime.studies.devices.results import DeviceRequests
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime.store.run import Trial

ON_THE_HOST = ("take", "host_io", "complete")
"""The parts in which a request is with the emulator and the host: what the device truly took."""
NOT_RUNNING = ("pending", "preempted")
"""The parts in which the request waits for a virtual CPU that the host does not run."""


@dataclass(frozen=True)
class Measured:
    """The requests of one trial."""

    result: DeviceRequests
    times: Requests
    ways: Ways | str
    """Or why there are none."""

    @cached_property
    def duration_ns(self) -> NDArray[np.float64]:
        return self.times.response_ns

    def percentile(self, percent: float) -> float | None:
        """Give an exact percentile of the durations: the smallest value that so many percent do not exceed."""
        if not len(self.duration_ns):
            return None
        return float(np.percentile(self.duration_ns, percent, method="inverted_cdf"))

    @property
    def requests_per_s(self) -> float | None:
        return len(self.times.ended) / self.times.elapsed_s if self.times.elapsed_s > 0 else None

    def part(self, name: str) -> float | None:
        """Give the mean of a part: means of parts add up to the mean of the whole."""
        if isinstance(self.ways, str) or not self.ways.requests:
            return None
        return float(self.ways.parts_ns[name].mean())

    def parts(self, names: tuple[str, ...]) -> float | None:
        found = [part for name in names if (part := self.part(name)) is not None]
        return sum(found) if len(found) == len(names) else None

    @property
    def failed(self) -> int:
        """How many requests failed; they are in no row."""
        return sum(self.result.counts.get(name, 0) for name in ("errors", "short"))

    @property
    def whole_percent(self) -> float | None:
        """Of how many requests every moment was seen."""
        if isinstance(self.ways, str) or not self.ways.requests:
            return None
        return 100 * self.ways.whole / self.ways.requests

    @property
    def clock_error_ns(self) -> float | None:
        return None if isinstance(self.ways, str) else self.ways.error_ns

    @property
    def believed_ns(self) -> float | None:
        """What the guest's own disk statistics say that a request took, in the mean (``await`` of ``iostat(1)``)."""
        counters = self.result.counts
        requests, ticks_us = counters.get("disk_statistics_requests", 0), counters.get("disk_statistics_us")
        return 1000 * ticks_us / requests if requests and ticks_us is not None else None

    @property
    def on_host_ns(self) -> float | None:
        """What a request truly took where the guest thinks its disk is, in the mean."""
        return self.parts(ON_THE_HOST)

    @property
    def believed_too_long_ns(self) -> float | None:
        """How much longer the guest believes that its disk takes than it does."""
        if self.believed_ns is None or self.on_host_ns is None:
            return None
        return self.believed_ns - self.on_host_ns


def measured(trial: "Trial") -> Measured:
    """Read and split the requests of a trial.

    Raises:
        StealtimeError: It has no result, or a table is damaged.
    """
    outcome = trial.record.outcome
    if outcome is None:
        raise StealtimeError(f"{trial.record.trial_id} has no outcome")
    times = read_requests(trial)
    return Measured(trial.result(DeviceRequests), times, ways_of(trial, outcome, times))
