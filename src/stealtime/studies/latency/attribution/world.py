"""The traces of a trial as input of the Rust core, by platform; missing traces are named."""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stealtime._core import EVENT_KINDS, attribute_native, attribute_user_mode, attribute_virtual
from stealtime.lab.platforms.affinity import HostThread
from stealtime.lab.platforms.traits import traits_of
from stealtime.store.model import TrialRecord
from stealtime.store.run import Trial
from stealtime.store.time_line import ClocksNotAligned, allowed_offsets, check_same_counter, told_offset
from stealtime.studies.latency.attribution.model import TimeLine, TraceQuality
from stealtime.studies.latency.attribution.not_attributed import NotAttributed
from stealtime.studies.latency.attribution.traces import (
    absent_groups,
    host_labels,
    load_trace,
    machine_labels,
    probe_threads,
)
from stealtime.studies.latency.probes.catalogue import PROBES
from stealtime.vocabulary.findings import Finding
from stealtime.wire.message import TracingOutcome, TrialOutcome

if TYPE_CHECKING:
    from stealtime._core import AttributionDict, FollowedDict, SpikesDict, TraceDict, UserModeDict

_TRACE_HINT = 'measure the cell again with tracing (`tracing = "on"` in the campaign)'
_MACHINE_COSTS = {
    "sched": "which thread ran instead of the probe is not known",
    "interrupts": "the interrupts of devices are unexplained",
    "vectors": "timer ticks are unexplained",
    "softirqs": "softirqs are unexplained, or part of the interrupt before them",
}
_HOST_COSTS = {
    "sched": "which thread ran instead of the machine is not known",
    "interrupts": "the host's device interrupts are unexplained",
    "vectors": "the host's timer interrupts are unexplained",
    "softirqs": "the host's softirqs are unexplained",
}
_USER_MODE_COSTS = {
    **_HOST_COSTS,
    "signals": "timer ticks of the guest are counted as visits to its kernel",
    "syscalls": "which thread of the guest ran is not known",
}
_KVM_COSTS = {"kvm": "VM exits are unexplained"}
_SWITCH, _WAKING = EVENT_KINDS.index("switch"), EVENT_KINDS.index("waking")
_THREAD_IDS_UNKNOWN = "thread_ids_unknown"
"""The finding of a recording that numbers threads otherwise than whoever asked for it (``crates/trace``)."""
_TASK_TRACED = 8
"""The state of a process that stopped for its tracer (include/linux/sched.h)."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class World:
    """What the core found, and what it stands on."""

    found: "AttributionDict"
    time_line: TimeLine
    trace: TraceQuality
    has_host: bool
    """Whether the host's view of the machine is part of it."""


@dataclass(frozen=True)
class _Case:
    """A trial with what is needed of its record."""

    trial: Trial
    record: TrialRecord
    outcome: TrialOutcome
    spikes: "SpikesDict"

    @property
    def probe(self) -> "FollowedDict":
        return {
            "threads": probe_threads(self.outcome),
            "real_time": self.outcome.placement.policy == "SCHED_FIFO",
            "limit_lifted": self.outcome.request.lift_rt_throttling,
        }

    def host(self) -> tuple["TraceDict", TracingOutcome] | None:
        """Load the host's trace; CPUs matter where the machine may run."""
        path, tracing = self.trial.host_trace_path, self.record.host_tracing
        if path is None or tracing is None:
            return None
        labels = host_labels(self.record)
        if traits_of(self.record.cell.platform).is_native:
            labels += machine_labels(self.outcome)
            cpus = self.outcome.placement.cpus
        else:
            sets = self.record.placement.vcpu_cpus if self.record.placement is not None else []
            cpus = [cpu for one in sets for cpu in one]
        return load_trace(path, tracing, labels, cpus or None), tracing

    def machine(self) -> tuple["TraceDict", TracingOutcome] | None:
        path, tracing = self.trial.machine_trace_path, self.outcome.tracing
        if path is None or tracing is None:
            return None
        return load_trace(path, tracing, machine_labels(self.outcome), self.outcome.placement.cpus), tracing


def split(trial: Trial, outcome: TrialOutcome, spikes: "SpikesDict") -> World:
    """Split spikes of ``trial`` by the traces that it has.

    Args:
        trial: Measured.
        outcome: Of its probe.
        spikes: In cycles of the machine's counter.

    Raises:
        NotAttributed: It was not traced, or the clocks cannot be aligned.
        StealtimeError: A trace is damaged.
    """
    case = _Case(trial, trial.record, outcome, spikes)
    traits = traits_of(trial.record.cell.platform)
    split_by = _native if traits.is_native else _user_mode if traits.is_seen_from_host else _virtual
    try:
        world = split_by(case)
    except ClocksNotAligned as error:
        raise NotAttributed(error.message, hint=error.hint) from error
    except ValueError as error:
        raise NotAttributed(f"{trial.record.trial_id}: {error}", hint=_TRACE_HINT) from error
    unseen = world.found["unseen_switches"]
    if unseen == 0:
        return world
    step = f"{unseen} switches of threads were not recorded although no loss was reported: spikes there are not judged"
    return replace(world, trace=world.trace.model_copy(update={"steps": [*world.trace.steps, step]}))


