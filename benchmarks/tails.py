"""How often a tail is refused, and how often its interval holds the truth: made-up series of known tails, many seeds.

Prints the table of docs/tails.md. Usage: python benchmarks/tails.py [SEEDS], 200 if left out; a second each.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stealtime.report.tails.estimate import PER_HOUR, Estimate, estimate_tail
from stealtime.report.tails.series import TailSeries

EVENTS_PER_S = 1000.0
Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]


def pareto(shape: float) -> Draw:
    return lambda generator, count: 2000 + 1000 * np.expm1(shape * generator.standard_exponential(count)) / shape


def exponential(generator: np.random.Generator, count: int) -> Array:
    return 2000 + 1000 * generator.standard_exponential(count)


def lognormal(generator: np.random.Generator, count: int) -> Array:
    return 1000 * np.exp(0.5 * generator.standard_normal(count))


def host(rate: float, least_ns: float) -> Draw:
    """A rare component: so many values meet the host, which adds this and an exponential of the same mean."""

    def draw(generator: np.random.Generator, count: int) -> Array:
        values = exponential(generator, count)
        hit = generator.random(count) < rate
        values[hit] += least_ns * (1 + generator.standard_exponential(int(hit.sum())))
        return values

    return draw


def correlated(coefficient: float) -> Draw:
    """Exponential values whose normal scores are an autoregressive process of the first order."""

    def draw(generator: np.random.Generator, count: int) -> Array:
        from scipy import signal, special

        noise = generator.standard_normal(count) * math.sqrt(1 - coefficient**2)
        scores = signal.lfilter([1.0], [1.0, -coefficient], noise)
        return np.asarray(2000 - 1000 * np.log(special.ndtr(-scores)))

    return draw


def bursts(generator: np.random.Generator, count: int) -> Array:
    """Every tenth of the time all is twice as long, as beside a neighbour that comes and goes."""
    loaded = (np.arange(count) * 100 // count) % 10 == 0
    return exponential(generator, count) * np.where(loaded, 2.0, 1.0)


def drift(generator: np.random.Generator, count: int) -> Array:
    """The scale grows by a half."""
    return exponential(generator, count) * np.linspace(1.0, 1.5, count)


@dataclass(frozen=True)
class Kind:
    name: str
    draw: Draw
    count: int
    shape: float | None = None
    """Of a generalized Pareto tail, whose levels are known."""


KINDS = (
    Kind("exponential", exponential, 20_000, 0.0),
    Kind("generalized Pareto, shape 0.2", pareto(0.2), 20_000, 0.2),
    Kind("generalized Pareto, shape -0.3 (bounded)", pareto(-0.3), 20_000, -0.3),
    Kind("exponential", exponential, 200_000, 0.0),
    Kind("log-normal, sigma 0.5", lognormal, 200_000),
    Kind("exponential, the host adds 50 us and more to 1e-4", host(1e-4, 50e3), 200_000),
    Kind("exponential, the host adds 10 us and more to 1e-4", host(1e-4, 10e3), 200_000),
    Kind("exponential, the host adds 1 ms and more to 1e-5", host(1e-5, 1e6), 200_000),
    Kind("autoregressive, 0.8", correlated(0.8), 20_000),
    Kind("autoregressive, 0.5", correlated(0.5), 20_000),
    Kind("twice as long in every tenth stretch", bursts, 20_000),
    Kind("grows by a half", drift, 20_000),
)


def truth(kind: Kind, per_hour: float) -> float | None:
    if kind.draw is lognormal:
        from scipy import special

        per_event = -math.expm1(math.log1p(-per_hour) / (3600 * EVENTS_PER_S))
        return 1000 * math.exp(-0.5 * float(special.ndtri(per_event)))
    if kind.shape is None:
        return None
    exponent = -math.log(-math.expm1(math.log1p(-per_hour) / (3600 * EVENTS_PER_S)))
    return 2000 + 1000 * (exponent if kind.shape == 0 else math.expm1(kind.shape * exponent) / kind.shape)


def estimate(kind_and_seed: tuple[int, int]) -> Estimate:
    number, seed = kind_and_seed
    kind = KINDS[number]
    values = kind.draw(np.random.default_rng([number, seed]), kind.count)
    return estimate_tail(TailSeries(values, EVENTS_PER_S, 0.5))


def main(seeds: int) -> None:
    header = ("made-up series", "values", "refused", *(f"holds p = {one:g}" for one in PER_HOUR))
    print("| " + " | ".join(header) + " |")
    print("| -- | -: | -: |" + " -: |" * len(PER_HOUR))
    with ProcessPoolExecutor(2) as workers:
        for number, kind in enumerate(KINDS):
            found = list(workers.map(estimate, [(number, seed) for seed in range(seeds)]))
            kept = [one for one in found if not one.refused_because]
            shares = [f"{100 * (1 - len(kept) / seeds):.1f} %"]
            for index, per_hour in enumerate(PER_HOUR):
                value = truth(kind, per_hour)
                if value is None or not kept:
                    shares.append("")
                    continue
                levels = [one.levels[index] for one in kept]
                held = sum(one.low_ns <= value and (one.high_ns is None or value <= one.high_ns) for one in levels)
                shares.append(f"{100 * held / len(kept):.1f} %")
            print(f"| {kind.name} | {kind.count:,} | " + " | ".join(shares) + " |", flush=True)
            reasons = Counter(reason.split(", p = ")[0] for one in found for reason in one.refused_because)
            print(f"{reasons.most_common()}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
