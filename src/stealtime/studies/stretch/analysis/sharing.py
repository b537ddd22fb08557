"""Guests that share CPUs, as a closed queueing network with weighted processor sharing. Pure.

Each guest has a number of tasks that compute, sleep (simulated I/O) and compute again: a machine repairman (E. Lazowska
and others, "Quantitative System Performance", 1984, chapter 6), whose birth-death equations are solved exactly. How
fast its runnable tasks are served depends on what the others want at that moment: CPUs are shared out by weight among
the virtual CPUs that have something to run. Of the others only the distribution of what they want is known, so
guests are solved one by one with the mean over what the others want, until nothing changes (decomposition; the
arrivals see the others' time averages, as in Bard's approximation of mean value analysis, 1979). A quota is a limit of
the mean: its period is long against the tasks' bursts.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from stealtime.studies.stretch.analysis.model import Guest

_DEFAULT_WEIGHT = 100
_MOST_ROUNDS = 500
_DAMPING = 0.5
"""Of each round; half of the old and half of the new does not swing."""
_CLOSE = 1e-5
_BISECTIONS = 60
_MOST_STATES = 4096
"""Of all others together; where there are more, some are drawn at random."""
_DRAWS = 500


@dataclass(frozen=True)
class Work:
    """What a guest did alone on the same CPUs, summed over its tasks."""

    tasks: int
    elapsed_s: float
    """Not summed: from its begin to its end."""
    cpu_s: float
    io_s: float = 0.0
    """That its tasks wanted to sleep for."""


def always_busy(guest: Guest) -> Work:
    """Give the work of a guest whose virtual CPUs compute without a pause."""
    return Work(tasks=guest.vcpus, elapsed_s=1.0, cpu_s=float(guest.vcpus))


@dataclass(frozen=True)
class Solution:
    """How a guest fares."""

    cycle_s: float
    """How long the work of one task takes."""
    wants: tuple[float, ...]
    """The probability that it can use 0, 1, 2 ... CPUs at once."""


def share_out(wanted: Sequence[float], weights: Sequence[float], cpus: int) -> list[float]:
    """Share CPUs out by weight, none above what it wants.

    Args:
        wanted: CPUs that each can use at this moment.
        weights: Of each.
        cpus: That there are.
    """
    given = [0.0] * len(wanted)
    left, open_ones = float(cpus), [number for number, want in enumerate(wanted) if want > 0.0]
    while open_ones:
        level = left / sum(weights[number] for number in open_ones)
        full = [number for number in open_ones if wanted[number] <= level * weights[number]]
        if not full:
            for number in open_ones:
                given[number] = level * weights[number]
            break
        for number in full:
            given[number] = wanted[number]
            left -= wanted[number]
            open_ones.remove(number)
    return given


def solve_alone(tasks: int, cpu_s: float, sleep_s: float, speeds: Sequence[float]) -> Solution:
    """Solve one guest, the machine repairman.

    Args:
        tasks: How many take turns.
        cpu_s: That each computes.
        sleep_s: That each sleeps.
        speeds: CPUs that it gets while it can use 0, 1, 2 ...; the last one also when more tasks are runnable.
    """
    most = len(speeds) - 1
    if cpu_s <= 0.0:
        return Solution(sleep_s, (1.0,) + (0.0,) * most)
    if sleep_s <= 0.0:
        return Solution(tasks * cpu_s / speeds[most], (0.0,) * most + (1.0,))
    # In logarithms: factorials of many tasks are beyond what a float holds.
    logs = [0.0]
    for runnable in range(1, tasks + 1):
        arrive = (tasks - runnable + 1) / sleep_s
        leave = speeds[min(runnable, most)] / cpu_s
        logs.append(logs[-1] + math.log(arrive / leave))
    highest = max(logs)
    shares = [math.exp(one - highest) for one in logs]
    total = sum(shares)
    wants = [0.0] * (most + 1)
    for runnable, share in enumerate(shares):
        wants[min(runnable, most)] += share / total
    per_s = sum(want * speed for want, speed in zip(wants, speeds, strict=True)) / cpu_s
    return Solution(tasks / per_s, tuple(wants))


@dataclass(frozen=True)
class _Guest:
    """A guest as the network knows it."""

    tasks: int
    cpu_s: float
    """Of each task."""
    sleep_s: float
    uses: tuple[float, ...]
    """CPUs that it can use with 0, 1, 2 ... runnable tasks, the last one also with more."""

    @classmethod
    def of(cls, work: Work, guest: Guest, host_cpus: int) -> "_Guest":
        """Find what makes the model alone as fast as the guest was alone.

        What tasks lost to each other (a lock) makes them use fewer CPUs than they could; what is left is taken for more
        sleep, as that of a timer that comes late. A guest whose emulator works beside its virtual CPUs uses more.
        """
        most = min(work.tasks, guest.vcpus, host_cpus)
        cpu_s, sleep_s = work.cpu_s / work.tasks, work.io_s / work.tasks

        def at(together: float, more_sleep_s: float = 0.0, faster: float = 1.0) -> "_Guest":
            uses = tuple(runnable * faster * (1.0 if runnable < 2 else together) for runnable in range(most + 1))
            return cls(work.tasks, cpu_s, sleep_s + more_sleep_s, uses)

        def excess_s(one: "_Guest") -> float:
            return one.solve(one.uses).cycle_s - work.elapsed_s

        if most > 1 and excess_s(at(1.0)) < 0.0:
            # Tasks that exclude each other altogether use one CPU, however many are runnable.
            return _root(lambda share: at(1.0 / most + share * (1.0 - 1.0 / most)), excess_s, 1.0, 0.0)
        if sleep_s > 0.0 and excess_s(at(1.0)) < 0.0:
            return _root(lambda more_s: at(1.0, more_s), excess_s, 0.0, work.elapsed_s)
        if excess_s(at(1.0)) > 0.0:
            return _root(lambda faster: at(1.0, faster=faster), excess_s, host_cpus / most, 1.0)
        return at(1.0)

    def solve(self, speeds: Sequence[float]) -> Solution:
        return solve_alone(self.tasks, self.cpu_s, self.sleep_s, speeds)


def _root(make: Callable[[float], _Guest], excess_s: Callable[[_Guest], float], low: float, high: float) -> _Guest:
    """Bisect between an end that is too fast and one that is too slow, or give the nearer end."""
    if excess_s(make(high)) < 0.0:
        return make(high)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess_s(make(middle)) < 0.0 else (low, middle)
    return make(high)


def _mean_share(use: float, weight: float, others: Sequence[tuple[_Guest, Solution, float]], cpus: int) -> float:
    """Give the CPUs that a guest gets in the mean while it can use ``use``.

    Args:
        use: CPUs.
        weight: Its own.
        others: What each other guest can use, how it fares, and its weight.
        cpus: That there are.
    """
    if use <= 0.0:
        return 0.0
    weights = [weight, *(one[2] for one in others)]
    states = [
        [(want, share) for want, share in zip(guest.uses, solution.wants, strict=True) if share > 0.0]
        for guest, solution, _ in others
    ]

    def given(wanted: Iterable[float]) -> float:
        return share_out([use, *wanted], weights, cpus)[0]

    if math.prod(map(len, states)) > _MOST_STATES:
        # The same draws in each round, or they would never agree.
        draw = random.Random(0)  # noqa: S311 - an integral, not a secret
        drawn = [draw.choices(*zip(*one, strict=True), k=_DRAWS) for one in states]
        return fmean(given(wanted) for wanted in zip(*drawn, strict=True))
    return sum(
        math.prod(share for _, share in state) * given(want for want, _ in state)
        for state in itertools.product(*states)
    )


def _held_back(solution: Solution, guest: _Guest, quota_percent: float | None) -> Solution:
    """Limit a guest to its quota; what it is held back it wants nothing."""
    if quota_percent is None:
        return solution
    least_s = guest.tasks * guest.cpu_s / (quota_percent / 100.0)
    if solution.cycle_s >= least_s:
        return solution
    runs = solution.cycle_s / least_s
    return Solution(least_s, (1.0 - runs + runs * solution.wants[0], *(runs * one for one in solution.wants[1:])))


def solve_together(works: Sequence[Work], guests: Sequence[Guest], host_cpus: int) -> list[float]:
    """Give each guest's stretch against itself alone with neither quota nor neighbours.

    Args:
        works: Of each guest, what it did alone.
        guests: What each may use.
        host_cpus: Which all share.
    """
    weights = [float(one.vcpus * _DEFAULT_WEIGHT if one.weight is None else one.weight) for one in guests]
    each = [_Guest.of(work, guest, host_cpus) for work, guest in zip(works, guests, strict=True)]
    alone_s = [one.solve(one.uses).cycle_s for one in each]
    found = [one.solve(one.uses) for one in each]
    for _ in range(_MOST_ROUNDS):
        change = 0.0
        for number, one in enumerate(each):
            others = [(each[other], found[other], weights[other]) for other in range(len(each)) if other != number]
            speeds = [_mean_share(use, weights[number], others, host_cpus) for use in one.uses]
            solved = _held_back(one.solve(speeds), one, guests[number].quota_percent)
            change = max(change, abs(solved.cycle_s - found[number].cycle_s) / (alone_s[number] or 1.0))
            wants = (_DAMPING * (new + old) for new, old in zip(solved.wants, found[number].wants, strict=True))
            found[number] = Solution(solved.cycle_s, tuple(wants))
        if change < _CLOSE:
            break
    return [one.cycle_s / base_s if base_s else 1.0 for one, base_s in zip(found, alone_s, strict=True)]
