"""The overheads of a run, by machine and number of tasks, for ``stealtime sched``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stealtime.schedulability.measured import MeasuredCondition
from stealtime.studies.realtime.analysis.overheads import BOUNDARIES, TrialOverheads, joined, measure
from stealtime.studies.realtime.stored import JobsOfTasks
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime.store.run import Run, Trial


def measured_overheads(run: "Run") -> list[MeasuredCondition]:
    """Give what the kernels of a run took, by machine and number of tasks.

    Raises:
        StealtimeError: As :func:`measured_trials`.
    """
    return conditions_of(measured_trials(run))


def measured_trials(run: "Run") -> dict[tuple[str, int], list[TrialOverheads]]:
    """Measure each traced trial of tasks; those of one machine and number of tasks are taken together.

    Returns:
        By machine and number of tasks, in that order.

    Raises:
        StealtimeError: No trial tells them; it says why the first does not.
    """
    trials = [trial for trial in run.trials if _is_traced(trial)]
    machines = _machines([(trial, trial.result(JobsOfTasks)) for trial in trials])
    measured: dict[tuple[str, int], list[TrialOverheads]] = {}
    refusals: list[StealtimeError] = []
    for trial, machine in zip(trials, machines, strict=True):
        try:
            one = measure(trial)
        except StealtimeError as error:
            refusals.append(error)
            continue
        measured.setdefault((machine, len(trial.result(JobsOfTasks).tasks)), []).append(one)
    if not measured and refusals:
        raise refusals[0]
    return dict(sorted(measured.items()))


def conditions_of(measured: Mapping[tuple[str, int], list[TrialOverheads]]) -> list[MeasuredCondition]:
    """Give the samples of trials that are measured."""
    return [_condition(*key, trials) for key, trials in measured.items()]


def _is_traced(trial: "Trial") -> bool:
    record = trial.record
    return record.state == "measured" and record.cell.probe == "rtload" and record.cell.traced


def _machines(trials: "Sequence[tuple[Trial, JobsOfTasks]]") -> list[str]:
    """Name the machine of each trial, with its policy and polluters only where a run has several."""
    policies = {result.policy for _, result in trials}
    polluters = {result.polluters for _, result in trials}
    names = []
    for trial, result in trials:
        cell = trial.record.cell
        words = [cell.platform, *([] if cell.scenario == "alone" else [cell.scenario])]
        if len(policies) > 1:
            words.append(result.policy)
        if len(polluters) > 1:
            words.append(f"{result.polluters} {'polluter' if result.polluters == 1 else 'polluters'}")
        names.append(" ".join(words))
    return names


def _unknown(reason: str) -> str:
    return f"when the host took the CPU is not known: {reason}"


def _condition(machine: str, tasks: int, trials: list[TrialOverheads]) -> MeasuredCondition:
    discards: dict[str, int] = {}
    for trial in trials:
        for what, counted in trial.found["discards"].items():
            for reason, count in counted.items():  # type: ignore[attr-defined]
                discards[f"{what}.{reason}"] = discards.get(f"{what}.{reason}", 0) + count
    periods = [trial.tick_period_ns for trial in trials if trial.tick_period_ns is not None]
    return MeasuredCondition(
        machine=machine,
        tasks=tasks,
        samples=joined(trials),
        boundaries=BOUNDARIES,
        discards={name: count for name, count in discards.items() if count},
        tick_period_ns=min(periods, default=None),
        remarks=tuple(dict.fromkeys(_unknown(trial.taken_unknown) for trial in trials if trial.taken_unknown)),
    )
