"""From what was measured to stretches, predictions and their errors. Pure."""

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, geometric_mean, variance
from typing import Any

from co_located.mixes import PIECES, POOLS, Pool
from stealtime.studies.stretch.analysis import prediction
from stealtime.studies.stretch.analysis.model import Guest
from stealtime.studies.stretch.analysis.sharing import Work, share_out, solve_together

COVERAGE = 0.9
_DEFAULT_WEIGHT = 100
_FEWEST_MIXES = 10
_DRAWS = 1000
_SEED = 1
_MEAN_OF_ABSOLUTE = math.sqrt(2.0 / math.pi)
"""The mean absolute error of a normal distribution over its standard deviation."""


@dataclass(frozen=True)
class Case:
    """One guest of one mix."""

    mix: str
    pool: Pool
    piece: str
    each: tuple[float, ...]
    """How many times as long as alone the same work took, in each repetition."""
    predicted: Mapping[str, float | None]
    """By model; None where a model has no answer."""

    @property
    def measured(self) -> float:
        return geometric_mean(self.each)

    @property
    def kind(self) -> str:
        return self.piece.split("-")[0]


def cases(lines: Sequence[Mapping[str, Any]]) -> list[Case]:
    """Give every guest of every mix.

    Args:
        lines: What was measured (:mod:`co_located.measuring`).
    """
    pools = {pool.name: pool for pool in POOLS}
    together: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        together[line["mix"]].append(line)
    found = []
    for mix, repetitions in together.items():
        pool = pools[repetitions[0]["pool"]]
        slots = list(repetitions[0]["guests"])
        pieces = [repetitions[0]["guests"][slot]["piece"] for slot in slots]
        works = [
            work_of(piece, [one["guests"][slot]["alone"] for one in repetitions])
            for slot, piece in zip(slots, pieces, strict=True)
        ]
        guests = [pool.guest(int(slot)) for slot in slots]
        predicted = predictions(works, guests, pool.cpus)
        for slot, piece, models in zip(slots, pieces, predicted, strict=True):
            each = tuple(
                one["guests"][slot]["same_s"] / one["guests"][slot]["same_alone_s"]
                for one in repetitions
                # Nothing was done both alone and beside the others: the window was too short for this work.
                if one["guests"][slot]["same_alone_s"] > 0.0
            )
            if each:
                found.append(Case(mix, pool, piece, each, models))
    return with_constant(found)


def work_of(piece: str, alone: Sequence[Mapping[str, Any]]) -> Work:
    """Give what an iteration of each task takes alone: geometric means of the repetitions."""
    tasks = PIECES[piece].tasks

    def each(name: str) -> float:
        # Work without I/O has none in any repetition.
        per_iteration = [one[name] / one["iterations"] for one in alone]
        return geometric_mean(per_iteration) if all(per_iteration) else 0.0

    return Work(
        tasks=tasks,
        elapsed_s=tasks * each("elapsed_s"),
        # Of a guest what it cost the host; natively the tasks are the host's own.
        cpu_s=tasks * each("cost_s"),
        io_s=tasks * each("io_asked_s"),
    )


def predictions(works: Sequence[Work], guests: Sequence[Guest], cpus: int) -> list[dict[str, float | None]]:
    """Give what each model says of each guest of a mix."""
    shared = solve_together(works, guests, cpus)
    filled = water_filling(works, guests, cpus)
    entitled = prediction.entitled_cpus(guests, cpus)
    found: list[dict[str, float | None]] = []
    for number, (work, guest) in enumerate(zip(works, guests, strict=True)):
        beside = [*guests[:number], *guests[number + 1 :]]
        rho = prediction.utilization(work.elapsed_s, work.cpu_s, beside, cpus)
        found.append(
            {
                "shared": shared[number],
                "water-filling": filled[number],
                "entitled": prediction.entitled_stretch(work.elapsed_s, work.cpu_s, guest, beside, cpus),
                "weight share": min(guest.vcpus, cpus) / entitled[number],
                "closed": prediction.closed_stretch(guest, beside, cpus),
                "1/(1-rho^m)": prediction.open_queue_stretch(rho, cpus),
                "Erlang C": prediction.erlang_c_stretch(rho, cpus),
            }
        )
    return found


def water_filling(works: Sequence[Work], guests: Sequence[Guest], cpus: int) -> list[float]:
    """Share CPUs out by weight among the mean demands: a baseline that knows no queue."""
    weights = [float(one.vcpus * _DEFAULT_WEIGHT if one.weight is None else one.weight) for one in guests]
    demands = [work.cpu_s / work.elapsed_s for work in works]
    quotas = [math.inf if one.quota_percent is None else one.quota_percent / 100.0 for one in guests]
    given = share_out([min(demand, quota) for demand, quota in zip(demands, quotas, strict=True)], weights, cpus)
    return [demand / got for demand, got in zip(demands, given, strict=True)]


def with_constant(found: Sequence[Case]) -> list[Case]:
    """Add the simplest baseline: the geometric mean of what all other mixes of the platform measured."""

    def constant(case: Case) -> float | None:
        others = [one.measured for one in found if one.pool.platform == case.pool.platform and one.mix != case.mix]
        return geometric_mean(others) if others else None

    return [replace(one, predicted={**one.predicted, "constant": constant(one)}) for one in found]


