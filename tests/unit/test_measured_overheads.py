"""Overheads of a run as a model: equal numbers of samples, statistics, and the CSV that others read."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.schedulability.measured import (
    MeasuredCondition,
    Samples,
    Statistic,
    compared_models,
    equal_count,
    overhead_models,
    statistic_of,
)
from stealtime.schedulability.overhead_remarks import curve_remarks, remarks_at
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
    models = compared_models("run", conditions, "worst")
    told = models["native"].provenance
    assert told is not None
    assert told.seed == 1
    assert (told.samples["release"], told.samples["tick"], told.samples["scheduling"]) == (
        (50, 50),
        (2, 2),
        (1000, 1000),
    )
    drawn = equal_count(np.array(many), 50, seed=1)
    assert models["native"].points["release"] == [(2, Fraction(int(drawn.max()))), (9, Fraction(50))]
    assert models["guest"].points["release"] == [(2, Fraction(int(drawn.max())))]
    # The draw is of the whole series, without putting any back, and another seed gives another.
    assert len(np.unique(drawn)) == 50
    assert drawn.max() > 900
    assert not np.array_equal(drawn, equal_count(np.array(many), 50, seed=2))


def test_what_is_charged_is_the_longest_that_was_seen_whatever_else_was_measured() -> None:
    # One sample in 10,000 is 3,566 us: of a draw of 50 it is hardly ever a part.
    long = [10.0] * 9_999 + [3_566_000.0]
    alone = [condition(2, release=long)]
    beside = [*alone, condition(2, machine="guest", release=[20.0] * 50, tick=[7.0])]
    models = overhead_models("run", beside, "worst")
    assert models["native"].at(2)["release"] == 3_566_000
    assert (
        compared_models("run", [alone[0], condition(2, machine="guest", release=[20.0] * 50)], "worst")["native"].at(2)[
            "release"
        ]
        < 3_566_000
    )
    # The answer of one machine does not change with the others of the run.
    assert models["native"] == overhead_models("run", alone, "worst")["native"]
    assert models["guest"].at(2)["tick"] == 7
    told = models["native"].provenance
    assert told is not None
    assert (told.samples["release"], told.seed) == ((10_000,), None)


@pytest.mark.parametrize("statistic", ["average", "p99", "p99.9"])
def test_every_statistic_that_is_charged_is_of_all_samples(statistic: Statistic) -> None:
    values = [float(value) for value in np.random.default_rng(3).permutation(5_000)]
    beside = condition(9, release=values[:1_000])
    model = overhead_models("run", [condition(2, release=values), beside], statistic)["native"]
    assert model.points["release"][0] == (2, Fraction(math.ceil(statistic_of(np.array(values), statistic))))


def test_fewer_tasks_than_were_measured_are_charged_the_first_row_and_more_are_said_to_be_guessed() -> None:
    model = OverheadModel("o.csv", {"release": [(5, Fraction(1000)), (10, Fraction(9000))]})
    # Along the line it would be less than nothing with 4 tasks.
    assert [model.at(tasks)["release"] for tasks in (1, 4, 5, 12)] == [1000, 1000, 1000, 12_200]
    assert list(remarks_at(model, 7)) == []
    (below,) = remarks_at(model, 1)
    assert below.startswith("overheads of 1 task are not known: charged are those of 5, the fewest in o.csv")
    (beyond,) = remarks_at(model, 12)
    assert "only of up to 10: charged is what a line through the last two rows gives" in beyond
    (of_file,) = curve_remarks(model)
    assert "known for 5 to 10 tasks" in of_file
    # Of a run it is known what else its machine did.
    _, of_run = curve_remarks(replace(model, uncharged=()))
    assert "RT throttling and the fair server of that machine may take is not charged here" in of_run
    constant = OverheadModel("o.toml", {"release": [(1, Fraction(1000))]}, is_constant=True)
    assert not [*remarks_at(constant, 9), *curve_remarks(constant)]


def test_a_rare_sample_of_few_tasks_that_counts_for_all_numbers_is_shown() -> None:
    conditions = [
        condition(1, scheduling=[10_000.0] * 999 + [3_566_000.0]),
        condition(8, scheduling=[12_000.0] * 400),
        condition(16, scheduling=[14_000.0] * 400),
    ]
    model = overhead_models("run", conditions, "worst")["native"]
    assert model.at(8)["scheduling"] == 3_566_000
    samples, carried = remarks_at(model, 8)
    assert samples == (
        "overheads: worst of 400 to 1,000 samples for each overhead and number of tasks (all that were measured)"
    )
    assert carried.endswith("scheduling 3566us (with 1 task; around 8 at most 12us)")
    assert "(with 1 task; around 12 at most 14us)" in list(remarks_at(model, 12))[1]
    assert len(list(remarks_at(model, 1))) == 1
    average = overhead_models("run", conditions, "average")["native"]
    assert len(list(remarks_at(average, 8))) == 1


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
    st.sampled_from([None, 9]),
)
def test_a_written_model_is_read_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, ...]], statistic: str, seed: int | None
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
            samples={"release": (17, 4), "event_latency": (3,)},
            boundaries={"scheduling": "dispatch"},
            discards={"jobs.hole": 3, "pairs.not_ended": 1},
            seed=seed,
        ),
    )
    path.write_text(write_overheads(model))
    assert read_overheads(path) == model


def test_a_pass_of_the_scheduler_that_is_longer_than_that_of_any_job_is_charged() -> None:
    finer = condition(4, scheduling=[9_000.0], finer_scheduling=[171_000.0], finer_context_switch=[1.0])
    charged = overhead_models("run", [finer], "worst")["native"].at(4)
    assert (charged["scheduling"], charged["context_switch"]) == (171_000, 1)
    # A machine whose kernel does not tell them is compared on what both tell.
    compared = compared_models("run", [finer, condition(4, machine="guest")], "worst")["native"]
    assert compared.at(4)["scheduling"] == 9_000


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
