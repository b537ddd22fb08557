"""The overheads of LITMUS^RT's figures: by the same boundaries where the kernels of a run tell them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stealtime.schedulability.measured import MeasuredCondition, equal_count

QUANTITIES = ("scheduling", "context_switch", "event_latency", "release")
"""In the order of the figures of Aichouch, Prevotet and Nouvel (2013): 4 and 5, 6 and 7, 8 and 9, 10 and 11."""
_SAME = {"scheduling": "finer_scheduling", "context_switch": "finer_context_switch"}
"""What has their own boundaries; only a kernel with ``sched_entry_tp`` and ``sched_exit_tp`` tells it."""


@dataclass(frozen=True)
class QuantityRow:
    """One overhead of one machine and number of tasks; times in ns."""

    quantity: str
    """Of :data:`QUANTITIES`."""
    drawn: str
    """What its samples are."""
    machine: str
    tasks: int
    samples: int
    average_ns: float
    deviation_ns: float | None
    """Of one sample (n - 1); None of a single one."""
    worst_ns: float
    """Of all samples."""
    compared: int
    compared_worst_ns: float
    """Of as many, drawn at random, as the smallest machine and number of tasks has."""


def taken_of(quantity: str, conditions: Sequence[MeasuredCondition]) -> str:
    """Name the samples that a quantity is taken from, so that all that is compared has the same boundaries."""
    same = _SAME.get(quantity)
    if same is not None and all(same in one.samples and len(one.samples[same].ns) for one in conditions):
        return same
    return quantity


def series_of(
    condition: MeasuredCondition, quantity: str, conditions: Sequence[MeasuredCondition]
) -> NDArray[np.float64] | None:
    """Give the samples of a quantity in ns, comparable with those of ``conditions``; None without any."""
    samples = condition.samples.get(taken_of(quantity, conditions))
    return None if samples is None or not len(samples.ns) else samples.ns


def quantity_rows(conditions: Sequence[MeasuredCondition]) -> list[QuantityRow]:
    """Give average, deviation and worst of each overhead against the number of tasks, by machine."""
    rows = []
    for quantity in QUANTITIES:
        there = [(one, series) for one in conditions if (series := series_of(one, quantity, conditions)) is not None]
        compared = min((len(series) for _, series in there), default=0)
        taken = taken_of(quantity, conditions)
        for one, series in sorted(there, key=lambda pair: (pair[0].machine, pair[0].tasks)):
            rows.append(
                QuantityRow(
                    quantity=quantity,
                    drawn=one.boundaries.get(taken, taken).replace("_", " "),
                    machine=one.machine,
                    tasks=one.tasks,
                    samples=len(series),
                    average_ns=float(series.mean()),
                    deviation_ns=float(series.std(ddof=1)) if len(series) > 1 else None,
                    worst_ns=float(series.max()),
                    compared=compared,
                    compared_worst_ns=float(equal_count(series, compared, seed=1).max()),
                )
            )
    return rows
