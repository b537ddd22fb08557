"""Made-up overheads and latencies of the study of real time, whose figures are known."""

import numpy as np

from stealtime.schedulability.measured import MeasuredCondition, Samples
from stealtime.studies.realtime.analysis.decomposition import PARTS, Decomposition
from stealtime.studies.realtime.analysis.gathered import Gathered, curve_of
from stealtime.studies.realtime.analysis.model import RealTimeCell, Share

COUNTS = (1, 5, 10, 20)


def samples(average_ns: float, worst_ns: float, count: int = 100) -> Samples:
    """So many with this average and this maximum."""
    rest = (average_ns * count - worst_ns) / (count - 1)
    nothing = np.zeros(count, np.bool_)
    return Samples(np.array([worst_ns, *[rest] * (count - 1)]), nothing, nothing)


def condition(machine: str, tasks: int, factor: float) -> MeasuredCondition:
    """Scheduling takes 1 us and at most 10 us natively with one task, and a tenth more for each task."""
    scale = factor * (1 + tasks / 10)
    return MeasuredCondition(
        machine,
        tasks,
        {
            "scheduling": samples(1_000 * scale, 10_000 * scale),
            "context_switch": samples(500 * scale, 4_000 * scale),
            "event_latency": samples(2_000 * scale, 40_000 * scale),
            "release": samples(800 * scale, 3_000 * scale),
            "tick": samples(1_500 * scale, 6_000 * scale),
        },
        boundaries={"scheduling": "dispatch"},
        tick_period_ns=4_000_000,
    )


def decomposition(machine: str, tasks: int, factor: float) -> Decomposition:
    """Each part 1 us on the average, 2 us in the longest, 3 us at most."""
    each = dict.fromkeys(PARTS, 1000.0 * factor)
    return Decomposition(
        machine, tasks, 1_000, 3, 14_000.0 * factor, 7, 900, each, {name: 2 * ns for name, ns in each.items()},
        {name: 3 * ns for name, ns in each.items()},
    )  # fmt: skip


def gathered() -> Gathered:
    """Native, and a guest that is four times as slow."""
    machines = (("native", 1.0), ("qemu-tcg-paravirt", 4.0))
    conditions = [condition(machine, tasks, factor) for machine, factor in machines for tasks in COUNTS]
    parts = [decomposition(machine, tasks, factor) for machine, factor in machines for tasks in (1, 20)]
    return Gathered(conditions, parts, curve_of("a run", conditions), None)


def cell(platform: str, tasks: int, missed: int) -> RealTimeCell:
    """1,000 jobs, so many of which missed."""
    share = missed / 1_000
    interval = Share(share=share, low=share * 0.8, high=share * 1.2, method="made up")
    return RealTimeCell(
        platform=platform, scenario="alone", probe="rtload", valid=True, reasons=[], limits=[], clock=None, trials=[],
        parameters={"law": "light-uniform", "tasks_per_cpu": tasks}, policy="fifo", polluters=0, repetitions=[],
        released=1_000, missed=missed, missed_share=interval, sets_missed=0, sets_missed_share=None,
        urgent_latency_ns=None, start_latency_ns=None, response_share=None,
    )  # fmt: skip


def cells() -> list[RealTimeCell]:
    """Two machines and the same numbers of tasks; the guest misses more."""
    machines = (("native", 1), ("qemu-tcg-paravirt", 5))
    return [cell(platform, tasks, factor * tasks) for platform, factor in machines for tasks in COUNTS]
