"""How much capacity do overheads and a share of a CPU cost: schedulable sets against utilization."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from scipy import stats

from stealtime import _core
from stealtime.schedulability.analysis import core_policy
from stealtime.schedulability.document import (
    Accounting,
    CurveDocument,
    CurvePoint,
    CurveShare,
    Policy,
    WeightedDocument,
)
from stealtime.schedulability.generation import DEADLINES, check_names
from stealtime.schedulability.overheads import NO_OVERHEADS, OverheadModel
from stealtime.schedulability.supply import DEDICATED, Supply
from stealtime.vocabulary.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from stealtime._core import ConditionDict

CONFIDENCE = 0.95
MOST_SETS = 1_000_000
# A law's smallest utilizations decide how many tasks fill a CPU: 20,000 of 0.0001 at worst, 2,000 on the average.
_MOST_TASKS = 3_000


@dataclass(frozen=True)
class CurveRequest:
    """Which sets, and what they are analysed under."""

    law: str
    periods: str = "moderate"
    deadlines: str = "implicit"
    sets: int = 1_000
    """Of each utilization."""
    seed: int = 1
    utilizations: tuple[float, ...] = tuple(step / 20 for step in range(1, 21))
    overheads: tuple[OverheadModel, ...] = ()
    """Beside none."""
    supply: Supply | None = None
    """Beside a dedicated CPU."""
    policy: Policy = "fixed-priority"
    accounting: Accounting = "job"
    interrupts: Literal["here", "on another CPU"] = "here"


def trace_curve(request: CurveRequest) -> CurveDocument:
    """Draw the sets and analyse each under every condition: no overheads or some, dedicated CPU or supply.

    Raises:
        UsageError: A name is unknown, or a number cannot be.
    """
    _check(request)
    conditions = _conditions(request)
    try:
        counted = _core.count_schedulable_sets(
            {
                "law": request.law,
                "periods": request.periods,
                "deadlines": request.deadlines,
                "sets": request.sets,
                "seed": request.seed,
            },
            list(request.utilizations),
            [_for_core(request, overheads, supply) for _, overheads, supply in conditions],
        )
    except ValueError as error:
        raise UsageError(f"--law {request.law}: {error}", hint="take a law of larger utilizations") from None
    points = tuple(
        CurvePoint(
            utilization=utilization,
            conditions=tuple(_share(*one, request.sets) for one in row),
        )
        for utilization, row in zip(request.utilizations, counted, strict=True)
    )
    return CurveDocument(
        law=request.law,
        periods=request.periods,
        deadlines=request.deadlines,
        sets=request.sets,
        seed=request.seed,
        policy=request.policy,
        accounting=request.accounting if request.policy == "fixed-priority" else None,
        interrupts=request.interrupts,
        confidence_percent=100 * CONFIDENCE,
        conditions=tuple(name for name, _, _ in conditions),
        points=points,
        weighted=tuple(
            WeightedDocument(condition=name, schedulability=_weighted(points, number))
            for number, (name, _, _) in enumerate(conditions)
        ),
    )


def curve_exit_code(document: CurveDocument) -> ExitCode:
    """Give 4 if a set was not judged, 0 otherwise."""
    judged = all(one.not_judged == 0 for point in document.points for one in point.conditions)
    return ExitCode.FINE if judged else ExitCode.NOT_JUDGED


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Give the interval of a share (E. B. Wilson, Journal of the American Statistical Association 22, 1927)."""
    z = float(stats.norm.ppf((1 + CONFIDENCE) / 2))
    share = successes / trials
    centre = share + z * z / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    # At the ends the exact values are 0 and 1, which rounding may miss.
    low = 0.0 if successes == 0 else max(0.0, (centre - half) / scale)
    high = 1.0 if successes == trials else min(1.0, (centre + half) / scale)
    return low, high


def _share(schedulable: int, not_judged: int, sets: int) -> CurveShare:
    judged = sets - not_judged
    if judged == 0:
        return CurveShare(schedulable_share=None, low=None, high=None, not_judged=not_judged)
    low, high = wilson(schedulable, judged)
    return CurveShare(schedulable_share=schedulable / judged, low=low, high=high, not_judged=not_judged)


def _weighted(points: Sequence[CurvePoint], number: int) -> float | None:
    shares = [(point.utilization, point.conditions[number].schedulable_share) for point in points]
    if any(share is None for _, share in shares):
        return None
    total = sum(utilization for utilization, _ in shares)
    return sum(utilization * (share or 0.0) for utilization, share in shares) / total


def _conditions(request: CurveRequest) -> list[tuple[str, OverheadModel, Supply]]:
    supplies = [DEDICATED] if request.supply in (None, DEDICATED) else [DEDICATED, request.supply]
    return [
        (
            (model.source if model is not NO_OVERHEADS else "no overheads")
            + ("" if supply is DEDICATED else f", {supply.text}"),
            model,
            supply,
        )
        for supply in supplies
        for model in (NO_OVERHEADS, *request.overheads)
    ]


def _for_core(request: CurveRequest, model: OverheadModel, supply: Supply) -> "ConditionDict":
    rows = (model.at(tasks) for tasks in range(1, _MOST_TASKS + 1))
    return {
        "overheads": [[row.get(name, 0) for name in _core.OVERHEADS] for row in rows],
        "tick_period_ns": model.tick_period_ns,
        "interrupts": request.interrupts,
        "policy": core_policy(request.policy, request.accounting),
        "supply": supply.for_core(),
    }


def _check(request: CurveRequest) -> None:
    check_names(
        (
            ("--law", request.law, _core.UTILIZATION_LAWS),
            ("--periods", request.periods, _core.PERIOD_LAWS),
            ("--deadlines", request.deadlines, DEADLINES),
        )
    )
    if not 1 <= request.sets <= MOST_SETS:
        raise UsageError(f"--sets: {request.sets} is not 1 to {MOST_SETS}", hint="1000 give bands of 3 %")
    if not 0 <= request.seed < 2**64:
        raise UsageError(f"--seed: {request.seed} is not a number from 0 to 2^64 - 1", hint="any other will do")
    sources = [model.source for model in request.overheads]
    if len(set(sources)) < len(sources):
        raise UsageError(f"--overheads: {sources[0]} is given twice", hint="each file once")
