"""The overheads of a run, by machine and number of tasks, for ``stealtime sched``."""

from typing import TYPE_CHECKING

from stealtime.schedulability.measured import MeasuredCondition
from stealtime.studies.realtime.analysis.overheads import BOUNDARIES, TrialOverheads, joined, measure
from stealtime.studies.realtime.stored import JobsOfTasks
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from stealtime.store.run import Run, Trial


def measured_overheads(run: "Run") -> list[MeasuredCondition]:
    """Measure each traced trial of tasks; those of one machine and number of tasks are taken together.

    Raises:
        StealtimeError: No trial tells them; it says why the first does not.
    """
    measured: dict[tuple[str, int], list[TrialOverheads]] = {}
    refusals: list[StealtimeError] = []
    for trial in run.trials:
        record = trial.record
        if record.state != "measured" or record.cell.probe != "rtload" or not record.cell.traced:
            continue
        try:
            one = measure(trial)
        except StealtimeError as error:
            refusals.append(error)
            continue
        measured.setdefault((_machine(trial), len(trial.result(JobsOfTasks).tasks)), []).append(one)
    if not measured and refusals:
        raise refusals[0]
    return [_condition(*key, trials) for key, trials in sorted(measured.items())]


def _machine(trial: "Trial") -> str:
    cell, result = trial.record.cell, trial.result(JobsOfTasks)
    words = [cell.platform]
    if cell.scenario != "alone":
        words.append(cell.scenario)
    if result.policy != "fifo":
        words.append(result.policy)
    if result.polluters:
        words.append(f"{result.polluters} polluters")
    return " ".join(words)


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
