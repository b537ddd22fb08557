"""The overheads of a run, by machine and number of tasks, for ``stealtime sched``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stealtime.report.claims.statements import JudgedStatement
from stealtime.schedulability.kernel_limits import KernelLimits
from stealtime.schedulability.machine_limits import limits_of
from stealtime.schedulability.measured import MeasuredCondition, MeasuredOverheads, Unmeasured
from stealtime.schedulability.overhead_seen import together
from stealtime.studies.realtime.analysis.overheads import BOUNDARIES, TrialOverheads, joined, measure
from stealtime.studies.realtime.analysis.seed_claims import seed_claims, sentences
from stealtime.studies.realtime.analysis.tracing_shift import tracing_sentences
from stealtime.studies.realtime.results import JobsOfTasks
from stealtime.studies.realtime.task_sets import TaskSetParameters
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime.store.run import Run, Trial


@dataclass(frozen=True)
class MeasuredTrials:
    """The trials of tasks of a run: those whose traces tell overheads, and why the others do not."""

    of_condition: Mapping[tuple[str, int], Sequence[TrialOverheads]]
    """By machine and number of tasks, in that order."""
    unmeasured: Sequence[Unmeasured]
    limits: Mapping[str, KernelLimits | None]
    """By machine, what its kernel may take from real-time threads."""


def measured_overheads(run: "Run") -> MeasuredOverheads:
    """Give what the kernels of a run took, by machine and number of tasks, and which of them did not tell."""
    measured = measured_trials(run)
    conditions = conditions_of(measured.of_condition)
    conditions = [replace(one, kernel_limits=measured.limits.get(one.machine)) for one in conditions]
    remarks = [*tracing_sentences(run), *sentences(seed_claims(conditions))]
    return MeasuredOverheads(conditions, measured.unmeasured, remarks)


def judged_statements(run: "Run", words: Mapping[str, str]) -> list[JudgedStatement]:
    """Judge what the paper of 2013 says in words by a run, of each guest that was alone."""
    return [
        JudgedStatement(
            machine=one.machine,
            name=one.name,
            theirs=words[one.name],
            rule=one.claim,
            verdict=one.verdict,
            evidence=one.evidence,
        )
        for one in seed_claims(conditions_of(measured_trials(run).of_condition))
        if one.name in words
    ]


def measured_trials(run: "Run") -> MeasuredTrials:
    """Measure each traced trial of tasks; those of one machine and number of tasks are taken together."""
    trials = [trial for trial in run.trials if trial.record.cell.probe == "rtload"]
    measured: dict[tuple[str, int], list[TrialOverheads]] = {}
    reasons: dict[tuple[str, str], int] = {}
    limits: dict[str, KernelLimits | None] = {}
    for trial, machine in zip(trials, _machines(trials), strict=True):
        try:
            one = _measure(trial)
        except StealtimeError as error:
            reasons[machine, error.message] = reasons.get((machine, error.message), 0) + 1
            continue
        if one is not None:
            limits.setdefault(machine, _limits(trial))
            measured.setdefault((machine, len(trial.result(JobsOfTasks).tasks)), []).append(one)
    told = {machine for machine, _ in (*measured, *reasons)}
    for machine in _machines(trials):
        # Beside traced trials those without tracing are only there to compare with.
        if machine not in told:
            because = "measured without tracing, and overheads are in a kernel's trace"
            reasons[machine, because] = reasons.get((machine, because), 0) + 1
    return MeasuredTrials(
        dict(sorted(measured.items())),
        [Unmeasured(machine, count, because) for (machine, because), count in sorted(reasons.items())],
        limits,
    )


def conditions_of(measured: Mapping[tuple[str, int], Sequence[TrialOverheads]]) -> list[MeasuredCondition]:
    return [_condition(*key, trials) for key, trials in measured.items()]


def _measure(trial: "Trial") -> TrialOverheads | None:
    """Measure a trial; None where it was not traced on purpose."""
    record = trial.record
    if record.state == "failed":
        raise StealtimeError("failed" if record.failure is None else f"failed: {record.failure.message}")
    return measure(trial) if record.cell.traced else None


def _limits(trial: "Trial") -> KernelLimits | None:
    machine = trial.record.machine
    return None if machine is None else limits_of(machine.agent_facts)


def _machines(trials: "Sequence[Trial]") -> list[str]:
    """Name the machine of each trial, with its policy and polluters only where a run has several."""
    parameters = [TaskSetParameters.of(trial.record.cell) for trial in trials]
    policies = {one.policy for one in parameters}
    polluters = {one.polluters for one in parameters}
    names = []
    for trial, own in zip(trials, parameters, strict=True):
        cell = trial.record.cell
        words = [cell.platform, *([] if cell.scenario == "alone" else [cell.scenario])]
        if len(policies) > 1:
            words.append(own.policy)
        if len(polluters) > 1:
            words.append(f"{own.polluters} {'polluter' if own.polluters == 1 else 'polluters'}")
        names.append(" ".join(words))
    return names


def _unseen(trials: Sequence[TrialOverheads]) -> list[str]:
    """Say how many jobs give no sample because their switch is not in the trace."""
    followed = sum(int(np.count_nonzero(trial.is_followed)) for trial in trials)
    unseen = sum(trial.unseen_switches for trial in trials)
    if not unseen:
        return []
    return [
        f"{unseen:,} of {followed:,} jobs that were followed give no sample of scheduling and context switch: the "
        "kernel left the switch to them out of its trace (most switches out of idleness on Linux 6.18; a polluter "
        "keeps the CPU from idling)"
    ]


def _no_requests(trials: Sequence[TrialOverheads]) -> list[str]:
    """Say why there is no inter-processor interrupt."""
    if any(len(trial.series["inter_processor_interrupt"].ns) for trial in trials):
        return []
    return [
        "inter-processor interrupts: not measured, because no other CPU woke a real-time thread here while a less "
        "urgent one ran"
    ]


def _condition(machine: str, tasks: int, trials: Sequence[TrialOverheads]) -> MeasuredCondition:
    discards: dict[str, int] = {}
    for trial in trials:
        for what, counted in trial.found["discards"].items():
            for reason, count in counted.items():  # type: ignore[attr-defined]
                discards[f"{what}.{reason}"] = discards.get(f"{what}.{reason}", 0) + count
    periods = [trial.tick_period_ns for trial in trials if trial.tick_period_ns is not None]
    unknown = dict.fromkeys(trial.taken_unknown for trial in trials if trial.taken_unknown)
    return MeasuredCondition(
        machine=machine,
        tasks=tasks,
        samples=joined(trials),
        boundaries=BOUNDARIES,
        discards={name: count for name, count in discards.items() if count},
        tick_period_ns=min(periods, default=None),
        uncharged=together(trial.uncharged for trial in trials),
        remarks=(
            *_unseen(trials),
            *_no_requests(trials),
            *(f"when the host took the CPU is not known: {why}" for why in unknown),
        ),
    )
