"""Overheads of a run as a model: equal numbers of samples, statistics, and the CSV that others read."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.schedulability.measured import (
    MeasuredCondition,
    Samples,
    equal_count,
    overhead_models,
    statistic_of,
)
from stealtime.schedulability.overheads import COLUMNS, OverheadModel, Provenance, read_overheads, write_overheads
from stealtime.vocabulary.errors import StealtimeError, UsageError


def samples(values: list[float]) -> Samples:
    nothing = np.zeros(len(values), np.bool_)
    return Samples(np.array(values, np.float64), nothing, nothing)


def condition(tasks: int, machine: str = "native", **values: list[float]) -> MeasuredCondition:
    """Give a machine's samples; of what every release takes a thousand of 1 ns where nothing else is said."""
    every = {name: [1.0] * 1000 for name in ("event_latency", "release", "scheduling", "context_switch")}
    made = {name: samples(one) for name, one in {**every, **values}.items()}
    return MeasuredCondition(machine, tasks, made, discards={"hole": 2})


def test_all_are_compared_on_as_many_samples_as_the_shortest_has() -> None:
    many = [float(value) for value in range(1, 1001)]
    conditions = [
        condition(2, release=many, tick=[5.0, 7.0]),
        condition(9, release=many[:50], tick=[5.0, 6.0]),
        condition(2, machine="guest", release=many, tick=[1.0, 2.0]),
    ]
    models = overhead_models("run", conditions, "worst")
    told = models["guest"].provenance
    assert told is not None
    assert (told.samples["release"], told.samples["tick"], told.samples["scheduling"]) == (50, 2, 1000)
    drawn = equal_count(np.array(many), 50, seed=1)
    assert models["native"].points["release"] == [(2, Fraction(int(drawn.max()))), (9, Fraction(50))]
    assert models["guest"].points["release"] == [(2, Fraction(int(drawn.max())))]
    # The draw is of the whole series, without putting any back, and another seed gives another.
    assert len(np.unique(drawn)) == 50
    assert drawn.max() > 900
    assert not np.array_equal(drawn, equal_count(np.array(many), 50, seed=2))


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ([condition(1, tick=[2.0]), condition(2)], r"no sample of tick was measured \(.*: native with 2\)"),
        ([condition(1, scheduling=[])], "no sample of scheduling .* native with 1"),
        ([condition(n, release=[]) for n in range(1, 6)], r"no sample of release .* native with 3, and 2 more"),
    ],
)
def test_what_was_not_measured_everywhere_is_not_taken_for_nothing(
    conditions: list[MeasuredCondition], message: str
) -> None:
    with pytest.raises(StealtimeError, match=message) as caught:
        overhead_models("run", conditions, "worst")
    assert "polluters = 1" in (caught.value.hint or "")


def test_what_was_measured_nowhere_and_is_not_in_every_release_is_left_out() -> None:
    models = overhead_models("run", [condition(1), condition(2)], "worst")
    assert "tick" not in models["native"].points


def test_a_percentile_is_a_sample_that_so_many_do_not_exceed() -> None:
    values = np.arange(1.0, 1001.0)
    assert [statistic_of(values, one) for one in ("average", "p99", "p99.9", "worst")] == [500.5, 990.0, 999.0, 1000.0]


def test_a_percentile_of_too_few_samples_is_refused() -> None:
    conditions = [condition(1, release=[1.0] * 999)]
    assert overhead_models("run", conditions, "p99")
    with pytest.raises(UsageError, match=r"999 samples of release .* too few for the p99.9") as caught:
        overhead_models("run", conditions, "p99.9")
    assert caught.value.hint is not None
    assert "1000" in caught.value.hint
    with pytest.raises(StealtimeError, match="holds no overheads"):
        overhead_models("run", [], "worst")


def test_only_an_average_may_fall() -> None:
    conditions = [condition(1, scheduling=[900.0]), condition(10, scheduling=[400.0])]
    worst = overhead_models("run", conditions, "worst")["native"]
    average = overhead_models("run", conditions, "average")["native"]
    assert [worst.at(10)["scheduling"], average.at(10)["scheduling"]] == [900, 400]


def test_the_whole_interrupt_is_charged_where_it_takes_longer_than_its_callback() -> None:
    points = {
        "release": [(1, Fraction(10))],
        "interrupt": [(1, Fraction(25))],
        "tick": [(1, Fraction(40))],
        "tick_interrupt": [(1, Fraction(30))],
    }
    assert OverheadModel("x", points).at(3) == {"release": 25, "tick": 40}


@given(
    st.lists(
        st.tuples(*[st.integers(0, 10**8) for _ in COLUMNS]),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(["average", "p99", "p99.9", "worst"]),
)
def test_a_written_model_is_read_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, ...]], statistic: str
) -> None:
    path = tmp_path_factory.mktemp("csv") / "overheads.csv"
    model = OverheadModel(
        str(path),
        {
            name: [(2 * number + 1, Fraction(row[column])) for number, row in enumerate(rows)]
            for column, name in enumerate(COLUMNS.values())
        },
        tick_period_ns=4_000_000,
        provenance=Provenance(
            statistic=statistic,
            machine="qemu-tcg-paravirt one-to-one",
            samples={"release": 17, "event_latency": 3},
            boundaries={"scheduling": "dispatch"},
            discards={"jobs.hole": 3, "pairs.not_ended": 1},
            seed=9,
        ),
    )
    path.write_text(write_overheads(model))
    assert read_overheads(path) == model


def test_schedcat_sees_a_table_with_comments_before_it() -> None:
    model = overhead_models("run", [condition(4, release=[1500.0], interrupt=[2500.0])], "worst")["native"]
    lines = write_overheads(model).splitlines()
    assert lines[-2:] == [
        "TASK-COUNT,RELEASE-LATENCY,RELEASE,SCHEDULE,CXS,INTERRUPT",
        "4,0.001,1.500,0.001,0.001,2.500",
    ]
    assert all(line.startswith("# ") for line in lines[:-2])
    assert "# statistic: worst" in lines
    told = next(line for line in lines if line.startswith("# samples: "))
    assert "release=1, " in told
    assert told.endswith("interrupt=1")
    assert "# discards: hole=2" in lines


@pytest.mark.parametrize(
    ("note", "message"),
    [
        ("# tick-period-ns: 0", "tick-period-ns is '0'"),
        ("# tick-period-ns: 4ms", "tick-period-ns is '4ms'"),
        ("# statistic: worst\n# samples: release=many", "invalid literal"),
    ],
)
def test_a_comment_that_cannot_be_is_refused(tmp_path: Path, note: str, message: str) -> None:
    path = tmp_path / "o.csv"
    path.write_text(f"{note}\nTASK-COUNT,RELEASE\n1,2\n")
    with pytest.raises(UsageError, match=message):
        read_overheads(path)


def test_other_comments_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    path.write_text("# measured on: a quiet day\nTASK-COUNT,RELEASE\n1,2\n")
    assert read_overheads(path).provenance is None


def test_disturbed_samples_are_shown_apart() -> None:
    one = Samples(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 1, 0, 1], np.bool_), np.array([0, 0, 1, 1], np.bool_))
    series = {name: list(values) for name, values in one.series().items()}
    assert series == {"clean": [1.0], "interrupted": [2.0], "host took the CPU": [3.0, 4.0]}