def _native(case: _Case) -> World:
    host = case.host()
    if host is None:
        raise NotAttributed(f"{case.record.trial_id} was not traced", hint=_TRACE_HINT)
    trace, tracing = host
    _refuse_unfollowed(case, host, [case.probe["threads"]])
    if case.record.alignment is not None:
        check_same_counter(case.record.alignment, tracing)
    found = attribute_native(trace, case.probe, case.spikes)
    steps = absent_groups("host", tracing, _MACHINE_COSTS)
    # Natively the host is the machine, and its trace is told as the host's.
    quality = TraceQuality(
        host_events=tracing.events, host_lost=tracing.lost, machine_events=0, machine_lost=0, steps=steps
    )
    return World(found, _same_counter(), quality, has_host=True)


def _user_mode(case: _Case) -> World:
    host = case.host()
    if host is None:
        raise NotAttributed(
            f"the host of {case.record.trial_id} was not traced, and a User-Mode Linux kernel cannot trace itself",
            hint=_TRACE_HINT,
        )
    trace, tracing = host
    _refuse_unfollowed(case, host, [[thread.tid for thread in _threads(case.record, "vcpu")]])
    if case.record.alignment is not None:
        check_same_counter(case.record.alignment, tracing)
    kernel = _kernel_threads(trace, [thread.tid for thread in _threads(case.record, "vcpu")])
    steps = absent_groups("host", tracing, _USER_MODE_COSTS)
    steps.append("a User-Mode Linux kernel cannot be traced: what happens inside it is one cause, but for timer ticks")
    if not kernel:
        raise NotAttributed(
            f"the host's trace of {case.record.trial_id} shows no process of the guest that drives another:"
            " its kernel cannot be told from its user code",
            hint=_TRACE_HINT,
        )
    # The guest's threads have numbers of their own, and its processes are followed, not named.
    own_labels = {trace["labels"].index(f"vCPU ({thread.name})") for thread in _threads(case.record, "vcpu")}
    trace["labelled"] = [entry for entry in trace["labelled"] if entry[1] not in own_labels]
    guest: UserModeDict = {
        "kernel_threads": kernel,
        "pointers": [
            (thread.thread_pointer, None if thread.role == "probe" else thread.role)
            for thread in case.outcome.threads
            if thread.thread_pointer
        ],
        "probe_never_sleeps": PROBES[case.record.cell.probe].is_busy,
        "real_time": False,
    }
    found = attribute_user_mode(trace, guest, case.spikes)
    quality = TraceQuality(
        host_events=tracing.events, host_lost=tracing.lost, machine_events=0, machine_lost=0, steps=steps
    )
    return World(found, _same_counter(), quality, has_host=True)


def _virtual(case: _Case) -> World:
    host, machine = case.host(), case.machine()
    inner = None if machine is None else machine[1]
    if machine is not None:
        _refuse_unfollowed(case, machine, [case.probe["threads"]])
    vcpus = _vcpus(case.record)
    why_not = None if host is None else _why_not_followed(host[1], host[0], _measured(case, vcpus))
    if host is None or (why_not is not None and machine is not None):
        if machine is None:
            raise NotAttributed(f"{case.record.trial_id} was not traced", hint=_TRACE_HINT)
        why_not = why_not or "the host was not traced"
        steps = [f"{why_not}: what the host takes is unexplained", *_machine_steps(machine[1])]
        found = attribute_native(machine[0], case.probe, case.spikes)
        time_line = TimeLine(offset_cycles=0, error_ns=0.0, method="the machine's own counter: it alone is followed")
        return World(found, time_line, _quality(None, machine[1], steps), has_host=False)
    trace, tracing = host
    if case.record.alignment is None:
        raise NotAttributed("clocks cannot be aligned: none were exchanged", hint=_TRACE_HINT)
    offsets = allowed_offsets(case.record.alignment, tracing)
    told = told_offset(case.record.alignment, offsets)
    if not vcpus:
        raise NotAttributed(f"no thread of the host is known to be a virtual CPU of {case.record.trial_id}")
    _refuse_unfollowed(case, host, _measured(case, vcpus))
    if inner is None and case.record.machine is not None:
        # Nothing says where the probe was but the CPU that it was asked for.
        vcpus = [vcpus[min(case.record.machine.measured_cpu, len(vcpus) - 1)]]
    followed: list[FollowedDict] = [
        {"threads": [thread], "real_time": False, "limit_lifted": False} for thread in vcpus
    ]
    found = attribute_virtual(
        trace,
        followed,
        offsets if told is None else (told, told),
        None if machine is None else machine[0],
        case.probe,
        case.spikes,
    )
    steps = absent_groups("host", tracing, _HOST_COSTS)
    if "kvm" in case.record.cell.platform:
        steps += absent_groups("host", tracing, _KVM_COSTS)
    steps += _machine_steps(inner)
    return World(
        found,
        _narrowed(found, offsets, tracing, is_told=told is not None),
        _quality(tracing, inner, steps),
        has_host=True,
    )


