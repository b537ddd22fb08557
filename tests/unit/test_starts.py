"""Tasks that start each other and threads of callbacks: published examples, and a simulation."""

import math
import random
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from analysed_tasks import analysed, analysed_with_code, responses_ns
from command import Command, make_command
from starting_simulator import NO_KERNEL, Kernel, Part, play

from stealtime.schedulability import analysis
from stealtime.schedulability.analysis import analyze
from stealtime.schedulability.chains import with_chains
from stealtime.schedulability.margins import Margins
from stealtime.schedulability.overheads import OverheadModel
from stealtime.schedulability.question import Terms
from stealtime.schedulability.task_file import ChainTable, TaskFile, TaskTable, read_task_file

MS = 1_000_000

# The case study of Casini and others (ECRTS 2019), boschresearch/ros2_response_time_analysis (8056fbd),
# case_study/move_base.py: name, cost in us, period in ms, what starts it, thread. A callback that two topics start is
# one for each of them; topics come up to 200 us late.
MOVE_BASE = [
    ("scan", 200, 80, None, "local"),
    ("tf", 200, 80, None, "local"),
    ("pose_estimator", 200, 80, None, "local"),
    ("local_costmap", 2_000, 80, "pose_estimator", "local"),
    ("local_planner", 18_000, 80, "local_costmap", "local"),
    ("global_costmap", 10_000, 80, "pose_estimator", "global"),
    ("global_planner_goalset", 200_000, 10_000, None, "global"),
    ("global_planner_timed", 200_000, 1_000, None, "global"),
]
CHAIN = """
[[chains]]
name = "odometry"
tasks = ["pose_estimator", "local_costmap", "local_planner"]
max_age = "100ms"
max_reaction = "200ms"
"""


def move_base(threads: dict[str, int]) -> str:
    """Give the tasks, each thread of the study on a CPU."""
    lines = []
    for name, cost, period, after, thread in MOVE_BASE:
        late = 200 if after is None and period == 80 else 0
        lines += ["[[tasks]]", f'name = "{name}"', f'cost = "{cost}us"', f'period = "{period}ms"', 'deadline = "10s"']
        lines += [f"cpu = {threads[thread]}", f'executor = "thread {threads[thread]}"']
        lines += [f'jitter = "{late}us"'] if late else []
        lines += [] if after is None else [f'after = "{after}"']
    return "\n".join(lines) + "\n" + CHAIN


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return make_command(monkeypatch, capsys)


@pytest.mark.parametrize(("supply", "theirs_us"), [("1ms/2ms", 42_600), ("1200us/2ms", 35_800), ("1ms/2500us", 53_600)])
def test_the_chain_of_ros_2_in_threads_with_reservations(
    stealtime: Command, tmp_path: Path, supply: str, theirs_us: int
) -> None:
    (tmp_path / "ros.toml").write_text(move_base({"local": 0, "global": 1}))
    document, _ = analysed_with_code(stealtime, "ros.toml", "--supply", supply)
    (chain,) = document["chains"]
    # Their analysis counts from the message, which comes up to 200 us late, and not from when it was to come.
    assert chain["age_ns"] == (theirs_us + 200) * 1_000
    assert chain["reaction_ns"] == chain["age_ns"] + 80 * MS


def test_the_chain_of_ros_2_in_one_thread(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "ros.toml").write_text(move_base({"local": 0, "global": 0}))
    document, code = analysed_with_code(stealtime, "ros.toml")
    (chain,) = document["chains"]
    # Theirs is 493.6 ms: both plans of 200 ms may go first, and later messages before the planner. They leave out what
    # comes after the planner has begun, which no callback interrupts; here that is one message of each, 12.6 ms.
    assert chain["age_ns"] == 493_600_000 + 200_000 + 12_600_000
    assert (chain["verdict"], code) == ("not schedulable", 3)
    # Deadlines of 10 s are far; with 1.66 times the costs a CPU is full.
    (cpu,) = document["cpus"]
    utilization = sum(cost / period / 1_000 for _, cost, period, *_ in MOVE_BASE)
    assert cpu["cost_factor"] == pytest.approx(1 / utilization, 1e-3)
    assert cpu["margin_is_of_all_cpus"]


