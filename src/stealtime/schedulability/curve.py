"""How much capacity do overheads and a share of a CPU cost: schedulable sets against utilization."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from scipy import stats

from stealtime import _core
from stealtime.schedulability.document import (
    Accounting,
    CurveDocument,
    CurvePoint,
    CurveShare,
    Policy,
    WeightedDocument,
)
from stealtime.schedulability.generation import DEADLINES, check_names
from stealtime.schedulability.overhead_remarks import curve_remarks
from stealtime.schedulability.overheads import NO_OVERHEADS, OverheadModel
from stealtime.schedulability.question import core_policy
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
        weighted=tuple(_weigh(points, name, number) for number, (name, _, _) in enumerate(conditions)),
        remarks=tuple(remark for model in request.overheads for remark in curve_remarks(model)),
    )


def curve_exit_code(document: CurveDocument) -> ExitCode:
    """Give 4 if a set was not judged or there was none, 0 otherwise."""
    unknown = [one.not_judged for point in document.points for one in point.conditions]
    judged = bool(unknown) and not any(unknown)
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
    share, low, high = (schedulable / judged, *wilson(schedulable, judged)) if judged else (None, None, None)
    return CurveShare(
        sets=sets, schedulable=schedulable, schedulable_share=share, low=low, high=high, not_judged=not_judged
    )


def _weigh(points: Sequence[CurvePoint], name: str, number: int) -> WeightedDocument:
    schedulability = _weighted([(point.utilization, point.conditions[number].schedulable_share) for point in points])
    cost, low, high = _cost(points, number)
    return WeightedDocument(
        condition=name,
        schedulability=schedulability,
        cost=cost,
        cost_low=low,
        cost_high=high,
        half_utilization=_half(points, number),
    )


def _weighted(shares: Sequence[tuple[float, float | None]]) -> float | None:
    known = [(utilization, share) for utilization, share in shares if share is not None]
    if len(known) < len(shares):
        return None
    return sum(utilization * share for utilization, share in known) / sum(utilization for utilization, _ in known)


def _cost(points: Sequence[CurvePoint], number: int) -> tuple[float | None, float | None, float | None]:
    """Give what a condition costs more than the first, and its interval.

    Every set is analysed under both, and what is schedulable with overheads or on a share is so without: the sets that
    are lost are a share of their own. Its Wilson intervals at the single utilizations are put together as Zou, Huang
    and Zhang do for a sum of independent shares (Computational Statistics & Data Analysis 53, 2009; MOVER). A set that
    is not judged is schedulable at one end of the interval, and not at the other.
    """
    if number == 0:
        return 0.0, 0.0, 0.0
    whole = sum(point.utilization for point in points)
    cost = least = most = below = above = 0.0
    for point in points:
        first, other = point.conditions[0], point.conditions[number]
        if first.schedulable_share is None or other.schedulable_share is None:
            return None, None, None
        weight = point.utilization / whole
        cost += weight * (first.schedulable_share - other.schedulable_share)
        fewest = max(0, first.schedulable - other.schedulable - other.not_judged)
        largest = min(first.sets, first.schedulable + first.not_judged - other.schedulable)
        least += weight * fewest / first.sets
        most += weight * largest / first.sets
        below += (weight * (fewest / first.sets - wilson(fewest, first.sets)[0])) ** 2
        above += (weight * (wilson(largest, first.sets)[1] - largest / first.sets)) ** 2
    return cost, min(cost, least - math.sqrt(below)), max(cost, most + math.sqrt(above))


def _half(points: Sequence[CurvePoint], number: int) -> float | None:
    shares = [(point.utilization, point.conditions[number].schedulable_share) for point in points]
    known = [(utilization, share) for utilization, share in shares if share is not None]
    if len(known) < len(shares) or known[0][1] < 0.5:
        return None
    # Shares fall with utilization but for chance: the last point that has half counts.
    last = max(index for index, (_, share) in enumerate(known) if share >= 0.5)
    if last + 1 == len(known):
        return known[last][0]
    (left, high), (right, low) = known[last], known[last + 1]
    return left + (right - left) * (high - 0.5) / (high - low)


def _conditions(request: CurveRequest) -> list[tuple[str, OverheadModel, Supply]]:
    supply = request.supply
    supplies = [DEDICATED] if supply is None or supply.kind == "dedicated" else [DEDICATED, supply]
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
