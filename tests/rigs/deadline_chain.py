"""The whole chain on the machine itself: measured overheads and supply, a verdict at its edge, and the tasks run.

1. ``observe``: one ``stealtime run`` of ``rtload``, traced, and of ``tick``: overheads and supply.
2. ``edge_sets``: sets drawn from seeds, their costs multiplied by the margin that the analysis finds under these, so
   that each is just schedulable; what says so in the end is ``stealtime sched analyze``.
3. ``run_sets``: one ``stealtime run`` of these sets, traced, and of one that asks for more than the CPU.

A job's work is 95 % of its cost, as by default: the rest is for what the calibration does not know of. Of the set that
asks for too much it is all of the cost.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from kept_deadlines import Exceeded, RanJobs, exceeding, own_time

from stealtime import _core
from stealtime.cli.sched_sources import overheads_of, supply_of
from stealtime.schedulability.analysis import Terms, question_of
from stealtime.schedulability.generation import Recipe, generate
from stealtime.schedulability.overheads import OverheadModel
from stealtime.schedulability.supply import Supply
from stealtime.schedulability.task_file import TaskFile, TaskTable, write_task_file
from stealtime.store.run import Trial, find_run
from stealtime.studies.realtime.analysis.traces import read_columns
from stealtime.studies.realtime.stored import JOBS, JobsOfTasks

STEALTIME = str(Path(sys.executable).parent / "stealtime")
MACHINE = "native"
TASKS = 4
MOST_UTILIZATION = 0.9
"""A tenth of the CPU stays for ordinary threads: Linux 6.12 and newer takes 5 % for them by force, if need be, which no
analysis here knows of."""
LEAST_UTILIZATION = 0.1
OVER = 1.05
PERIODS = ("moderate", "long")
"""Where the machine's own worst is too much for short periods longer ones are left."""
TOTALS = (0.8, 0.6, 0.4, 0.25, 0.15)


@dataclass(frozen=True)
class Observed:
    """What the analysis is made under."""

    run: str
    model: OverheadModel
    supply: Supply

    @property
    def terms(self) -> Terms:
        """Of all analyses here."""
        return Terms(overheads=self.model, supply=self.supply)

    @property
    def charged(self) -> dict[str, int]:
        """The overheads in ns."""
        return self.model.at(TASKS)

    @property
    def text(self) -> str:
        """For people."""
        overheads = ", ".join(f"{name.replace('_', ' ')} {ns / 1000:.0f} us" for name, ns in self.charged.items())
        longest = max((length for _, length in self.supply.gaps), default=0)
        return f"worst overheads: {overheads}; longest gap of the supply {longest / 1e6:.2f} ms"


@dataclass(frozen=True)
class EdgeSet:
    """A set that is just schedulable."""

    name: str
    file: TaskFile
    periods: str

    @property
    def utilization(self) -> float:
        """Of the costs."""
        return float(sum(task.utilization for task in self.file.tasks))


@dataclass(frozen=True)
class Kept:
    """What became of a set that was called schedulable."""

    name: str
    utilization: float
    jobs: int
    missed: int
    worst_of_bound: float
    """The longest response as a share of its task's bound."""
    steal_ns: int
    """By the kernel's own count, in steps of 10 ms."""
    exceeded: tuple[Exceeded, ...]

    @property
    def text(self) -> str:
        """For people."""
        evidence = "".join(f"; {one.text}" for one in self.exceeded[:3])
        return (
            f"{self.name}, utilization {self.utilization:.2f}: {self.missed} of {self.jobs} jobs missed, the longest "
            f"response is {100 * self.worst_of_bound:.0f} % of its bound, steal {self.steal_ns / 1e6:.0f} ms{evidence}"
        )


