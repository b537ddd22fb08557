"""Task files, overhead files and supplies: what is read, and what is refused with which words."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.schedulability.generation import Recipe, generate
from stealtime.schedulability.overheads import OverheadModel, read_overheads
from stealtime.schedulability.supply import Supply, parse_supply
from stealtime.schedulability.task_file import read_task_file, write_task_file
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError

TASK = '[[tasks]]\nname = "{name}"\ncost = "{cost}"\nperiod = "{period}"\n'


def task(name: str, cost: str = "1ms", period: str = "10ms", more: str = "") -> str:
    return TASK.format(name=name, cost=cost, period=period) + more


def write(folder: Path, text: str, name: str = "t.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_tasks_go_by_deadline_or_by_priority(tmp_path: Path) -> None:
    text = task("a") + task("b", more='deadline = "5ms"\n') + task("c", period="8ms") + task("d", more="cpu = 2\n")
    file = read_task_file(write(tmp_path, text))
    assert file.cpus() == [0, 2]
    assert [one.name for one in file.on(0)] == ["b", "c", "a"]
    text = task("a", more="priority = 7\n") + task("b", more="priority = 99\n") + task("c", more="priority = 1\n")
    assert [one.name for one in read_task_file(write(tmp_path, text)).on(0)] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (task("a", period="0ms"), "'0ms' is less than 1 ns"),
        (task("a", cost="-1ms"), "'-1ms' is not a duration"),
        (task("a") + task("a"), "2 tasks have the name 'a'"),
        (task("a", more="priority = 0\n"), "priority = 0"),
        (task("a", more="priority = 100\n"), "priority = 100"),
        (task("a", more="priority = 5\n") + task("b"), "the task 'b' has no priority and 'a' has one"),
        ("", "the key 'tasks' is missing"),
        ("tasks = []\n", "tasks = []"),
        (task("a", more='dead_line = "1ms"\n'), "unknown key 'dead_line' in [[tasks]] 1"),
        ("tasks = [", "Invalid value"),
    ],
)
def test_a_task_file_that_cannot_be_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as refused:
        read_task_file(path)
    assert message in refused.value.message
    assert str(path) in refused.value.message
    assert refused.value.hint
    assert refused.value.exit_code == ExitCode.USAGE


def test_a_priority_may_be_on_several_cpus(tmp_path: Path) -> None:
    text = task("a", more="priority = 5\n") + task("b", more="priority = 5\ncpu = 1\n")
    assert read_task_file(write(tmp_path, text)).cpus() == [0, 1]


@pytest.mark.parametrize("deadlines", ["implicit", "constrained", "arbitrary"])
@pytest.mark.parametrize(("law", "total"), [("medium-uniform", None), ("randfixedsum", 1.25)])
def test_a_generated_file_is_read_back_as_it_was(tmp_path: Path, deadlines: str, law: str, total: float | None) -> None:
    recipe = Recipe(law=law, per_cpu=3, seed=5, cpus=2, total=total, deadlines=deadlines)
    file = generate(recipe)
    text = write_task_file(file)
    assert read_task_file(write(tmp_path, text)) == file
    assert write_task_file(generate(recipe)) == text
    assert write_task_file(generate(Recipe(**{**vars(recipe), "seed": 6}))) != text
    assert file.generated is not None
    assert file.generated.utilization == pytest.approx(float(sum(one.utilization for one in file.tasks)))
    assert {one.cpu for one in file.tasks} == {0, 1}


@pytest.mark.parametrize("rule", ["scale", "shed", "keep"])
def test_the_rule_for_over_utilized_sets_is_recorded(rule: str) -> None:
    generated = generate(Recipe(law="medium-uniform", per_cpu=20, seed=1, over_utilized=rule)).generated
    assert generated is not None
    assert (generated.over_utilized, generated.tasks_asked, generated.attempts) == (rule, 20, 1)
    assert generated.drawn_utilization > 1
    assert (generated.utilization > 1) == (rule == "keep")


def test_no_other_law_is_taken_where_none_keeps_to_the_cap() -> None:
    with pytest.raises(StealtimeError, match="none of 1000 drawn sets has a utilization of at most 1") as refused:
        generate(Recipe(law="heavy-uniform", per_cpu=5, seed=1))
    assert refused.value.exit_code == ExitCode.FAILED


@pytest.mark.parametrize(
    ("recipe", "message", "hint"),
    [
        (Recipe("light-unifrom", 5, 1), "--law: 'light-unifrom' is unknown", "did you mean 'light-uniform'?"),
        (Recipe("light-uniform", 5, 1, periods="weekly"), "--periods: 'weekly' is unknown", "known: short"),
        (Recipe("light-uniform", 5, 1, fit="next"), "--fit: 'next' is unknown", "worst"),
        (Recipe("light-uniform", 5, 1, over_utilized="ignore"), "--over-utilized: 'ignore' is unknown", "redraw"),
        (Recipe("light-uniform", 0, 1), "-k: 0 is less than 1", "at least one task"),
        (Recipe("light-uniform", 5, 1, cpus=0), "--cpus: 0 is less than 1", "one CPU"),
        (Recipe("light-uniform", 5, -1), "--seed: -1 is not a number from 0", "any other"),
        (Recipe("light-uniform", 5, 1, total=0.5), "--total: 0.5 goes with no law", "randfixedsum"),
        (Recipe("randfixedsum", 5, 1), "--law: randfixedsum needs a total", "--total"),
        (Recipe("randfixedsum", 5, 1, total=6.0), "--total: 6.0 is not the utilization of 5 tasks", "of one CPU"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(recipe: Recipe, message: str, hint: str) -> None:
    with pytest.raises(StealtimeError) as refused:
        generate(recipe)
    assert message in refused.value.message
    assert hint in (refused.value.hint or "")


CSV = "TASK-COUNT, SCHEDULE, CXS, RELEASE-LATENCY\n2, 4.5, 1, 10\n4, 3.5, 2, 20\n10, 6.5, 5, 50\n"


def test_overheads_are_piecewise_linear_in_the_number_of_tasks_and_never_fall(tmp_path: Path) -> None:
    model = read_overheads(write(tmp_path, CSV, "o.csv"))
    # By hand, in ns: scheduling rises from 4.5 us only after 4 tasks; event latency is 5 us a task from there on.
    assert [model.at(tasks)["scheduling"] for tasks in (1, 2, 3, 4, 7, 10, 16)] == [
        4500,
        4500,
        4500,
        4500,
        5500,
        6500,
        8500,
    ]
    assert [model.at(tasks)["event_latency"] for tasks in (1, 3, 20)] == [10_000, 15_000, 100_000]
    assert [model.at(tasks)["context_switch"] for tasks in (1, 5)] == [1000, 2500]
    assert "release" not in model.at(2)


def test_schedcats_own_file_is_read(tmp_path: Path) -> None:
    # The first rows of its example/oh_host=ludwig..., with its tabs.
    text = (
        "\tTASK-COUNT,\tCXS,\tRELEASE-LATENCY,\tRELEASE,\tSCHEDULE,\tIPI-LATENCY,\tTICK\n"
        "\t  2,\t6.72978,\t29.72057,\t9.97856,\t14.59542,\t4.26253,\t1.49529\n"
        "\t  4,\t5.50067,\t37.68176,\t9.54492,\t11.59883,\t3.45727,\t1.61648\n"
    )
    model = read_overheads(write(tmp_path, text, "o.csv"))
    assert model.at(2) == {
        "event_latency": 29721,
        "release": 9979,
        "scheduling": 14596,
        "context_switch": 6730,
        "tick": 1496,
        "inter_processor_interrupt": 4263,
    }
    # Scheduling falls with n, and the monotone rule keeps it at its largest.
    assert model.at(40)["scheduling"] == 14596


@given(
    values=st.lists(st.integers(0, 10**6), min_size=1, max_size=6),
    steps=st.lists(st.integers(1, 20), min_size=6, max_size=6),
)
def test_no_overhead_is_negative_falls_or_is_below_a_measured_point(values: list[int], steps: list[int]) -> None:
    counts = [sum(steps[: number + 1]) for number in range(len(values))]
    points = [(count, Fraction(value, 7)) for count, value in zip(counts, values, strict=True)]
    model = OverheadModel("drawn", {"release": points})
    found = [model.at(tasks)["release"] for tasks in range(1, 150)]
    assert found == sorted(found)
    assert found[0] >= 0
    assert all(found[count - 1] >= value for count, value in points)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no row of values"),
        ("TASK-COUNT,CXS\n", "has no row of values"),
        ("CXS\n1\n", "has no column TASK-COUNT"),
        ("TASK-COUNT,CXS\n1,\n", "line 2: 1 values for 2 columns"),
        ("TASK-COUNT,CXS,TICK\n1,2\n", "line 2: 2 values for 3 columns"),
        ("TASK-COUNT,CXS\n1,2,3\n", "line 2: 3 values for 2 columns"),
        ("TASK-COUNT,CXS\n1,-2\n", "line 2: CXS is negative: -2000 ns"),
        ("TASK-COUNT,CXS\n1,nan\n", "line 2: CXS is 'nan', which is no number"),
        ("TASK-COUNT,CXS\n1,inf\n", "line 2: CXS is 'inf', which is no number"),
        ("TASK-COUNT,CXS\n1,1/0\n", "line 2: CXS is '1/0', which is no number"),
        ("TASK-COUNT,CXS\n1,2e9\n", "line 2: CXS is 2000 s"),
        ("TASK-COUNT,CXS\n2,1\n2,1\n", "line 3: TASK-COUNT is 2 after 2"),
        ("TASK-COUNT,CXS\n0,1\n", "line 2: TASK-COUNT is 0 after 0"),
        ("TASK-COUNT,CXS\n1.5,1\n", "line 2: TASK-COUNT is 1.5"),
        ("TASK-COUNT,CXS,CXS\n1,1,1\n", "has the column CXS twice"),
        ("TASK-COUNT,SCHED\n1,1\n", "has the unknown column 'SCHED'"),
    ],
)
def test_an_overhead_table_that_cannot_be_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_overheads(write(tmp_path, text, "o.csv"))
    assert message in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('release = "-3us"\n', "'-3us' is not a duration"),
        ('relaese = "3us"\n', "unknown key 'relaese'"),
        ("release = 3\n", "3 is not text"),
        ('release = "2s"\n', "release is 2 s"),
        ("release =\n", "at line 1"),
    ],
)
def test_an_overhead_file_that_cannot_be_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_overheads(write(tmp_path, text, "o.toml"))


def test_what_is_no_file_of_overheads_is_refused_as_one(tmp_path: Path) -> None:
    for path in (tmp_path, Path("last")):
        with pytest.raises(UsageError, match=r"is no \.csv or \.toml file") as refused:
            read_overheads(path)
        assert "a run" in (refused.value.hint or "")


def test_supplies_are_read() -> None:
    assert parse_supply("dedicated") == Supply("dedicated")
    assert parse_supply("6ms/10ms") == Supply("periodic", (10_000_000, 6_000_000, 10_000_000))
    assert parse_supply("6ms/10ms/8ms").text == "6ms of every 10ms, within 8ms"


@pytest.mark.parametrize("text", ["", "6ms", "half", "6ms/", "11ms/10ms", "6ms/10ms/5ms", "6ms/10ms/11ms", "1/2/3/4"])
def test_a_supply_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--supply: ") as refused:
        parse_supply(text)
    assert refused.value.hint
