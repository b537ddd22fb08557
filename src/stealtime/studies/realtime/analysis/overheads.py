"""What the kernel took of each release, from a trial's trace and its jobs (``docs/overheads.md``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stealtime._core import JOB_PARTS, OVERHEAD_FLAGS, OVERHEAD_SAMPLES, measure_overheads
from stealtime.lab.platforms.traits import traits_of
from stealtime.schedulability.measured import Samples
from stealtime.schedulability.overhead_seen import Uncharged
from stealtime.store.columns import DAMAGED, read_columns
from stealtime.store.traces import read_events
from stealtime.studies.realtime.analysis.interference import uncharged_of
from stealtime.studies.realtime.analysis.jobs import JOBS_SCHEMA
from stealtime.studies.realtime.analysis.taken import taken_from
from stealtime.studies.realtime.results import JOBS, JobsOfTasks
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.quantities import NANOSECONDS
from stealtime.vocabulary.readings import Value

if TYPE_CHECKING:
    from stealtime._core import EventsDict, OverheadsDict, StampedJobsDict
    from stealtime.store.run import Trial
    from stealtime.wire.message import TracingOutcome

_NEEDED_GROUPS = ("sched", "vectors", "timers")
_THREAD_IDS_UNKNOWN = "thread_ids_unknown"
_TICKS_PER_S = (100, 250, 300, 1000)
"""What a kernel can be configured to (``kernel/Kconfig.hz``)."""

DISPATCH = ("dispatch", "interrupt_exit", "scheduling")
ARRIVAL = ("arrival", "context_switch", "return")
"""Parts of a chain: the finer ones add up to the coarser one, which every kernel tells."""

BOUNDARIES = {"scheduling": "dispatch", "context_switch": "arrival"}
"""What a model's columns SCHEDULE and CXS are taken from, so that all kernels are compared on one definition."""


