"""Predicts for the metrics what changes do to all guests: once a minute, beside the reading, where it is asked for.

The network needs numpy (some 20 MB) and a tenth of a second for 200 virtual CPUs: neither is spent unasked.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from stealtime.capacity.collector import Collector
from stealtime.capacity.counters.weights import group_weights
from stealtime.capacity.prediction.document import Changes, PredictionDocument, predict
from stealtime.capacity.prediction.what_if import named_apart, node_of
from stealtime.capacity.use import Use


class Predicting:
    """Keeps the latest prediction.

    Args:
        changes: What is asked for; nothing is predicted without any.
        proc: The kernel's ``/proc``.
    """

    def __init__(self, changes: Changes, proc: Path) -> None:
        self._changes = changes
        self._proc = proc
        self._task: asyncio.Task[PredictionDocument] | None = None
        self._latest: PredictionDocument | None = None

    def begin(self, uses: Sequence[Use], collector: Collector) -> None:
        """Begin anew, unless the last prediction is still being made."""
        if not self._changes or not uses or (self._task is not None and not self._task.done()):
            return
        weights = group_weights(collector.threads(), collector.hierarchy, self._proc)
        names = named_apart(one.guest for one in uses[-1].guests.values())
        node = node_of(uses, weights, names)
        self._task = asyncio.create_task(asyncio.to_thread(predict, node, self._changes))

    @property
    def latest(self) -> PredictionDocument | None:
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._latest = self._task.result()
        return self._latest
