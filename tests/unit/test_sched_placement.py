"""``sched place``: published and hand-made sets on several virtual CPUs, and all placements of small ones."""

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from command import Command, make_command
from documents import hold_against_schema

from stealtime.schedulability.analysis import analyze
from stealtime.schedulability.formats.draft import make_task_file
from stealtime.schedulability.placement import VirtualCpu, place
from stealtime.schedulability.question import Terms
from stealtime.schedulability.supply import parse_supply
from stealtime.schedulability.task_file import read_task_file

# S. K. Dhall and C. L. Liu, Operations Research 26(1), 1978: under a global order a long task misses beside as many
# short ones as there are processors; each has its place. Here 2 of 10 twice, and 10 of 11.
DHALL = [("short 1", 2, 10), ("short 2", 2, 10), ("long", 10, 11)]

# In tenths of a CPU: 5 3 2 and 4 2 2 2 fill two, and all three heuristics fail (found by trying).
PACKED = [5, 4, 3, 2, 2, 2, 2]


def toml(tasks: list[tuple[str, int, int]], more: str = "") -> str:
    one = '[[tasks]]\nname = "{}"\ncost = "{}ms"\nperiod = "{}ms"\n'
    return "".join(one.format(*task) + more for task in tasks)


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "dhall.toml").write_text(toml(DHALL))
    (tmp_path / "reserved.toml").write_text(toml([("a", 1, 9)], 'reservation = "2ms/9ms"\n'))
    (tmp_path / "packed.toml").write_text(toml([(f"t{n}", share, 10) for n, share in enumerate(PACKED)]))
    return make_command(monkeypatch, capsys)


def placed(stealtime: Command, *arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(stealtime("sched", "place", *arguments, "--json").out)
    hold_against_schema(document, "placement")
    return document


def names(document: dict[str, Any]) -> list[set[str]]:
    return [
        set() if one["cpu"] is None else {task["name"] for task in one["cpu"]["tasks"]} for one in document["placed"]
    ]


TWO = ("--on", "dedicated", "--on", "dedicated")


def test_a_long_task_has_a_processor_of_its_own(stealtime: Command, tmp_path: Path) -> None:
    document = placed(stealtime, "dhall.toml", *TWO, "-o", "placed.toml")
    assert document["verdict"] == "schedulable"
    assert names(document) == [{"long"}, {"short 1", "short 2"}]
    written = read_task_file(tmp_path / "placed.toml")
    assert {task.name: task.cpu for task in written.tasks} == {"long": 0, "short 1": 1, "short 2": 1}
    assert stealtime("sched", "analyze", "placed.toml").code == 0


def test_the_search_finds_what_heuristics_do_not(stealtime: Command) -> None:
    for fit in ("first", "best", "worst"):
        ended = stealtime("sched", "place", "packed.toml", *TWO, "--policy", "edf", "--fit", fit)
        assert ended.code == 4
        assert "`--fit search` may find one" in " ".join(ended.out.split())
    document = placed(stealtime, "packed.toml", *TWO, "--policy", "edf")
    assert (document["verdict"], document["found_by"]) == ("schedulable", "search")
    for one in document["placed"]:
        assert sum(task["cost_ns"] for task in one["cpu"]["tasks"]) == 10_000_000


def test_where_there_is_no_placement_all_were_tried(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "three.toml").write_text(toml([("a", 6, 10), ("b", 6, 10), ("c", 6, 10)]))
    ended = stealtime("sched", "place", "three.toml", *TWO)
    assert ended.code == 3
    assert ended.out.startswith("no placement, because no placement has all tasks within their deadlines")


def test_each_guest_has_the_supply_that_it_is_given(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(toml([("fast", 1, 10), ("slow", 10, 100)]))
    # A budget of 3 in 20 may leave 34 ms without service, one of 5 in 10 leaves 10: both too long for a period of 10.
    document = placed(stealtime, "t.toml", "--on", "web=3ms/20ms", "--on", "db=5ms/10ms")
    assert (document["verdict"], document["placed"]) == ("not schedulable", [])
    document = placed(stealtime, "t.toml", "--on", "web=3ms/20ms", "--on", "db=9ms/10ms")
    assert names(document)[1] >= {"fast"}
    assert [(one["name"], one["supply"]) for one in document["placed"]] == [
        ("web", "3ms of every 20ms"),
        ("db", "9ms of every 10ms"),
    ]
    said = stealtime("sched", "place", "t.toml", "--on", "web=3ms/20ms", "--on", "db=9ms/10ms").out
    assert said.startswith("placed by worst fit, decreasing")


def test_who_shares_a_resource_stays_together(stealtime: Command, tmp_path: Path) -> None:
    shared = toml([("a", 4, 10), ("b", 3, 10)], 'resources = { x = "1ms" }\n') + toml([("c", 5, 10)])
    (tmp_path / "t.toml").write_text(shared)
    assert sorted(map(sorted, names(placed(stealtime, "t.toml", *TWO)))) == [["a", "b"], ["c"]]


@pytest.mark.parametrize("seed", range(40))
def test_a_placement_is_found_if_and_only_if_there_is_one(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - the same again is what is wanted
    tasks: list[dict[str, Any]] = []
    for number in range(draw.randint(3, 5)):
        period = draw.randint(8, 20)
        tasks.append({"name": f"t{number}", "cost": draw.randint(2, 7), "period": period, "cpu": number})
    file = make_task_file(tasks, Path("drawn"))
    supplies = [parse_supply(text) for text in draw.sample(["dedicated", "dedicated", "6ns/8ns", "3ns/4ns"], 2)]
    document = place(file, "drawn", Terms(), [VirtualCpu(str(n), one) for n, one in enumerate(supplies)], "search")

    def fits(cpus: tuple[int, ...]) -> bool:
        for number, supply in enumerate(supplies):
            here = [task for task, cpu in zip(tasks, cpus, strict=True) if cpu == number]
            if sum(task["cost"] / task["period"] for task in here) > 1:
                return False
            if here:
                alone = make_task_file([{**task, "cpu": 0} for task in here], Path("drawn"))
                if analyze(alone, "drawn", Terms(supply=supply)).verdict != "schedulable":
                    return False
        return True

    possible = any(fits(cpus) for cpus in itertools.product(range(2), repeat=len(tasks)))
    assert document.verdict == ("schedulable" if possible else "not schedulable")
    assert all(one.cpu is None or one.cpu.verdict == "schedulable" for one in document.placed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dhall.toml"], "--on"),
        (["dhall.toml", "--on", "12ms/10ms"], "--on: '12ms/10ms'"),
        (["nowhere.toml", *TWO], "nowhere.toml does not exist"),
        (["dhall.toml", *TWO, "--fit", "next"], "'next'"),
        (["reserved.toml", *TWO, "--policy", "edf"], "the task 'a' has a reservation"),
    ],
)
def test_what_cannot_be_is_one_sentence(stealtime: Command, arguments: list[str], message: str) -> None:
    ended = stealtime("sched", "place", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err.splitlines()[0]
    assert ended.err.splitlines()[1].startswith("hint: ")


def test_tasks_of_equal_priority_may_share_a_virtual_cpu(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "equal.toml").write_text(
        "".join(f"{toml([one])}priority = 5\n" for one in (("a", 3, 10), ("b", 3, 10)))
    )
    ended = stealtime("sched", "place", "equal.toml", "--on", "dedicated", "--json")
    (placed,) = json.loads(ended.out)["placed"]
    assert (ended.code, [one["response_ns"] for one in placed["cpu"]["tasks"]]) == (0, [6_000_000] * 2)
