"""Virtual CPUs that share the CPUs of a host: the stretch study's queueing network, for many and with pinning. Pure.

Each virtual CPU computes and sleeps in turn (a machine repairman of one task, as in
``studies/stretch/analysis/sharing.py``). At each moment those that want a CPU share out the CPUs on which they may run,
by weight and none more than one (max-min fairness: D. Bertsekas and R. Gallager, "Data Networks", 1992, 6.5.2; where
sets of CPUs overlap, A. Ghodsi and others, "Choosy", EuroSys 2013). Of the others a virtual CPU sees only how probable
it is that each wants a CPU, and virtual CPUs are solved in turn until nothing changes. Up to ten that share CPUs are
looked at in every joint state, more in a thousand that are drawn at random, the same in every round.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_EXACT = 10
_DRAWS = 1000
_MOST_ROUNDS = 200
_DAMPING = 0.5
"""Of each round; half of the old and half of the new does not swing."""
_CLOSE = 1e-4
_SEED = 1


@dataclass(frozen=True)
class Demand:
    """What one virtual CPU wants."""

    busy: float
    """Share of the time in which it would run if it never waited, above 0 up to 1."""
    cpus: frozenset[int]
    """Where it may run."""
    weight: float = 1.0
    most: float = 1.0
    """Share of the time for which its quota lets it run; what it is held back it wants nothing."""


@dataclass(frozen=True)
class Fare:
    """How a virtual CPU fares beside the others."""

    runs: float
    """Share of the time."""
    wants: float
    """Share of the time in which it runs or waits."""

    @property
    def stretch(self) -> float:
        return self.wants / self.runs


def solve(demands: Sequence[Demand]) -> list[Fare]:
    """Say how each virtual CPU fares; those that share no CPU, not even through others, do not meet."""
    fares: dict[int, Fare] = {}
    for numbers in _components(demands):
        found = _solve_component([demands[number] for number in numbers])
        fares |= dict(zip(numbers, found, strict=True))
    return [fares[number] for number in range(len(demands))]


def _components(demands: Sequence[Demand]) -> list[list[int]]:
    """Give the numbers of those that share CPUs, directly or through others."""
    found: list[tuple[set[int], list[int]]] = []
    for number, demand in enumerate(demands):
        cpus, numbers = set(demand.cpus), [number]
        apart = []
        for their_cpus, theirs in found:
            if their_cpus & cpus:
                cpus, numbers = cpus | their_cpus, theirs + numbers
            else:
                apart.append((their_cpus, theirs))
        found = [*apart, (cpus, numbers)]
    return [sorted(numbers) for _, numbers in found]


def _solve_component(demands: Sequence[Demand]) -> list[Fare]:
    import numpy as np

    kinds = sorted({_kind(one) for one in demands})
    sets = [frozenset(cpus) for cpus, _ in kinds]
    kind_of = np.array([kinds.index(_kind(one)) for one in demands])
    host = _Host(sets, np.array([weight for _, weight in kinds]), _bottlenecks(sets))
    busy = np.array([one.busy for one in demands])
    most = np.array([one.most for one in demands])
    is_exact = len(demands) <= _MOST_EXACT
    drawn = _all_states(len(demands)) if is_exact else np.random.default_rng(_SEED).random((_DRAWS, len(demands)))
    member = np.equal.outer(kind_of, np.arange(len(kinds))).astype(float)
    wants = np.minimum(busy, most)
    speeds = np.ones(len(demands))
    for _ in range(_MOST_ROUNDS):
        if is_exact:
            states = drawn
            # A virtual CPU itself is left out of the probability by which it is weighed: given that it wants.
            chances = np.where(states, wants, 1.0 - wants)
        else:
            states = drawn < wants
            chances = np.ones_like(drawn)
        counts = states.astype(float) @ member
        given = np.empty(drawn.shape)
        now = host.share_out(counts)
        for kind in range(len(kinds)):
            own = kind_of == kind
            more = counts.copy()
            more[:, kind] += 1.0
            with_it = host.share_out(more)[:, [kind]]
            given[:, own] = np.where(states[:, own], now[:, [kind]], with_it)
        new_speeds = _mean_given(given, chances, is_exact=is_exact)
        change = float(np.abs(new_speeds - speeds).max())
        speeds = new_speeds
        goal = _wants(busy, most, speeds)
        wants = _DAMPING * goal + (1.0 - _DAMPING) * wants
        if change < _CLOSE:
            break
    wants = _wants(busy, most, speeds)
    return [Fare(float(want * speed), float(want)) for want, speed in zip(wants, speeds, strict=True)]


def _wants(
    busy: "NDArray[np.float64]", most: "NDArray[np.float64]", speeds: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Give the share of the time in which each runs or waits, where it gets so much of a CPU meanwhile."""
    import numpy as np

    slowed = busy / speeds
    return np.minimum(slowed / (slowed + 1.0 - busy), most / speeds)


