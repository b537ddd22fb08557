"""What others say of real-time overheads in virtual machines, judged by made-up runs whose right answers are known."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pytest

from stealtime.schedulability.measured import MeasuredCondition, Samples
from stealtime.studies.realtime.analysis.quantities import quantity_rows
from stealtime.studies.realtime.analysis.seed_claims import SeedClaim, seed_claims, sentences

COUNTS = (1, 4, 8, 12, 16, 20)


def samples(values: Sequence[float]) -> Samples:
    nothing = np.zeros(len(values), np.bool_)
    return Samples(np.array(values, np.float64), nothing, nothing)


def condition(machine: str, tasks: int, **changes: Sequence[float]) -> MeasuredCondition:
    """A thousand samples of each: 1 us of scheduling, with every fifth of event latency and switches an outlier."""
    scale = 1.0 if machine == "native" else 1.5
    jitter = np.tile([0.99, 1.0, 1.01, 1.0], 250)
    base: dict[str, Sequence[float]] = {
        "scheduling": (1_000 * scale * jitter).tolist(),
        "context_switch": (500 * scale * np.tile([1, 1, 1, 1, 20], 200)).tolist(),
        "event_latency": (2_000 * scale * np.tile([1, 1, 1, 1, 20], 200)).tolist(),
        "release": [800 * scale] * 999 + [800.0 * (30 if scale > 1 else 2)],
    }
    return MeasuredCondition(machine, tasks, {name: samples(one) for name, one in {**base, **changes}.items()})


def both(
    counts: Sequence[int] = COUNTS, guest: Mapping[str, Sequence[float]] = MappingProxyType({})
) -> list[MeasuredCondition]:
    return [condition("native", count) for count in counts] + [condition("guest", count, **guest) for count in counts]


def verdicts(conditions: Sequence[MeasuredCondition]) -> list[str]:
    return [one.verdict for one in seed_claims(conditions)]


def test_a_run_like_theirs_holds_all_claims() -> None:
    found = seed_claims(both())
    assert [one.verdict for one in found] == ["holds"] * 5
    assert found[1].evidence == "1.50 to 1.50 times the native one"
    first, *lines = sentences(found)
    assert "DASIP 2013" in first
    assert lines[0].startswith("guest: on the average every overhead is near the native one (at most 2 times): holds (")


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (0, {"release": [8_000.0] * 1_000}),
        (1, {"event_latency": [1_000.0] * 1_000}),
        (3, {"scheduling": np.tile([1, 1, 20, 1], 250).tolist()}),
        (4, {"release": [1_200.0] * 1_000}),
    ],
)
def test_each_claim_fails_where_its_rule_does(number: int, changes: dict[str, Sequence[float]]) -> None:
    found = seed_claims(both(guest=changes))
    assert found[number].verdict == "does not hold", found[number]


def test_scheduling_that_grows_with_the_tasks_is_not_flat() -> None:
    guest = [condition("guest", count, scheduling=[1_000.0 + 100 * count] * 1_000) for count in COUNTS]
    found = seed_claims([*both()[: len(COUNTS)], *guest])
    assert found[2].verdict == "does not hold"
    assert "6 numbers of tasks; native tau" in found[2].evidence
    assert "guest tau 1.00" in found[2].evidence


def test_scheduling_that_falls_with_the_tasks_depends_on_them_too() -> None:
    guest = [condition("guest", count, scheduling=[3_000.0 - 100 * count] * 1_000) for count in COUNTS]
    found = seed_claims([*both()[: len(COUNTS)], *guest])
    assert (found[2].verdict, "guest tau -1.00" in found[2].evidence) == ("does not hold", True)


def test_scheduling_that_wavers_is_not_called_flat() -> None:
    wavering = [1_000.0, 5_000.0, 900.0, 4_000.0, 1_100.0, 3_000.0]
    guest = [
        condition("guest", count, scheduling=[average] * 1_000) for count, average in zip(COUNTS, wavering, strict=True)
    ]
    found = seed_claims([*both()[: len(COUNTS)], *guest])
    assert found[2].verdict == "not judged", found[2]
    assert "averages are up to 5.6 times another one" in found[2].evidence


def test_what_a_run_does_not_tell_is_not_judged() -> None:
    assert verdicts(both(COUNTS[:4])) == ["not judged"] * 5
    assert seed_claims(both()[len(COUNTS) :]) == []
    beside = [condition("guest contention-cpu", count) for count in COUNTS]
    assert len(seed_claims([*both(), *beside])) == len(seed_claims(both()))
    lacking = [*both()[: len(COUNTS)], *(condition("guest", count, release=[]) for count in COUNTS)]
    found: list[SeedClaim] = seed_claims(lacking)
    assert [one.verdict for one in found] == ["not judged", "holds", "holds", "holds", "not judged"]
    assert "not measured with the same numbers of tasks: release" in found[0].evidence


def test_what_may_be_chance_is_not_judged() -> None:
    """Equal machines: half of the numbers of tasks are longer, and a single sample is an outlier."""
    calm = [1_000.0] * 1_000
    near = [
        condition("guest", count, event_latency=[2_000.0 * (1.01 if place % 2 else 0.99)] * 1_000, scheduling=calm)
        for place, count in enumerate(COUNTS)
    ]
    native = [condition("native", count, event_latency=[2_000.0] * 1_000) for count in COUNTS]
    found = seed_claims([*native, *near])
    assert (found[1].verdict, found[1].evidence[:32]) == ("not judged", "3 of 6 numbers of tasks are long")
    once = {name: [*calm[1:], 20_000.0] for name in ("event_latency", "context_switch")}
    rare = [
        condition("guest", count, scheduling=calm, **(once if count == 1 else dict.fromkeys(once, calm)))
        for count in COUNTS
    ]
    assert seed_claims([*native, *rare])[3].verdict == "not judged"


def test_of_more_samples_the_worst_is_worse_and_equally_many_are_compared() -> None:
    late = [800.0] * 1_000 + [800.0 * 1.5 * 30]
    found = seed_claims(both(guest={"release": late}))
    assert found[4].verdict == "does not hold", found[4]


def test_the_same_quantity_is_taken_where_all_kernels_tell_it() -> None:
    finer = {"finer_scheduling": [300.0, 100.0], "scheduling": [9_000.0] * 4}
    all_tell = [condition("native", 1, **finer), condition("guest", 1, **finer)]
    row = quantity_rows(all_tell)[0]
    assert (row.quantity, row.drawn, row.machine, row.samples) == ("scheduling", "finer scheduling", "guest", 2)
    assert (row.average_ns, row.worst_ns) == (200.0, 300.0)
    assert row.deviation_ns == pytest.approx(141.42, abs=0.01)
    one_does_not = [condition("native", 1, **finer), condition("guest", 1, scheduling=[1_000.0, 5_000.0, 2_000.0])]
    rows = [one for one in quantity_rows(one_does_not) if one.quantity == "scheduling"]
    assert [(one.machine, one.drawn, one.samples, one.compared) for one in rows] == [
        ("guest", "scheduling", 3, 3),
        ("native", "scheduling", 4, 3),
    ]
    assert rows[0].compared_worst_ns == rows[0].worst_ns == 5_000.0
