"""Virtual CPUs that share CPUs: against the stretch study's solver, textbook cases, and hosts with pinning."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stealtime.capacity.prediction.network import Demand, solve
from stealtime.studies.stretch.analysis.model import Guest
from stealtime.studies.stretch.analysis.sharing import Work, solve_together

FIRST, BOTH = frozenset({0}), frozenset({0, 1})


def stretches(*demands: Demand) -> list[float]:
    return [one.stretch for one in solve(demands)]


@pytest.mark.parametrize(
    ("busy", "weights", "cpus"),
    [
        ((1.0, 1.0), (1, 3), 1),
        ((0.5, 0.5, 0.5), (1, 1, 1), 1),
        ((0.5, 0.3, 0.9, 0.2), (1, 3, 1, 1), 2),
        ((0.09,) * 6, (1,) * 6, 1),
        ((0.7, 0.6, 0.9, 1.0, 0.4), (2, 1, 1, 1, 1), 3),
    ],
)
def test_it_is_the_network_of_the_study(busy: tuple[float, ...], weights: tuple[int, ...], cpus: int) -> None:
    found = solve([Demand(one, frozenset(range(cpus)), weight) for one, weight in zip(busy, weights, strict=True)])
    works = [Work(tasks=1, elapsed_s=1.0, cpu_s=one, io_s=1.0 - one) for one in busy]
    guests = [Guest(vcpus=1, weight=100 * weight) for weight in weights]
    # Theirs is of all the time, sleep included; ours of the time in which a CPU is wanted.
    expected = [(cycle - 1.0 + one) / one for cycle, one in zip(solve_together(works, guests, cpus), busy, strict=True)]
    assert [one.stretch for one in found] == pytest.approx(expected, rel=2e-3)


def test_many_are_drawn_and_still_agree_with_every_joint_state() -> None:
    # Eleven are drawn; ten of the same load are looked at in each state, and the eleventh hardly wants anything.
    exact = stretches(*[Demand(0.6, frozenset(range(4)))] * 10)
    drawn = stretches(*[Demand(0.6, frozenset(range(4)))] * 10, Demand(1e-6, frozenset(range(4))))
    assert drawn[:10] == pytest.approx(exact, rel=0.02)


def test_a_pinned_pair_waits_for_each_other_and_nobody_else_does() -> None:
    pair = [Demand(1.0, FIRST)] * 2
    assert stretches(*pair, Demand(1.0, BOTH)) == pytest.approx([2.0, 2.0, 1.0])
    assert stretches(*pair, Demand(1.0, BOTH), Demand(1.0, BOTH)) == pytest.approx([2.0] * 4)
    assert stretches(*pair, *[Demand(1.0, frozenset({5, 6}))] * 2) == pytest.approx([2.0, 2.0, 1.0, 1.0])


def test_sets_of_cpus_that_overlap_are_full_together() -> None:
    chain = [Demand(1.0, frozenset({0, 1}))] * 2 + [Demand(1.0, frozenset({1, 2}))] * 2
    assert stretches(*chain) == pytest.approx([4 / 3] * 4)


def test_a_weight_counts_only_where_cpus_are_short() -> None:
    assert stretches(Demand(1.0, BOTH, 3.0), Demand(1.0, BOTH)) == pytest.approx([1.0, 1.0])
    assert stretches(Demand(1.0, BOTH, 3.0), Demand(1.0, BOTH), Demand(1.0, BOTH)) == pytest.approx([1.0, 2.0, 2.0])


def test_a_quota_leaves_the_rest_to_others_and_holds_longer_where_its_cpu_is_shared() -> None:
    held, free = solve([Demand(1.0, FIRST, most=0.25), Demand(1.0, FIRST)])
    assert held.runs == pytest.approx(0.25, rel=1e-3)
    # It runs at half speed until its quota is used up, half of the time.
    assert held.wants == pytest.approx(0.5, rel=1e-3)
    assert free.runs == pytest.approx(0.75, rel=1e-3)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_nobody_is_faster_than_alone_and_no_more_than_all_cpus_are_used(data: st.DataObject) -> None:
    cpus = data.draw(st.integers(1, 4))
    demands = [
        Demand(
            data.draw(st.floats(0.01, 1.0)),
            data.draw(st.frozensets(st.integers(0, cpus - 1), min_size=1)),
            data.draw(st.sampled_from([0.5, 1.0, 3.0])),
        )
        for _ in range(data.draw(st.integers(1, 6)))
    ]
    found = solve(demands)
    assert all(one.stretch >= 1.0 - 1e-6 for one in found)
    assert sum(one.runs for one in found) <= cpus * 1.1
    more = solve([*demands, Demand(1.0, frozenset(range(cpus)))])
    worse = [later.stretch - now.stretch for now, later in zip(found, more[:-1], strict=True)]
    assert min(worse) >= -1e-3
