"""Where the time from release to start goes, and how long it could be if all went wrong at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stealtime.studies.realtime.analysis.overheads import ARRIVAL, DISPATCH, TrialOverheads

PARTS: dict[str, tuple[str, ...]] = {
    "event latency": ("event_latency",),
    "release": ("release",),
    "rest of the interrupt": ("interrupt_rest",),
    "until the scheduler has chosen": DISPATCH,
    "urgent threads ran": ("preemption",),
    "less urgent threads ran": ("remainder",),
    "scheduler and switch, not told apart": ("unseen_switch",),
    "switch and return": ARRIVAL,
}
"""The parts of a start latency in words, each with those of a chain that it is made of; together they are all of it."""

NOT_BOUNDED = (
    "Not bounded: how long a job may wait at most follows from the longest stretches with interrupts off and with "
    "preemption off, wherever in the kernel they are (de Oliveira, Casini, de Oliveira and Cucinotta, ECRTS 2020). "
    "Only the events preemptirq:* show those, and they are not recorded: the kernels of Debian 12 are built without "
    "CONFIG_IRQSOFF_TRACER and CONFIG_PREEMPT_TRACER, which they need. If /sys/kernel/tracing/events/preemptirq exists "
    "on a machine, rtsl gives a bound there."
)
"""Why no sound bound stands beside a maximum, and what to do."""


@dataclass(frozen=True)
class Decomposition:
    """The start latencies of the jobs of one machine under one number of tasks."""

    machine: str
    tasks: int
    jobs: int
    """Whose latency is split."""
    unsplit: int
    """Jobs that began and could not be followed through the trace."""
    longest_seen_ns: float
    """The longest start latency of all jobs, split or not, as the jobs stamped it."""
    taken: int
    """Of these, jobs in whose latency the host took the CPU."""
    undelayed: int
    """Of these, jobs before which no thread of the same or a higher priority ran."""
    mean_ns: Mapping[str, float]
    """Of each of ``PARTS``, over the undelayed jobs; over all where each was delayed."""
    longest_ns: Mapping[str, float]
    """Of that one of them that began latest after its release."""
    largest_ns: Mapping[str, float]
    """The largest of each part, of any job."""

    @property
    def composed_ns(self) -> float:
        """The largest of every part in one job, or the longest of a job that was not split if that is more.

        No latency that was seen is longer, but a longer one may come.
        """
        return max(sum(self.largest_ns.values()), self.longest_seen_ns)


def decompose(measured: Mapping[tuple[str, int], Sequence[TrialOverheads]]) -> list[Decomposition]:
    """Split the start latencies of measured trials, by machine and number of tasks; without those that have no job."""
    found = []
    for (machine, tasks), trials in measured.items():
        columns = {
            name: np.concatenate([trial.part_ns(*parts)[trial.is_followed] for trial in trials])
            for name, parts in PARTS.items()
        }
        total = np.sum(list(columns.values()), axis=0)
        if not len(total):
            continue
        undelayed = columns["urgent threads ran"] == 0
        chosen = undelayed if undelayed.any() else np.ones(len(total), np.bool_)
        own = {name: values[chosen] for name, values in columns.items()}
        latest = int(total[chosen].argmax())
        stamped_ns = np.concatenate([trial.start_latency_cycles * trial.ns_a_cycle for trial in trials])
        taken = sum(int(np.count_nonzero(trial.found["chains"]["taken"][trial.is_followed])) for trial in trials)
        found.append(
            Decomposition(
                machine=machine,
                tasks=tasks,
                jobs=len(total),
                # What never began has no stamp, and lies before its release.
                unsplit=int(np.count_nonzero(stamped_ns >= 0)) - len(total),
                longest_seen_ns=max(float(stamped_ns.max()), float(total.max())),
                taken=taken,
                undelayed=int(undelayed.sum()),
                mean_ns={name: float(values.mean()) for name, values in own.items()},
                longest_ns={name: float(values[latest]) for name, values in own.items()},
                largest_ns={name: float(values.max()) for name, values in columns.items()},
            )
        )
    return found
