"""Chains of tasks: data age and reaction time, against pyCPA's published example and a simulation."""

import random
from pathlib import Path
from typing import Any

import pytest
from analysed_tasks import analysed_with_code
from chain_simulator import age_and_reaction
from command import Command, make_command

from stealtime.schedulability.analysis import analyze
from stealtime.schedulability.chains import with_chains
from stealtime.schedulability.formats.draft import make_task_file
from stealtime.schedulability.question import Terms
from stealtime.schedulability.task_file import ChainTable, read_task_file

MS = 1_000_000

# examples/effect_chain_test.py of IDA-TUBS/pycpa (824e794): cost, period, jitter, priority and CPU of each task.
PYCPA = [
    ("T11", 1, 20, 2, 9, 0),
    ("T12", 2, 40, 2, 8, 0),
    ("T13", 2, 10, 2, 7, 0),
    ("T21", 1, 40, 2, 8, 1),
    ("T22", 2, 20, 2, 9, 1),
]
CHAINS = """
[[chains]]
name = "C1"
tasks = ["T11", "T12"]
max_age = "30ms"

[[chains]]
name = "C2"
tasks = ["T13", "T21", "T22"]
max_reaction = "80ms"
"""


def toml() -> str:
    one = '[[tasks]]\nname = "{}"\ncost = "{}ms"\nperiod = "{}ms"\njitter = "{}ms"\npriority = {}\ncpu = {}\n'
    return "".join(one.format(*task) for task in PYCPA) + CHAINS


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "t.toml").write_text(toml())
    return make_command(monkeypatch, capsys)


def test_the_chains_of_pycpa(stealtime: Command) -> None:
    document, code = analysed_with_code(stealtime, "t.toml")
    first, second = document["chains"]
    # T11 goes before T12: 20 + 2 of jitter + 5. pyCPA, which knows the offsets, has 16.
    assert (first["age_ns"], first["verdict"]) == (27 * MS, "schedulable")
    # 10 + (40 + 7) + (20 + 5) + 4, as T22 goes before T21 and the CPUs differ. pyCPA has 63, with offsets.
    assert (second["reaction_ns"], second["verdict"]) == (86 * MS, "not schedulable")
    assert (document["verdict"], code) == ("not schedulable", 3)
    assert any("once in every period exactly" in one for one in document["remarks"])
    said = " ".join(stealtime("sched", "analyze", "t.toml").out.split())
    assert "C2: T13 > T21 > T22" in said
    assert "it may react later than it may" in said


def test_without_priorities_to_rely_on_each_response_counts(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_text('scheduling = "1us"\n')
    document, _ = analysed_with_code(stealtime, "t.toml", "--overheads", "o.toml")
    # 20 + 3 + 5 and two switches for each of the jobs in T11's response of one and T12's of two.
    assert document["chains"][0]["age_ns"] == 28 * MS + 2_000 + 4_000
    document, code = analysed_with_code(stealtime, "t.toml", "--policy", "edf", "--supply", "1ms/10ms")
    assert document["chains"][0]["because"] == "T11 has no bound of its response"
    assert document["chains"][0]["verdict"] == "not judged"
    assert code in (3, 4)


def test_a_writer_that_anything_may_block_counts_with_its_response(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(toml().replace('name = "T11"', 'name = "T11"\nblocking = "1ms"'))
    document, _ = analysed_with_code(stealtime, "t.toml")
    # 20 + 4 of T11's response + 5.
    assert document["chains"][0]["age_ns"] == 29 * MS


def test_no_simulated_chain_takes_longer_than_its_bound() -> None:
    reached = 0
    for seed in range(150):
        draw = random.Random(seed)  # noqa: S311 - the same again is what is wanted
        tasks: list[dict[str, Any]] = []
        left = 1.0
        for number in range(draw.randint(2, 4)):
            cost, period = draw.randint(1, 4), draw.randint(5, 20)
            left -= cost / period
            if left > 0:
                tasks.append(
                    {"name": f"t{number}", "cost": cost, "period": period, "deadline": 400, "priority": 9 - number}
                )
        order = draw.sample(range(len(tasks)), len(tasks))
        file = make_task_file(tasks, Path("drawn"))
        chain = ChainTable.model_construct(
            name="c", tasks=[f"{tasks[n]['name']}" for n in order], max_age=None, max_reaction=None
        )
        file = file.model_copy(update={"chains": [chain]})
        (found,) = with_chains(analyze(file, "drawn", Terms()), file, Terms()).chains
        assert found.age_ns is not None
        assert found.reaction_ns is not None
        for _ in range(6):
            arrivals = [(task["cost"], task["period"], draw.randint(0, task["period"])) for task in tasks]
            age, reaction = age_and_reaction(arrivals, order, 400)
            assert age <= found.age_ns, (seed, age, found)
            assert reaction <= found.reaction_ns, (seed, reaction, found)
            reached += age >= found.age_ns - 1 or reaction >= found.reaction_ns - 1
    assert reached > 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"T12"]', '"T99"]'), "the chain 'C1' has 'T99', which is no task"),
        (('"C2"', '"C1"'), "2 chains have the name 'C1'"),
        (('"T11", "T12"]', '"T11", "T11"]'), "2 parts of the chain 'C1' are the task 'T11'"),
        (('tasks = ["T11", "T12"]', "tasks = []"), "tasks = []"),
    ],
)
def test_chains_that_cannot_be_are_refused(
    stealtime: Command, tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    (tmp_path / "t.toml").write_text(toml().replace(*change))
    ended = stealtime("sched", "analyze", "t.toml")
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err.splitlines()[0]


def test_chains_are_written_as_they_were(stealtime: Command, tmp_path: Path) -> None:
    stealtime("sched", "analyze", "t.toml", "-o", "again.toml")
    assert read_task_file(tmp_path / "again.toml") == read_task_file(tmp_path / "t.toml")