# examples/tutorial.py of IDA-TUBS/pycpa (824e794), step 1: two chains over two CPUs and a bus, in ms here. The bus does
# not preempt: each of its frames waits for the longest of lower priority, as `blocking`.
PYCPA = """
[[tasks]]
name = "T11"
cost = "10ms"
least_cost = "5ms"
period = "30ms"
jitter = "3ms"
priority = 3
[[tasks]]
name = "T12"
cost = "3ms"
least_cost = "1ms"
period = "15ms"
jitter = "1ms"
priority = 2
deadline = "60ms"
[[tasks]]
name = "T21"
cost = "2ms"
least_cost = "2ms"
period = "30ms"
priority = 3
cpu = 1
after = "T11"
blocking = "9ms"
[[tasks]]
name = "T22"
cost = "9ms"
least_cost = "5ms"
period = "15ms"
priority = 2
cpu = 1
after = "T12"
deadline = "60ms"
[[tasks]]
name = "T31"
cost = "5ms"
least_cost = "3ms"
period = "30ms"
priority = 2
cpu = 2
after = "T21"
deadline = "60ms"
[[tasks]]
name = "T32"
cost = "3ms"
least_cost = "2ms"
period = "15ms"
priority = 3
cpu = 2
after = "T22"
deadline = "60ms"
"""


def test_the_tutorial_of_pycpa(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "pycpa.toml").write_text(PYCPA)
    found = responses_ns(analysed(stealtime, "pycpa.toml"))
    # pyCPA's responses of each task alone are 10, 13, 11, 18, 11 and 3, and their sums along the chains 32 and 34. From
    # when the event was to come, up to 3 and 1 before it came, that is 35 and 35. T22 waits least where T12 ended late,
    # which a sum does not know.
    assert {name: ns // MS for name, ns in found.items()} == {
        "T11": 13,
        "T12": 14,
        "T21": 24,
        "T22": 25,
        "T31": 35,
        "T32": 28,
    }


