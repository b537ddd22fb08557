"""A length of stalls that recurs in one run shows in the midst of bursts; equal runs have none."""

from dataclasses import replace

import numpy as np
import pytest
from truth import repetitions

from stealtime.report.recurrence import WIDTH, Recurrence, Repetition, judge_recurrence

THEFT_NS = 5.15e6
EQUAL = repetitions(few=25, full=100)
"""Pairs of equal runs, of each kind."""


def run_of(random: np.random.Generator, *, bursts: float, is_stolen: bool, repetitions: int = 12) -> list[Repetition]:
    """A run of a host that stalls by itself: in a share of the repetitions up to six times, for 4 to 25 ms."""
    run = []
    for _ in range(repetitions):
        lengths_ns = random.uniform(2e5, 1.5e6, 10).tolist()
        if random.random() < bursts:
            lengths_ns += np.exp(random.uniform(np.log(4e6), np.log(25e6), random.integers(1, 7))).tolist()
        if is_stolen:
            lengths_ns.append(THEFT_NS * random.uniform(0.98, 1.03))
        run.append(Repetition(lengths_ns, 0.0))
    return run


def found(a: list[Repetition], b: list[Repetition]) -> Recurrence:
    recurrence, because = judge_recurrence(a, b)
    assert recurrence is not None, because
    return recurrence


@pytest.mark.parametrize("bursts", [0.0, 0.3, 0.6])
def test_a_theft_in_each_repetition_is_found_in_the_midst_of_a_burst(bursts: float) -> None:
    random = np.random.default_rng(7)
    pairs = [
        (run_of(random, bursts=bursts, is_stolen=False), run_of(random, bursts=bursts, is_stolen=True))
        for _ in range(30)
    ]
    recurrences = [found(a, b) for a, b in pairs]
    seen = [one for one in recurrences if one.odds.low > 1.0 and one.from_ns < THEFT_NS < one.to_ns]
    assert len(seen) >= 27
    assert all(found(b, a).odds.high < 1.0 for (a, b), one in zip(pairs, recurrences, strict=True) if one in seen)


@pytest.mark.longer
def test_equal_runs_have_seldom_a_length_of_their_own() -> None:
    random = np.random.default_rng(8)
    judged = [
        judge_recurrence(*(run_of(random, bursts=bursts, is_stolen=is_stolen) for _ in range(2)))[0]
        for bursts in (0.1, 0.6)
        for is_stolen in (False, True)
        for _ in range(EQUAL)
    ]
    known = [one for one in judged if one is not None]
    assert len(known) > 3 * EQUAL
    assert sum(not one.odds.low <= 1.0 <= one.odds.high for one in known) <= 0.01 * len(known)


def test_lengths_that_a_repetition_did_not_keep_are_not_compared() -> None:
    """The one run kept only what is over 1 ms: that it has nothing of 0.3 ms says nothing."""
    a = [Repetition([0.3e6, 2e6], 0.0)] * 12
    b = [Repetition([2e6], 1e6)] * 12
    recurrence = judge_recurrence(a, b)[0]
    assert recurrence is None or recurrence.from_ns >= 1e6
    complete = [replace(one, complete_from_ns=0.0) for one in b]
    assert found(a, complete).odds.high < 1.0


def test_where_no_length_recurs_the_odds_have_two_ends() -> None:
    halves = [Repetition([2e6] if number % 2 else [1e5], 0.0) for number in range(12)]
    same = found(halves, halves)
    assert 0.0 < same.odds.low < 1.0 < same.odds.high < np.inf
    assert (same.a_repetitions, same.b_repetitions) == (6, 6)
    assert same.to_ns == pytest.approx(WIDTH * same.from_ns)


def test_what_cannot_be_told_says_why() -> None:
    some = [Repetition([5e6], 0.0)]
    assert judge_recurrence([], []) == (None, "no stall of a repetition is long enough")
    assert judge_recurrence([Repetition([9e3], 0.0)] * 12, some * 0) == (
        None,
        "no stall of a repetition is long enough",
    )
    few, because = judge_recurrence([Repetition([], 0.0)] * 4, some * 4)
    assert few is None
    assert because is not None
    assert because.startswith("4 and 4 valid repetitions are too few for ")
    none, because = judge_recurrence(some * 12, some * 12)
    assert none is None
    assert because == ("no length of stalls sets the runs apart, and none is in some but not all repetitions of both")