def _refuse_unfollowed(case: _Case, traced: tuple["TraceDict", TracingOutcome], groups: list[list[int]]) -> None:
    """Raise :exc:`NotAttributed` where the trace does not tell of each group of threads that is followed as one."""
    trace, tracing = traced
    why_not = _why_not_followed(tracing, trace, groups)
    if why_not is not None:
        unknown = _thread_ids_unknown(tracing)
        hint = _TRACE_HINT if unknown is None else unknown.hint
        raise NotAttributed(f"{case.record.trial_id}: {why_not}", hint=hint)


def _why_not_followed(tracing: TracingOutcome, trace: "TraceDict", groups: list[list[int]]) -> str | None:
    """Say why threads cannot be followed through a trace: what is not in it must not look as if nothing was lost."""
    unknown = _thread_ids_unknown(tracing)
    if unknown is not None:
        # Its ids may be there by chance: low ones of a container are kernel threads of the host.
        return unknown.text
    names_other = (trace["kind"] == _SWITCH) | (trace["kind"] == _WAKING)
    for threads in groups:
        is_told = np.isin(trace["thread"], threads) | (names_other & np.isin(trace["other"], threads))
        if not is_told.any():
            numbers = ", ".join(map(str, threads)) or "(none is known)"
            return f"no event of the trace is of the thread that is to be followed: {numbers}"
    return None


def _thread_ids_unknown(tracing: TracingOutcome) -> Finding | None:
    return next((finding for finding in tracing.findings if finding.code == _THREAD_IDS_UNKNOWN), None)


def _measured(case: _Case, vcpus: list[int]) -> list[list[int]]:
    """Give the threads of the virtual CPUs that the probe may use, each to be followed alone."""
    return [[vcpus[cpu]] for cpu in case.outcome.placement.cpus if cpu < len(vcpus)]


def _kernel_threads(trace: "TraceDict", own: list[int]) -> list[int]:
    """Find the guest's kernel among its threads: it wakes those that stopped for their tracer."""
    thread, other = trace["thread"], trace["other"]
    stopped = thread[(trace["kind"] == _SWITCH) & ((trace["value"] & _TASK_TRACED) != 0)]
    stubs = np.intersect1d(stopped, own)
    tracers = thread[(trace["kind"] == _WAKING) & np.isin(other, stubs)]
    return [int(one) for one in np.setdiff1d(np.intersect1d(tracers, own), stubs)]


def _machine_steps(tracing: TracingOutcome | None) -> list[str]:
    if tracing is None:
        return ["the machine was not traced: its interrupts, softirqs and threads are unexplained"]
    return absent_groups("machine", tracing, _MACHINE_COSTS)


def _quality(host: TracingOutcome | None, machine: TracingOutcome | None, steps: list[str]) -> TraceQuality:
    return TraceQuality(
        host_events=0 if host is None else host.events,
        host_lost=0 if host is None else host.lost,
        machine_events=0 if machine is None else machine.events,
        machine_lost=0 if machine is None else machine.lost,
        steps=steps,
    )


def _same_counter() -> TimeLine:
    return TimeLine(
        offset_cycles=0, error_ns=0.0, method="one counter; the exchanges of clocks are in agreement with that"
    )


def _narrowed(found: "AttributionDict", exchanged: tuple[int, int], host: TracingOutcome, *, is_told: bool) -> TimeLine:
    low, high = found["offsets"]
    to_ns = 1e9 / host.tsc_hz
    by_exchanges_ns = (exchanged[1] - exchanged[0]) / 2 * to_ns
    method = f"exchanges of clocks before and after the trial (+- {by_exchanges_ns:.0f} ns)"
    if is_told:
        method = f"the offset that the hypervisor adds, which the {method} allow"
    if found["narrowed_by"] > 0:
        method += (
            f", narrowed by {found['narrowed_by']} stretches in which the vCPU's thread was off the host's CPUs and"
            " the machine cannot have had an event"
        )
    return TimeLine(offset_cycles=(low + high) // 2, error_ns=(high - low) / 2 * to_ns, method=method)


def _threads(record: TrialRecord, role: str) -> list[HostThread]:
    return [] if record.machine is None else [thread for thread in record.machine.threads if thread.role == role]


def _vcpus(record: TrialRecord) -> list[int]:
    """Give the threads of virtual CPU 0, 1 ...: their names count them (``CPU 0/TCG``)."""

    def number(thread: HostThread) -> int:
        found = _NUMBER.search(thread.name)
        return int(found.group()) if found else thread.tid

    return [thread.tid for thread in sorted(_threads(record, "vcpu"), key=number)]
