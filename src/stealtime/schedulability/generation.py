"""Random task sets as task files, with all that it takes to draw them again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import stealtime
from stealtime import _core
from stealtime.schedulability.task_file import GeneratedTable, TaskFile, TaskTable
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.toml_errors import nearest

FIXED_TOTAL = ("uunifast-discard", "randfixedsum")
"""Laws of all utilizations together."""
RULES = ("redraw", "scale", "shed", "keep")
MOST_ATTEMPTS = 1_000
MOST_TASKS = 10_000
"""Of a set: a thousand draws of it take a second."""
DEADLINES = ("implicit", "constrained", "arbitrary")
FITS = ("worst", "best", "first")


@dataclass(frozen=True)
class Recipe:
    """How to draw one set."""

    law: str
    per_cpu: int
    """Tasks for each CPU, on the average; the fit decides how many one gets."""
    seed: int
    cpus: int = 1
    total: float | None = None
    periods: str = "moderate"
    deadlines: str = "implicit"
    over_utilized: str = "redraw"
    fit: str = "worst"


def generate(recipe: Recipe) -> TaskFile:
    """Draw a set, apply the rule if it is over-utilized, and assign its tasks to CPUs.

    Raises:
        UsageError: A name is unknown, or a number cannot be.
        StealtimeError: No drawn set keeps to the cap, or a task fits on no CPU.
    """
    _check(recipe)
    tasks_asked = recipe.per_cpu * recipe.cpus
    cap = float(recipe.cpus)
    try:
        found = _core.generate_tasks(
            {
                "law": recipe.law,
                "total": recipe.total,
                "periods": recipe.periods,
                "deadlines": recipe.deadlines,
                "tasks": tasks_asked,
                "cap": cap,
                "over_utilized": recipe.over_utilized,
                "attempts": MOST_ATTEMPTS,
                "seed": recipe.seed,
            }
        )
    except ValueError as error:
        raise _failed(str(error), "take fewer tasks, a lighter law, or --over-utilized scale or shed") from None
    drawn = found["tasks"]
    if not drawn:
        raise _failed("the rule `shed` leaves no task of the set", "take another seed, or --over-utilized scale")
    if recipe.over_utilized == "keep" and recipe.cpus == 1:
        # What is over-utilized fits nowhere; on one CPU there is nothing to choose.
        assigned = [0] * len(drawn)
    else:
        try:
            pairs = [(cost, period) for cost, period, _ in drawn]
            assigned = _core.partition_tasks(pairs, recipe.cpus, recipe.fit)
        except ValueError as error:
            raise _failed(str(error), "take another seed, another --fit, or fewer tasks") from None
    width = len(str(len(drawn)))
    tasks = [
        TaskTable.model_construct(
            name=f"t{number:0{width}}",
            cost=cost,
            period=period,
            deadline=None if deadline == period else deadline,
            jitter=None,
            blocking=None,
            priority=None,
            cpu=cpu,
        )
        for number, ((cost, period, deadline), cpu) in enumerate(zip(drawn, assigned, strict=True), start=1)
    ]
    generated = GeneratedTable(
        version=stealtime.__version__,
        law=recipe.law,
        total=recipe.total,
        periods=recipe.periods,
        deadlines=recipe.deadlines,
        seed=recipe.seed,
        cpus=recipe.cpus,
        tasks_asked=tasks_asked,
        over_utilized=recipe.over_utilized,
        cap=cap,
        attempts=found["attempts"],
        drawn_utilization=found["drawn_utilization"],
        utilization=sum(cost / period for cost, period, _ in drawn),
        fit=recipe.fit,
    )
    return TaskFile.model_construct(tasks=tasks, chains=[], generated=generated)


def check_names(names: Iterable[tuple[str, str, Sequence[str]]]) -> None:
    """Refuse the first option whose name is unknown.

    Args:
        names: Of each option, its name on the command line, what it was given, and what is known.

    Raises:
        UsageError: The hint has the name that was probably meant, or all.
    """
    for option, name, known in names:
        if name not in known:
            close = nearest(name, known)
            hint = f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"
            raise UsageError(f"{option}: {name!r} is unknown", hint=hint)


def _check(recipe: Recipe) -> None:
    check_names(
        (
            ("--law", recipe.law, [*_core.UTILIZATION_LAWS, *FIXED_TOTAL]),
            ("--periods", recipe.periods, _core.PERIOD_LAWS),
            ("--deadlines", recipe.deadlines, DEADLINES),
            ("--over-utilized", recipe.over_utilized, RULES),
            ("--fit", recipe.fit, FITS),
        )
    )
    for option, number in (("-k", recipe.per_cpu), ("--cpus", recipe.cpus)):
        if number < 1:
            raise UsageError(f"{option}: {number} is less than 1", hint="a set has at least one task, on one CPU")
    if recipe.per_cpu * recipe.cpus > MOST_TASKS:
        raise UsageError(
            f"-k: {recipe.per_cpu} tasks for each of {recipe.cpus} CPUs are more than {MOST_TASKS}",
            hint="take fewer, or several sets with other seeds",
        )
    if not 0 <= recipe.seed < 2**64:
        raise UsageError(f"--seed: {recipe.seed} is not a number from 0 to 2^64 - 1", hint="any other will do")
    if recipe.law in FIXED_TOTAL and recipe.total is None:
        raise UsageError(f"--law: {recipe.law} needs a total", hint="--total 0.8 is 80 % of one CPU")
    if recipe.total is not None and not 0 < recipe.total <= recipe.cpus * recipe.per_cpu:
        raise UsageError(
            f"--total: {recipe.total} is not the utilization of {recipe.cpus * recipe.per_cpu} tasks",
            hint="--total 0.8 is 80 % of one CPU",
        )
    if recipe.law not in FIXED_TOTAL and recipe.total is not None:
        raise UsageError(
            f"--total: {recipe.total} goes with no law of single tasks such as {recipe.law}",
            hint=f"--law {' or '.join(FIXED_TOTAL)}",
        )


def _failed(message: str, hint: str) -> StealtimeError:
    return StealtimeError(message, hint=hint)