def ratios(found: Iterable[Case], model: str) -> list[float]:
    """Give measured over predicted, where a model has an answer."""
    return [one.measured / predicted for one in found if (predicted := one.predicted[model]) is not None]


def mape_percent(found: Iterable[Case], model: str) -> float | None:
    """Give the mean absolute percentage error of the stretch, in percent of what was measured."""
    each = ratios(found, model)
    return 100.0 * fmean(abs(1.0 / one - 1.0) for one in each) if each else None


def mae_of_p_points(found: Iterable[Case], model: str) -> float | None:
    """Give the mean absolute error of P = ideal / actual time, in points of a hundred; None without an answer.

    This is what CloudFormer publishes as 7.8 %: its P is 1 / stretch.
    """
    each = [
        abs(1.0 / predicted - 1.0 / one.measured) for one in found if (predicted := one.predicted[model]) is not None
    ]
    return 100.0 * fmean(each) if each else None


def noise_floor(found: Sequence[Case]) -> tuple[float, float] | None:
    """Give the errors that a perfect model would have: repetitions of a mix differ.

    Returns:
        MAPE of the stretch in percent and MAE of P in points; None where no mix was measured twice.
    """
    repeated = [one for one in found if len(one.each) > 1]
    if not repeated:
        return None
    of_logs = fmean(variance(map(math.log, one.each)) / len(one.each) for one in repeated)
    of_p = fmean(variance(1.0 / each for each in one.each) / len(one.each) for one in repeated)
    return 100.0 * _MEAN_OF_ABSOLUTE * math.sqrt(of_logs), 100.0 * _MEAN_OF_ABSOLUTE * math.sqrt(of_p)


def beyond_floor(found: Sequence[Case], model: str) -> dict[str, tuple[float, float]] | None:
    """Give by how much a model's errors lie above their floors, as intervals of 95 %: mixes are drawn with replacement.

    An interval that holds 0 says that the model cannot be told from a right one: what is left is that repetitions
    differ. One above 0 is the model's own.

    Returns:
        By error, ``mape_percent`` and ``mae_of_p_points``; None of fewer than ten mixes.
    """
    mixes: dict[str, list[Case]] = defaultdict(list)
    for one in found:
        if one.predicted[model] is not None and len(one.each) > 1:
            mixes[one.mix].append(one)
    if len(mixes) < _FEWEST_MIXES:
        return None
    draw = random.Random(_SEED)  # noqa: S311 - nothing is kept secret
    groups = list(mixes.values())
    gained: dict[str, list[float]] = {"mape_percent": [], "mae_of_p_points": []}
    for _ in range(_DRAWS):
        some = [one for group in draw.choices(groups, k=len(groups)) for one in group]
        floor, errors = noise_floor(some), (mape_percent(some, model), mae_of_p_points(some, model))
        for series, error, least in zip(gained.values(), errors, floor or (0.0, 0.0), strict=True):
            series.append((error or 0.0) - least)
    return {
        name: (ordered[round(0.025 * _DRAWS)], ordered[round(0.975 * _DRAWS) - 1])
        for name, series in gained.items()
        if (ordered := sorted(series))
    }


def conformal_factor(calibration: Sequence[float], coverage: float = COVERAGE) -> float | None:
    """Give the factor by which a prediction is divided and multiplied to get its interval.

    Split conformal prediction (J. Lei and others, "Distribution-free predictive inference for regression", Journal of
    the American Statistical Association 113, 2018) with the absolute logarithm of the ratio as score: of cases that are
    drawn like those for calibration at least this share lies inside.

    Args:
        calibration: Measured over predicted, of cases that nothing was fitted on.
        coverage: The wished share.

    Returns:
        None where there are too few cases for that share.
    """
    rank = math.ceil((len(calibration) + 1) * coverage)
    if rank > len(calibration):
        return None
    return math.exp(sorted(abs(math.log(one)) for one in calibration)[rank - 1])


def factors_of(found: Sequence[Case], model: str) -> dict[str, float | None]:
    """Give the factors of a model's intervals by platform, from all mixes."""
    platforms = sorted({one.pool.platform for one in found})
    return {
        name: conformal_factor(ratios([one for one in found if one.pool.platform == name], model)) for name in platforms
    }


def covered_share(some: Sequence[Case], model: str, found: Sequence[Case]) -> float | None:
    """Give how often the interval holds what was measured: each by the factor of all *other* mixes of its platform.

    Args:
        some: The cases that are asked about.
        model: By name.
        found: All cases.

    Returns:
        None where there are too few other mixes for an interval.
    """
    factors: dict[str, float | None] = {}
    held = []
    for case in some:
        if case.mix not in factors:
            others = [one for one in found if one.mix != case.mix and one.pool.platform == case.pool.platform]
            factors[case.mix] = conformal_factor(ratios(others, model))
        factor, own = factors[case.mix], ratios([case], model)
        if factor is not None and own:
            held.append(1.0 / factor <= own[0] <= factor)
    return fmean(held) if held else None