class Chain:
    """Runs everything with its runs below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "XDG_DATA_HOME": str(folder)}

    def observe(self, duration_s: int) -> Observed:
        """Measure overheads and supply for so long each."""
        run = self._run(
            "observed",
            f'[[probes]]\nprobe = "tick"\nduration = "{duration_s}s"\n'
            f'[[probes]]\nprobe = "rtload"\nlaw = "light-uniform"\nk = {TASKS}\npolluters = 1\ntracing = "on"\n'
            f'duration = "{duration_s}s"\n',
        )
        (model,) = overheads_of(run, MACHINE, None)
        return Observed(run, model, supply_of(run, MACHINE))

    def edge_sets(self, observed: Observed, count: int) -> list[EdgeSet]:
        """Find sets that are just schedulable; as many as are asked for, or none where the machine rules all out."""
        found = [edge_set(f"edge-{number}", observed.terms, seed=number) for number in range(1, count + 1)]
        return [one for one in found if one is not None]

    def verdict(self, observed: Observed, edge: EdgeSet) -> dict[str, Any]:
        """Have ``stealtime sched analyze`` judge a set, as a user would."""
        path = self.folder / f"{edge.name}.toml"
        path.write_text(write_task_file(edge.file))
        told = self._stealtime(
            "sched", "analyze", str(path), "--overheads", observed.run, "--supply", observed.run, "--machine", MACHINE,
            "--json",
        )  # fmt: skip
        document: dict[str, Any] = json.loads(told)
        return document

    def run_sets(self, observed: Observed, edges: Sequence[EdgeSet], duration_s: int) -> list[Kept]:
        """Run sets that are just schedulable."""
        trials = self._trials("".join(_table(edge.name, edge.file, duration_s, 'tracing = "on"') for edge in edges))
        return [_kept(edge, trials[edge.name], observed) for edge in edges]

    def run_over(self, edge: EdgeSet, duration_s: int) -> tuple[int, int]:
        """Run a set with its costs enlarged to 1.05 CPUs; give how many jobs missed, and of how many."""
        over = scaled(edge.file, Fraction(OVER) / Fraction(edge.utilization))
        assert sum(task.utilization for task in over.tasks) > (1 + OVER) / 2, "a cost was cut to its period"
        trials = self._trials(_table("over", over, duration_s, 'work = 100\nover_utilized = "keep"'))
        result = trials["over"].result(JobsOfTasks)
        return result.missed, result.released

    def _trials(self, probes: str) -> dict[str, Trial]:
        run = find_run(self._run("sets", probes))
        return {str(trial.record.cell.parameters["set"]): trial for trial in run.measured}

    def _run(self, name: str, probes: str) -> str:
        path = self.folder / f"{name}.toml"
        path.write_text(f'name = "{name}"\nplatforms = ["{MACHINE}"]\nlift_rt_throttling = true\n{probes}')
        document = json.loads(self._stealtime("run", str(path), "--json"))
        # A folder stands for its run wherever a run is named.
        return str(self.folder / "stealtime/runs" / document["run_id"])

    def _stealtime(self, *arguments: str) -> str:
        ended = subprocess.run(
            [STEALTIME, *arguments], env=self.environment, capture_output=True, text=True, check=False
        )
        # 4: a cell is limited in a way that its own page tells.
        if ended.returncode not in (0, 4):
            raise AssertionError(f"stealtime {' '.join(arguments)} ended with {ended.returncode}: {ended.stderr}")
        return ended.stdout


def edge_set(name: str, terms: Terms, seed: int) -> EdgeSet | None:
    """Draw a set and make its costs as large as it stays schedulable with; None where no set of ours is.

    Args:
        name: Of the set.
        terms: Of the analysis.
        seed: Of the drawing; the same draws the same.
    """
    for periods in PERIODS:
        for total in TOTALS:
            drawn = generate(Recipe(law="randfixedsum", per_cpu=TASKS, seed=seed, total=total, periods=periods))
            tasks = drawn.on(0)
            millionths = _core.cost_margin(question_of(tasks, terms, terms.overheads.at(TASKS)))
            if millionths is None:
                continue
            utilization = sum(task.utilization for task in tasks)
            factor = min(Fraction(millionths, _core.PARTS_PER_MILLION), Fraction(MOST_UTILIZATION) / utilization)
            edge = EdgeSet(name, scaled(drawn, factor), periods)
            if edge.utilization >= LEAST_UTILIZATION:
                return edge
    return None


def scaled(file: TaskFile, factor: Fraction) -> TaskFile:
    """Multiply all costs, rounded down."""
    tasks = [task.model_copy(update={"cost": min(task.period, max(1, int(task.cost * factor)))}) for task in file.tasks]
    return TaskFile.model_construct(tasks=tasks, generated=None)


def _table(name: str, file: TaskFile, duration_s: int, more: str) -> str:
    tasks = ", ".join(
        f'{{ name = "{task.name}", cost = "{task.cost}ns", period = "{task.period}ns" }}' for task in file.tasks
    )
    return (
        f'[[probes]]\nprobe = "rtload"\nset = "{name}"\ntasks = [{tasks}]\npolluters = 1\nduration = "{duration_s}s"\n'
        f"{more}\n"
    )


def _kept(edge: EdgeSet, trial: Trial, observed: Observed) -> Kept:
    tasks = edge.file.on(0)
    result = trial.result(JobsOfTasks)
    jobs = _ran_jobs(trial, result)
    bounds = np.array([response_bound(tasks, observed.terms, number, 0) or 0 for number in range(len(tasks))])
    outcome = trial.record.outcome
    steal_ns = 0 if outcome is None else outcome.counters.get("steal_ns", 0)
    return Kept(
        name=edge.name,
        utilization=edge.utilization,
        jobs=result.released,
        missed=result.missed,
        worst_of_bound=float(((jobs.finish - jobs.release) / bounds[jobs.task]).max()),
        steal_ns=steal_ns,
        exceeded=tuple(
            exceeding(
                jobs,
                lambda task, blocking_ns: response_bound(tasks, observed.terms, task, blocking_ns),
                [task.cost for task in tasks],
                observed.charged,
                observed.model.tick_period_ns,
            )
        ),
    )


def response_bound(tasks: Sequence[TaskTable], terms: Terms, number: int, blocking_ns: int) -> int | None:
    """Bound the response of one task, blocked for so long besides; None where there is no bound."""
    blocked = [
        task.model_copy(update={"blocking": blocking_ns or None}) if place == number else task
        for place, task in enumerate(tasks)
    ]
    question = question_of(blocked, terms, terms.overheads.at(len(tasks)))
    responses = _core.analyze_tasks(question)["responses"] or []
    bound, _, _ = responses[number]
    return bound


def _ran_jobs(trial: Trial, result: JobsOfTasks) -> RanJobs:
    columns = read_columns(trial.table(JOBS), ["task", "release", "start", "finish", "cpu"])
    task, release, start, finish = (columns[name].astype(np.int64) for name in ("task", "release", "start", "finish"))
    path, tracing = trial.host_trace_path, trial.record.host_tracing
    assert path is not None, f"{trial.record.trial_id} was not traced"
    assert tracing is not None
    assert tracing.lost == 0, tracing
    trace = {name: column.astype(np.int64) for name, column in _trace(path).items()}
    own = np.zeros(len(task), np.int64)
    for number, one in enumerate(result.tasks):
        mine = task == number
        own[mine] = own_time(trace, int(columns["cpu"][0]), one.thread_id, start[mine], finish[mine])
    # On a time line of its own, in ns: differences from the first release are exact enough.
    first, units_a_ns = int(release.min()), result.conversion.tsc_per_ns
    in_ns = [((value - first) / units_a_ns).astype(np.int64) for value in (release, finish)]
    return RanJobs(task, *in_ns, own=(own / units_a_ns).astype(np.int64))


def _trace(path: Path) -> Mapping[str, Any]:
    table = pq.read_table(path, columns=["time", "cpu", "kind", "other"])
    return {name: table.column(name).to_numpy() for name in table.column_names}