@dataclass(frozen=True)
class TrialOverheads:
    """What one trial's trace tells."""

    found: "OverheadsDict"
    ns_a_cycle: float
    jobs: int
    start_latency_cycles: NDArray[np.int64]
    """Of each job, as its thread stamped it."""
    taken_unknown: str | None = None
    """Why no sample is marked as taken by the host, if that is not known."""
    uncharged: Sequence[Uncharged] = ()
    """What took the CPU beside, and is in no sample."""

    @property
    def is_followed(self) -> NDArray[np.bool_]:
        """Which jobs have a chain."""
        return np.asarray(self.found["chains"]["discard"] == 0, np.bool_)

    @property
    def unseen_switches(self) -> int:
        """How many followed jobs have no sample of dispatch and arrival: the switch to them is not in the trace."""
        return int(np.count_nonzero(self.is_followed & (self.found["chains"]["unseen_switch"] > 0)))

    def part_ns(self, *parts: str) -> NDArray[np.float64]:
        """Give parts of all jobs, added up; 0 for those without a chain."""
        chains = self.found["chains"]
        cycles = sum((chains[part] for part in parts), np.zeros(self.jobs, np.uint64))
        return np.asarray(cycles, np.float64) * self.ns_a_cycle

    @property
    def series(self) -> dict[str, Samples]:
        followed = self.is_followed
        direct = followed & self._flag("direct")
        return {
            "event_latency": self._of_jobs(("event_latency",), followed),
            "release": self._of_pairs("release", "real_time"),
            "scheduling": self._of_jobs(DISPATCH, direct),
            "context_switch": self._of_jobs(ARRIVAL, direct),
            "tick": self._of_pairs("tick"),
            **self._interrupts(),
            "finer_scheduling": self._of_pairs("scheduling", "real_time"),
            "finer_context_switch": self._of_pairs("context_switch", "real_time"),
            "scheduling_in_vain": self._of_pairs("scheduling_in_vain"),
            "preemption": self._of_jobs(("preemption",), followed),
            "inter_processor_interrupt": self._of_pairs("inter_processor_interrupt"),
        }

    @property
    def tick_period_ns(self) -> int | None:
        """The period of the tick, where the ticks that were seen show one that a kernel can have."""
        samples = self.found["samples"]
        ticks = samples["kind"] == OVERHEAD_SAMPLES.index("tick")
        steps = [
            np.diff(samples["start"][ticks & (samples["cpu"] == cpu)].astype(np.int64))
            for cpu in np.unique(samples["cpu"])
        ]
        pauses_ns = np.concatenate([*steps, np.zeros(0, np.int64)]) * self.ns_a_cycle
        # An idle CPU leaves ticks out; the next one then comes after several periods.
        periods_ns = [NANOSECONDS["s"] // rate for rate in _TICKS_PER_S]
        matches = [int(np.count_nonzero(np.abs(pauses_ns / period - 1) < 0.1)) for period in periods_ns]
        best = int(np.argmax(matches))
        return periods_ns[best] if matches[best] > 0.1 * len(pauses_ns) else None

    def _flag(self, name: str) -> NDArray[np.bool_]:
        return np.asarray(self.found["chains"]["flags"] & OVERHEAD_FLAGS[name], np.bool_)

    def _of_jobs(self, parts: tuple[str, ...], chosen: NDArray[np.bool_]) -> Samples:
        chains = self.found["chains"]
        bits = sum(1 << JOB_PARTS.index(part) for part in parts)
        return Samples(
            self.part_ns(*parts)[chosen],
            (chains["interrupted"][chosen] & bits) != 0,
            (chains["taken"][chosen] & bits) != 0,
        )

    def _of_pairs(self, kind: str, needs: str | None = None) -> Samples:
        samples = self.found["samples"]
        chosen = samples["kind"] == OVERHEAD_SAMPLES.index(kind)
        if needs is not None:
            chosen &= (samples["flags"] & OVERHEAD_FLAGS[needs]) != 0
        return self._pairs(chosen, np.ones(int(chosen.sum())))

    def _interrupts(self) -> dict[str, Samples]:
        """Give whole interrupts: of those that release jobs the share of one of them, and those of the tick.

        One that also wakes others is charged to the jobs as a whole.
        """
        samples = self.found["samples"]
        interrupts = samples["kind"] == OVERHEAD_SAMPLES.index("interrupt")
        releasing = interrupts & (samples["releases"] > 0)
        others = interrupts & (samples["releases"] == 0) & (samples["ticks"] > 0)
        return {
            "interrupt": self._pairs(releasing, samples["releases"][releasing].astype(np.float64)),
            "tick_interrupt": self._pairs(others, np.ones(int(others.sum()))),
        }

    def _pairs(self, chosen: NDArray[np.bool_], shares: NDArray[np.float64]) -> Samples:
        samples = self.found["samples"]
        flags = samples["flags"][chosen]
        return Samples(
            samples["duration"][chosen] * self.ns_a_cycle / shares,
            (flags & OVERHEAD_FLAGS["interrupted"]) != 0,
            (flags & OVERHEAD_FLAGS["taken"]) != 0,
        )


def measure(trial: "Trial") -> TrialOverheads:
    """Split what the jobs of a trial waited for.

    Raises:
        StealtimeError: Its kernel was not traced, or without the events that it takes; or a file is damaged. The
            message goes on after the name of the trial or its machine.
    """
    result = trial.result(JobsOfTasks)
    path, tracing = _own_trace(trial)
    _check_groups(tracing)
    table = read_columns(trial.table(JOBS), JOBS_SCHEMA)
    threads = np.array([task.thread_id for task in result.tasks], np.int32)
    jobs: StampedJobsDict = {
        "thread": threads[table["task"]],
        "release": table["release"],
        "start": table["start"],
        "finish": table["finish"],
    }
    taken = taken_from(trial)
    why_not = taken if isinstance(taken, str) else None
    one = split(read_events(path, tracing), tracing.tsc_hz, jobs, () if isinstance(taken, str) else taken)
    return replace(one, taken_unknown=why_not)


def split(
    events: "EventsDict", tsc_hz: float, jobs: "StampedJobsDict", taken: Sequence[tuple[int, int]] = ()
) -> TrialOverheads:
    """Split what jobs waited for, by the trace of the kernel that ran them.

    Args:
        events: Of that kernel.
        tsc_hz: The rate of its counter.
        jobs: Stamped by the same counter.
        taken: Stretches in which the host is known to have taken the CPU, by the same counter.

    Raises:
        StealtimeError: The trace is damaged.
    """
    try:
        found = measure_overheads(events, jobs, taken)
    except ValueError as error:
        raise StealtimeError(f"the trace cannot be read: {error}", hint=DAMAGED) from error
    return TrialOverheads(
        found=found,
        ns_a_cycle=1e9 / tsc_hz,
        uncharged=uncharged_of(found, events, jobs, 1e9 / tsc_hz),
        jobs=len(jobs["thread"]),
        start_latency_cycles=jobs["start"].astype(np.int64) - jobs["release"].astype(np.int64),
    )


def joined(trials: Sequence[TrialOverheads]) -> Mapping[str, Samples]:
    """Give the samples of some trials together, without those that there are none of."""
    series = [trial.series for trial in trials]
    together = {name: Samples.together([one[name] for one in series]) for name in series[0]}
    return {name: samples for name, samples in together.items() if len(samples.ns)}


def _own_trace(trial: "Trial") -> tuple[Path, "TracingOutcome"]:
    record = trial.record
    traits = traits_of(record.cell.platform)
    path, tracing = trial.machine_trace_path, None if record.outcome is None else record.outcome.tracing
    if traits.is_native:
        path, tracing = trial.host_trace_path, record.host_tracing
    if path is not None and tracing is not None:
        return path, tracing
    if not traits.is_native and not traits.has_own_kernel_trace:
        raise StealtimeError(
            "its kernel has no trace of its own, so its jobs have latencies and no parts",
            hint="natively and in guests of QEMU overheads can be measured",
        )
    raise StealtimeError("its kernel was not traced", hint="measure with tracing on")


def _check_groups(tracing: "TracingOutcome") -> None:
    for group in _NEEDED_GROUPS:
        reading = tracing.groups.get(group)
        if not isinstance(reading, Value):
            why = getattr(reading, "absent", "not asked for")
            raise StealtimeError(
                f"its kernel was traced without the events {group}: {why}",
                hint="measure the cell again with this version, on a kernel that has them",
            )
    for finding in tracing.findings:
        if finding.code == _THREAD_IDS_UNKNOWN:
            raise StealtimeError(finding.text, hint=finding.hint)
