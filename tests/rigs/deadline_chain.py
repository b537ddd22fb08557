"""The whole chain on the machine itself: measured overheads and supply, a verdict at its edge, and the tasks run.

1. ``observe``: one ``stealtime run`` of ``rtload``, traced, and of ``tick``: overheads and supply.
2. ``edge_sets``: sets drawn from seeds, their costs multiplied by the margin that the analysis finds under these, so
   that each is just schedulable; what says so in the end is ``stealtime sched analyze``. Where the supply that was seen
   rules out all sets of a tenth of a CPU, they are judged without it, and the sets say so.
3. ``run_sets``: one ``stealtime run`` of these sets, traced; ``run_over``: of one that asks for more than the CPU.

A job's work is 95 % of its cost, as by default: the rest is for what the calibration does not know of. Of the set that
asks for too much it is all of the cost.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from kept_deadlines import Exceeded, RanJobs, exceeding, own_time

from stealtime import _core
from stealtime.cli.sched_sources import overheads_of, supply_of
from stealtime.schedulability.generation import Recipe, generate
from stealtime.schedulability.overheads import OverheadModel
from stealtime.schedulability.question import Terms, question_of
from stealtime.schedulability.supply import DEDICATED, Supply
from stealtime.schedulability.task_file import TaskFile, TaskTable, write_task_file
from stealtime.store.columns import read_columns
from stealtime.store.run import Trial, find_run
from stealtime.store.surroundings import TRACE_SCHEMA
from stealtime.studies.realtime.analysis.jobs import JOBS_SCHEMA
from stealtime.studies.realtime.results import JOBS, JobsOfTasks

STEALTIME = str(Path(sys.executable).parent / "stealtime")
MACHINE = "native"
TASKS = 4
MOST_UTILIZATION = 0.9
"""A tenth of the CPU stays for ordinary threads: Linux 6.12 and newer takes 5 % for them by force, if need be, which
this chain does not charge: RT throttling is lifted, and what is left is enough for the fair server."""
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
    def charged(self) -> dict[str, int]:
        """The overheads in ns."""
        return self.model.at(TASKS)

    @property
    def text(self) -> str:
        """For people."""
        overheads = ", ".join(f"{name.replace('_', ' ')} {ns / 1000:.0f} us" for name, ns in self.charged.items())
        longest = max((int(one.length_ns.max(initial=0)) for one in self.supply.observations), default=0)
        return f"worst overheads: {overheads}; longest gap of the supply {longest / 1e6:.2f} ms"


@dataclass(frozen=True)
class EdgeSet:
    """A set that is just schedulable."""

    name: str
    file: TaskFile
    terms: Terms
    """Under which it is."""

    @property
    def utilization(self) -> float:
        """Of the costs."""
        return float(sum(task.utilization for task in self.file.tasks))


@dataclass(frozen=True)
class Kept:
    """What became of a set that was called schedulable."""

    name: str
    supply: str
    """That it was judged under."""
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
            f"{self.name}, utilization {self.utilization:.2f}, schedulable on {self.supply}: {self.missed} of "
            f"{self.jobs} jobs missed, the longest response is {100 * self.worst_of_bound:.0f} % of its bound, "
            f"{len(self.exceeded)} beyond; steal {self.steal_ns / 1e6:.0f} ms{evidence}"
        )


@dataclass(frozen=True)
class Ran:
    """What became of all sets of a run."""

    kept: tuple[Kept, ...]
    over_missed: int
    """Jobs of the set that asks for more than the CPU ..."""
    over_released: int
    """... of so many."""


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
            f'[[probes]]\nprobe = "rtload"\nlaw = "light-uniform"\nk = [{TASKS}]\npolluters = 1\ntracing = "on"\n'
            f'duration = "{duration_s}s"\n',
        )
        (model,) = overheads_of(run, MACHINE, None)
        return Observed(run, model, supply_of(run, MACHINE))

    def edge_sets(self, observed: Observed, count: int, slower: Sequence[int] = (1,)) -> list[EdgeSet]:
        """Find sets that are just schedulable, with periods as drawn or so many times as long; fewer if there are none.

        Raises:
            AssertionError: This machine rules out any.
        """
        for supply in (observed.supply, DEDICATED):
            terms = Terms(overheads=observed.model, supply=supply)
            tried = (edge_set(f"edge-{number}", terms, number, slower) for number in range(1, count + 1))
            if found := [one for one in tried if one is not None]:
                return found
        raise AssertionError(f"no set of {LEAST_UTILIZATION:g} CPUs is schedulable under {observed.text}")

    def verdict(self, observed: Observed, edge: EdgeSet) -> dict[str, Any]:
        """Have ``stealtime sched analyze`` judge a set, as a user would."""
        path = self.folder / f"{edge.name}.toml"
        path.write_text(write_task_file(edge.file))
        told = self._stealtime(
            "sched", "analyze", str(path), "--overheads", observed.run, "--machine", MACHINE, "--json",
            "--host", "lifted", *([] if edge.terms.supply is DEDICATED else ["--supply", observed.run]),
        )  # fmt: skip
        document: dict[str, Any] = json.loads(told)
        return document

    def run_sets(self, observed: Observed, edges: Sequence[EdgeSet], duration_s: int, over_s: int = 0) -> Ran:
        """Run sets that are just schedulable, and for a time the first with its costs enlarged to 1.05 CPUs."""
        tables = [_table(edge.name, edge.file, duration_s, 'tracing = "on"') for edge in edges]
        if over_s:
            over = scaled(edges[0].file, Fraction(OVER) / Fraction(edges[0].utilization))
            assert sum(task.utilization for task in over.tasks) > (1 + OVER) / 2, "a cost was cut to its period"
            tables.append(_table("over", over, over_s, 'work = 100\nover_utilized = "keep"'))
        run = find_run(self._run("sets", "".join(tables)))
        trials = {str(trial.record.cell.parameters["set"]): trial for trial in run.measured}
        overloaded = trials["over"].result(JobsOfTasks) if over_s else None
        return Ran(
            tuple(_kept(edge, trials[edge.name], observed) for edge in edges),
            0 if overloaded is None else overloaded.missed,
            0 if overloaded is None else overloaded.released,
        )

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


def edge_set(name: str, terms: Terms, seed: int, slower: Sequence[int] = (1,)) -> EdgeSet | None:
    """Draw a set and make its costs as large as it stays schedulable with; None where no set of ours is.

    Args:
        name: Of the set.
        terms: Of the analysis.
        seed: Of the drawing; the same draws the same.
        slower: Factors of all periods that are tried.
    """
    for periods, times, total in [*product(PERIODS[:1], (1,), TOTALS), *product(PERIODS[1:], slower, TOTALS)]:
        drawn = generate(Recipe(law="randfixedsum", per_cpu=TASKS, seed=seed, total=total, periods=periods))
        changes = [{"period": times * task.period, "cost": times * task.cost} for task in drawn.tasks]
        tasks = [task.model_copy(update=change) for task, change in zip(drawn.tasks, changes, strict=True)]
        file = TaskFile.model_construct(tasks=tasks, generated=None)
        millionths = _core.cost_margin(question_of(file.on(0), terms, terms.overheads.at(TASKS)))
        if millionths is None:
            continue
        utilization = sum((task.utilization for task in tasks), Fraction(0))
        factor = min(Fraction(millionths, _core.PARTS_PER_MILLION), Fraction(MOST_UTILIZATION) / utilization)
        edge = EdgeSet(name, scaled(file, factor), terms)
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
    bounds = np.array([response_bound(tasks, edge.terms, number, 0) or 0 for number in range(len(tasks))])
    outcome = trial.record.outcome
    steal_ns = 0 if outcome is None else outcome.counters.get("steal_ns", 0)
    return Kept(
        name=edge.name,
        supply=edge.terms.supply.text,
        utilization=edge.utilization,
        jobs=result.released,
        missed=result.missed,
        worst_of_bound=float(((jobs.finish - jobs.release) / bounds[jobs.task]).max()),
        steal_ns=steal_ns,
        exceeded=tuple(
            exceeding(
                jobs,
                lambda task, blocking_ns: response_bound(tasks, edge.terms, task, blocking_ns),
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
    columns = read_columns(trial.table(JOBS), JOBS_SCHEMA.append(pa.field("cpu", pa.uint16())))
    task, release, start, finish = (columns[name].astype(np.int64) for name in ("task", "release", "start", "finish"))
    path, tracing = trial.host_trace_path, trial.record.host_tracing
    assert path is not None, f"{trial.record.trial_id} was not traced"
    assert tracing is not None
    assert tracing.lost == 0, tracing
    trace = {name: column.astype(np.int64) for name, column in read_columns(path, TRACE_SCHEMA).items()}
    own = np.zeros(len(task), np.int64)
    for number, one in enumerate(result.tasks):
        mine = task == number
        own[mine] = own_time(trace, int(columns["cpu"][0]), one.thread_id, start[mine], finish[mine])
    # On a time line of its own, in ns: differences from the first release are exact enough.
    first, units_a_ns = int(release.min()), result.conversion.tsc_per_ns
    release_ns, finish_ns = (((value - first) / units_a_ns).astype(np.int64) for value in (release, finish))
    return RanJobs(task=task, release=release_ns, finish=finish_ns, own=(own / units_a_ns).astype(np.int64))
