"""From what was measured to stretches, predictions and their errors. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean, stdev
from typing import Any

from co_located.mixes import PIECES, POOLS, Pool, Role
from stealtime.studies.stretch.analysis import prediction
from stealtime.studies.stretch.analysis.model import Guest
from stealtime.studies.stretch.analysis.sharing import Work, solve_together

COVERAGE = 0.9


@dataclass(frozen=True)
class Case:
    """One guest of one mix."""

    mix: str
    pool: Pool
    role: Role
    piece: str
    measured: float
    """How many times as long as alone an iteration takes: the ratio of geometric means."""
    spread: float
    """The relative standard deviation of the rate beside others, over the repetitions."""
    predicted: Mapping[str, float | None]
    """By model; None where a model has no answer."""

    @property
    def kind(self) -> str:
        return self.piece.split("-")[0]


def cases(lines: Sequence[Mapping[str, Any]]) -> list[Case]:
    """Give every guest of every mix.

    Args:
        lines: What was measured (:mod:`co_located.measuring`).
    """
    pools = {pool.name: pool for pool in POOLS}
    alone: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    together: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        if line["mix"] is None:
            (one,) = line["guests"].values()
            alone[line["pool"], one["piece"]].append(one)
        else:
            together[line["mix"]].append(line)
    found = []
    for mix, repetitions in together.items():
        pool = pools[repetitions[0]["pool"]]
        slots = list(repetitions[0]["guests"])
        pieces = [repetitions[0]["guests"][slot]["piece"] for slot in slots]
        bases = [alone[pool.base.name, piece] for piece in pieces]
        works = [work_of(piece, base) for piece, base in zip(pieces, bases, strict=True)]
        guests = [pool.guest(int(slot)) for slot in slots]
        shared = solve_together(works, guests, pool.cpus)
        for number, slot in enumerate(slots):
            rates = [one["guests"][slot]["rate_per_s"] for one in repetitions]
            measured = geometric_mean([one["rate_per_s"] for one in bases[number]]) / geometric_mean(rates)
            spread = stdev(rates) / fmean(rates) if len(rates) > 1 else 0.0
            beside = guests[:number] + guests[number + 1 :]
            predicted = {**naive(works[number], guests[number], beside, pool.cpus), "shared": shared[number]}
            role: Role = repetitions[0]["role"]
            found.append(Case(mix, pool, role, pieces[number], measured, spread, predicted))
    return found


def work_of(piece: str, alone: Sequence[Mapping[str, Any]]) -> Work:
    """Give what an iteration of each task takes alone: geometric means of the repetitions."""
    tasks = PIECES[piece].tasks

    def each(name: str) -> float:
        # Work without I/O has none in any repetition.
        per_iteration = [one[name] / one["iterations"] for one in alone]
        return geometric_mean(per_iteration) if all(per_iteration) else 0.0

    return Work(
        tasks=tasks,
        elapsed_s=tasks / geometric_mean([one["rate_per_s"] for one in alone]),
        # Of a guest what it cost the host; natively the tasks are the host's own.
        cpu_s=tasks * each("cpu_s" if alone[0]["host_run_s"] is None else "host_run_s"),
        io_s=tasks * each("io_asked_s"),
    )


def naive(work: Work, itself: Guest, beside: Sequence[Guest], cpus: int) -> dict[str, float | None]:
    """Give what the simple models say."""
    rho = prediction.utilization(work.elapsed_s, work.cpu_s, beside, cpus)
    return {
        "entitled": prediction.entitled_stretch(work.elapsed_s, work.cpu_s, itself, beside, cpus),
        "closed": prediction.closed_stretch(itself, beside, cpus),
        "1/(1-rho^m)": prediction.open_queue_stretch(rho, cpus),
        "Erlang C": prediction.erlang_c_stretch(rho, cpus),
    }


def ratios(found: Iterable[Case], model: str) -> list[float]:
    """Give measured over predicted, where a model has an answer."""
    return [one.measured / predicted for one in found if (predicted := one.predicted[model]) is not None]


def mape_percent(found: Iterable[Case], model: str) -> float | None:
    """Give the mean absolute percentage error, in percent of what was measured; None without an answer."""
    each = ratios(found, model)
    return 100.0 * fmean(abs(1.0 / one - 1.0) for one in each) if each else None


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


def covered(found: Sequence[float], factor: float) -> float:
    """Give the share of ratios that the interval holds."""
    return fmean(1.0 / factor <= one <= factor for one in found)