def drawn(draw: random.Random) -> tuple[TaskFile, list[Part]]:
    """Draw two or three chains over two CPUs, some in threads."""
    tasks: list[dict[str, Any]] = []
    priorities = draw.sample(range(1, 40), 12)
    for number in range(draw.randint(1, 3)):
        period = draw.randint(12, 60)
        before: str | None = None
        for place in range(draw.randint(1, 3)):
            name = f"t{number}{place}"
            cost = draw.randint(1, max(1, period // 8))
            start = {"jitter": draw.choice([0, 0, draw.randint(0, period)])} if before is None else {"after": before}
            tasks.append(
                {
                    "name": name,
                    "cost": cost,
                    "least_cost": draw.randint(1, cost),
                    "period": period,
                    "deadline": 5_000,
                    "priority": priorities.pop(),
                    "cpu": draw.randint(0, 1),
                    **start,
                }
            )
            before = name if draw.randint(0, 3) else f"t{number}0"
    if draw.randint(0, 1):
        for cpu in (0, 1):
            for task in tasks:
                if task["cpu"] == cpu and draw.randint(0, 3):
                    task |= {"executor": f"e{cpu}", "priority": 50 - cpu}
    file = TaskFile.model_validate({"tasks": [_as_text(task) for task in tasks]})
    places = {task["name"]: number for number, task in enumerate(tasks)}
    parts = [
        Part(
            cost=task["cost"],
            period=task["period"],
            least=task["least_cost"],
            priority=task["priority"],
            cpu=task["cpu"],
            jitter=task.get("jitter", 0),
            phase=0,
            after=places[task["after"]] if "after" in task else None,
            executor=int(task["executor"][1:]) if "executor" in task else None,
        )
        for task in tasks
    ]
    return file, parts


def _as_text(task: dict[str, Any]) -> dict[str, Any]:
    times = ("cost", "least_cost", "period", "deadline", "jitter")
    return {key: f"{value}ns" if key in times else value for key, value in task.items() if value != 0 or key == "cpu"}


def drawn_kernel(draw: random.Random) -> tuple[Kernel, Terms]:
    """Draw what a kernel takes, and put it as the analysis takes it."""
    scheduling, context_switch = draw.randint(0, 1), draw.randint(0, 1)
    kernel = Kernel(
        latency=draw.randint(0, 3),
        release=draw.randint(0, 1),
        section=scheduling + context_switch,
        cache=draw.randint(0, 2),
        tick=draw.randint(0, 1),
        tick_period=draw.randint(15, 60),
        request=draw.randint(0, 3),
    )
    charged = {
        "event_latency": kernel.latency,
        "release": kernel.release,
        "scheduling": scheduling,
        "context_switch": context_switch,
        "tick": kernel.tick,
        "inter_processor_interrupt": kernel.request,
        "cache_preemption": kernel.cache,
    }
    points = {name: [(1, Fraction(ns))] for name, ns in charged.items()}
    return kernel, Terms(overheads=OverheadModel("drawn", points, kernel.tick_period, is_constant=True))


def judged_against_simulation(seeds: range, with_kernel: bool) -> tuple[int, int, int]:
    """Give how many bounds were looked at, how many were reached, and how many chains."""
    bounds = reached = chains = 0
    for seed in seeds:
        draw = random.Random(seed)  # noqa: S311 - the same again is what is wanted
        file, parts = drawn(draw)
        kernel, terms = drawn_kernel(draw) if with_kernel else (NO_KERNEL, Terms())
        order = draw.sample(range(len(parts)), min(len(parts), draw.randint(1, 4)))
        names = [file.tasks[number].name for number in order]
        chain = ChainTable.model_construct(name="c", tasks=names, max_age=None, max_reaction=None)
        file = file.model_copy(update={"chains": [chain]})
        document = with_chains(analyze(file, "drawn", terms), file, terms)
        found = {task.name: task.response_ns for cpu in document.cpus for task in cpu.tasks}
        for lazy in (False, True, True):
            moved = [
                Part(**{**part.__dict__, "phase": 0 if not lazy and seed % 2 else draw.randint(0, part.period)})
                for part in parts
            ]
            seen = play(moved, order, 600, draw, lazy, kernel)
            for task, response in zip(file.tasks, seen.responses, strict=True):
                bound = found[task.name]
                if bound is not None:
                    bounds += 1
                    reached += response == bound
                    assert response <= bound, (seed, task, response, bound)
            (end_to_end,) = document.chains
            if end_to_end.age_ns is not None and end_to_end.reaction_ns is not None:
                chains += 1
                assert seen.age <= end_to_end.age_ns, (seed, seen.age, end_to_end)
                assert seen.reaction <= end_to_end.reaction_ns, (seed, seen.reaction, end_to_end)
    return bounds, reached, chains


@pytest.mark.parametrize(
    ("sets", "with_kernel", "least_bounds", "least_reached"), [(250, False, 2_000, 200), (150, True, 1_000, 10)]
)
def test_no_simulated_job_and_chain_takes_longer_than_its_bound(
    sets: int, with_kernel: bool, least_bounds: int, least_reached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody asks for margins here, which take longer than the rest.
    monkeypatch.setattr(analysis, "margins_together", lambda *_: Margins())
    bounds, reached, chains = judged_against_simulation(range(sets), with_kernel)
    assert bounds > least_bounds
    assert reached > least_reached
    assert chains > 2 * sets


@pytest.mark.parametrize("overhead", ["release", "event_latency", "scheduling", "cache_preemption"])
def test_a_callback_alone_in_its_thread_is_a_task_as_any_other(
    stealtime: Command, tmp_path: Path, overhead: str
) -> None:
    # What releases the tasks below it interrupts it, too.
    (tmp_path / "o.toml").write_text(f'{overhead} = "100us"\n')
    found = []
    for more in ("", 'executor = "alone"\n'):
        (tmp_path / "t.toml").write_text(
            PYCPA.replace('name = "T21"\n', f'name = "T21"\n{more}').replace('blocking = "9ms"\n', "")
        )
        found.append(responses_ns(analysed(stealtime, "t.toml", "--overheads", "o.toml")))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('after = "T12"', 'after = "T99"'), "the task 'T22' comes after 'T99', which is no task"),
        (('after = "T12"', 'after = "T11"'), "and has a period of 15ms"),
        (('jitter = "1ms"', 'after = "T32"'), "comes after itself"),
        (('after = "T12"', 'after = "T12"\njitter = "1ms"'), "the task 'T22' has jitter of its own"),
        (('least_cost = "1ms"', 'least_cost = "4ms"'), "the task 'T12' has a least_cost above its cost"),
        (('after = "T12"', 'executor = "bus"\nafter = "T12"\nblocking = "1ms"'), "has critical sections"),
        (('after = "T12"', 'executor = "bus"\nreservation = "9ms/15ms"'), "and is started by another task"),
    ],
)
def test_starts_that_cannot_be_are_refused(
    stealtime: Command, tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    text = PYCPA.replace(*change)
    (tmp_path / "t.toml").write_text(
        text.replace("priority = 2\ncpu = 1", "cpu = 1") if "reservation" in text else text
    )
    ended = stealtime("sched", "analyze", "t.toml")
    assert (ended.code, ended.out) == (2, "")
    assert message in " ".join(ended.err.split())


@pytest.mark.parametrize("option", [("--policy", "edf"), ("--assign",), ("--sensitivity",)])
def test_what_is_not_analysed_of_starts_is_refused(stealtime: Command, tmp_path: Path, option: tuple[str, ...]) -> None:
    (tmp_path / "t.toml").write_text(PYCPA)
    ended = stealtime("sched", "analyze", "t.toml", *option)
    assert (ended.code, ended.out) == (2, "")
    assert "tasks that start each other" in " ".join(ended.err.split())


def test_what_shares_a_thread_is_not_placed(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(move_base({"local": 0, "global": 0}))
    ended = stealtime("sched", "place", "t.toml", "--on", "dedicated")
    assert (ended.code, ended.out) == (2, "")
    assert "sched place: tasks that start each other" in " ".join(ended.err.split())


def test_a_chain_that_overloads_a_cpu_has_no_bound(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(PYCPA.replace('cost = "9ms"', 'cost = "14500us"'))
    document, code = analysed_with_code(stealtime, "t.toml")
    assert (document["verdict"], code) == ("not schedulable", 3)
    by_name = {task["name"]: task for cpu in document["cpus"] for task in cpu["tasks"]}
    assert by_name["T22"]["unbounded"]
    assert by_name["T32"]["response_ns"] is None
    assert by_name["T32"]["because"] == "T22 has no bound of its response, and starts others"


def scaled(text: str, factor: Fraction) -> str:
    def longer(cost: re.Match[str]) -> str:
        return f'cost = "{math.ceil(int(cost[1]) * MS * factor)}ns"'

    return re.sub(r'^cost = "(\d+)ms"', longer, text, flags=re.MULTILINE)


def test_the_margin_is_the_edge_on_all_cpus(stealtime: Command, tmp_path: Path) -> None:
    # With deadlines that are near, so that they and not full CPUs decide.
    text = PYCPA.replace('deadline = "60ms"', 'deadline = "40ms"')
    (tmp_path / "t.toml").write_text(text)
    (tmp_path / "o.toml").write_text('release = "100us"\ninter_processor_interrupt = "50us"\n')
    document = analysed(stealtime, "t.toml", "--overheads", "o.toml", "--least-budget", "4ms")
    first, *others = document["cpus"]
    factor, budget = first["cost_factor"], first["least_budget_ns"]
    assert [(cpu["cost_factor"], cpu["least_budget_ns"]) for cpu in others] == [(factor, budget)] * 2
    assert not first["cost_factor_is_lower_bound"]

    def verdict(factor: Fraction, without: str = "") -> str:
        (tmp_path / "s.toml").write_text(scaled(text, factor))
        lines = (tmp_path / "o.toml").read_text().splitlines(keepends=True)
        (tmp_path / "w.toml").write_text("".join(line for line in lines if not without or without not in line))
        return str(analysed_with_code(stealtime, "s.toml", "--overheads", "w.toml")[0]["verdict"])

    millionth = Fraction(1, 1_000_000)
    edge = round(factor / millionth) * millionth
    assert (verdict(edge), verdict(edge + millionth)) == ("schedulable", "not schedulable")
    for one in first["overheads"]:
        without = round(one["cost_factor_without"] / millionth) * millionth
        found = [verdict(without + more, one["overhead"]) for more in (0, millionth)]
        assert found == ["schedulable", "not schedulable"], one
        assert without > edge
    assert first["dominant_overhead"] == "release"
    supplied = [
        analysed_with_code(stealtime, "t.toml", "--overheads", "o.toml", "--supply", f"{ns}ns/4ms")[0]["verdict"]
        for ns in (budget, budget - 1)
    ]
    assert supplied == ["schedulable", "not schedulable"]


def test_a_margin_below_a_least_cost_is_a_lower_bound(stealtime: Command, tmp_path: Path) -> None:
    # T11 takes 5 ms at least. Shorter than that, what it starts may come earlier, and wait for more.
    (tmp_path / "t.toml").write_text(PYCPA.replace('deadline = "60ms"', 'deadline = "14ms"'))
    document, code = analysed_with_code(stealtime, "t.toml")
    assert code == 3
    cpu = document["cpus"][0]
    assert 0 < cpu["cost_factor"] < 1
    assert cpu["cost_factor_is_lower_bound"]


STARTED_EARLY = """
[[tasks]]
name = "a"
cost = "10ms"
least_cost = "2ms"
period = "20ms"
[[tasks]]
name = "b"
cost = "2ms"
period = "20ms"
cpu = 1
priority = 2
after = "a"
[[tasks]]
name = "c"
cost = "11ms"
period = "40ms"
cpu = 1
priority = 1
"""


def test_what_may_end_early_starts_twice_within_a_period(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(STARTED_EARLY.replace('cost = "10ms"', 'priority = 1\ncost = "10ms"'))
    # b at 10 and, as the second job of a took 2 ms only, at 22: c from 10 on ends at 25.
    assert responses_ns(analysed(stealtime, "t.toml"))["c"] == 15 * MS
    (tmp_path / "t.toml").write_text((tmp_path / "t.toml").read_text().replace("2ms", "10ms", 1))
    assert responses_ns(analysed(stealtime, "t.toml"))["c"] == 13 * MS


def test_a_start_on_another_cpu_takes_an_interrupt_longer(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(PYCPA)
    (tmp_path / "o.toml").write_text('inter_processor_interrupt = "100us"\n')
    before = responses_ns(analysed(stealtime, "t.toml"))
    after = responses_ns(analysed(stealtime, "t.toml", "--overheads", "o.toml"))
    assert after["T21"] - before["T21"] == 100_000
    assert after["T32"] - before["T32"] == 200_000


def test_starts_are_written_as_they_were(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(move_base({"local": 0, "global": 1}))
    stealtime("sched", "analyze", "t.toml", "-o", "again.toml")
    assert read_task_file(tmp_path / "again.toml") == read_task_file(tmp_path / "t.toml")


def test_the_callbacks_of_a_thread_stand_together() -> None:
    def one(name: str, deadline: int, executor: str | None) -> TaskTable:
        return TaskTable.model_validate({"name": name, "cost": "1ns", "period": f"{deadline}ns", "executor": executor})

    file = TaskFile(tasks=[one("a", 50, "x"), one("b", 20, None), one("c", 10, "x"), one("d", 30, "y")])
    assert [task.name for task in file.on(0)] == ["a", "c", "b", "d"]