def _kind(demand: Demand) -> tuple[tuple[int, ...], float]:
    return tuple(sorted(demand.cpus)), demand.weight


def _all_states(count: int) -> "NDArray[np.bool_]":
    import numpy as np

    states: NDArray[np.bool_] = (np.arange(2**count)[:, None] >> np.arange(count)) & 1 == 1
    return states


def _mean_given(
    given: "NDArray[np.float64]", chances: "NDArray[np.float64]", *, is_exact: bool
) -> "NDArray[np.float64]":
    import numpy as np

    if not is_exact:
        mean: NDArray[np.float64] = given.mean(axis=0)
        return mean
    # What a virtual CPU gets does not depend on its own state in `given`, so the whole probability weighs it right.
    total: NDArray[np.float64] = (given * chances.prod(axis=1)[:, None]).sum(axis=0)
    return total


@dataclass(frozen=True)
class _Host:
    """The CPUs that virtual CPUs of some kinds share."""

    sets: Sequence[frozenset[int]]
    """Of CPUs, by kind."""
    weights: "NDArray[np.float64]"
    """By kind."""
    bottlenecks: Sequence[frozenset[int]]
    """Sets of CPUs that can be full with virtual CPUs that may run nowhere else."""

    def share_out(self, counts: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """Give the CPU that each virtual CPU of a kind gets.

        Args:
            counts: How many of each kind want a CPU: states x kinds.
        """
        import numpy as np

        left = np.tile([float(len(cpus)) for cpus in self.bottlenecks], (len(counts), 1))
        inside = np.array([[own <= cpus for own in self.sets] for cpus in self.bottlenecks], dtype=float)
        given = np.zeros_like(counts)
        is_open = counts > 0
        while is_open.any():
            load = (counts * self.weights * is_open) @ inside.T
            with np.errstate(divide="ignore", invalid="ignore"):
                levels = np.where(load > 0, np.maximum(left, 0.0) / load, np.inf)
            tightest = levels.argmin(axis=1)
            level = levels[np.arange(len(counts)), tightest]
            full = np.where(is_open, 1.0 / self.weights, np.inf)
            next_full = full.min(axis=1)
            # Those that have a whole CPU first; else those in the set of CPUs that is full.
            by_need = (next_full <= level)[:, None]
            ends = is_open & np.where(by_need, full == next_full[:, None], inside[tightest] > 0)
            got = np.where(by_need, 1.0, np.where(np.isfinite(level), level, 0.0)[:, None] * self.weights)
            given = np.where(ends, got, given)
            left = left - (counts * given * ends) @ inside.T
            is_open = is_open & ~ends
        return given


def _bottlenecks(sets: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """Give the sets of CPUs that can be a bottleneck.

    Those in which some may run, all together, and two together that overlap without one being in the other.
    """
    found = set(sets)
    overlapping = {a | b for a in found for b in found if a & b and not a <= b and not b <= a}
    return sorted({*found, *overlapping, frozenset().union(*found)}, key=lambda cpus: (len(cpus), sorted(cpus)))
