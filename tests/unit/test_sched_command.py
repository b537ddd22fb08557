"""``stealtime sched``: what a user types, and what comes back."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command import Command, make_command
from documents import hold_against_schema
from syrupy.assertion import SnapshotAssertion

from stealtime.schedulability.curve import wilson

# Liu and Layland's condition fails for these two, response-time analysis accepts them: 0.971 of a CPU.
TIGHT = """
[[tasks]]
name = "control"
cost = "2ms"
period = "5ms"

[[tasks]]
name = "logging"
cost = "4ms"
period = "7ms"
deadline = "{deadline}"
"""
OVERHEADS = """
event_latency = "20us"
release = "3us"
scheduling = "10us"
context_switch = "4us"
tick = "2us"
tick_period = "4ms"
"""
JITTERY = '[[tasks]]\nname = "a"\ncost = "8ms"\nperiod = "10ms"\njitter = "5ms"\n'


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    # Files are named as a user in their folder names them.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "tasks.toml").write_text(TIGHT.format(deadline="8ms"))
    (tmp_path / "missing.toml").write_text(TIGHT.format(deadline="7ms"))
    (tmp_path / "jittery.toml").write_text(JITTERY)
    (tmp_path / "overheads.toml").write_text(OVERHEADS)
    return make_command(monkeypatch, capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["tasks.toml", "--overheads", "overheads.toml", "--least-budget", "1ms"],
        ["missing.toml"],
        ["missing.toml", "--policy", "edf", "--overheads", "overheads.toml", "--supply", "9ms/10ms"],
        ["missing.toml", "--policy", "edf", "--overheads", "overheads.toml"],
    ],
)
def test_the_page(stealtime: Command, snapshot: SnapshotAssertion, arguments: list[str]) -> None:
    assert stealtime("sched", "analyze", *arguments).out == snapshot


@pytest.mark.parametrize(
    ("arguments", "verdict", "code"),
    [
        (["tasks.toml"], "schedulable", 0),
        # R = 2 * 2 + 4 = 8 ms.
        (["missing.toml"], "not schedulable", 3),
        (["missing.toml", "--policy", "edf"], "schedulable", 0),
        (["tasks.toml", "--supply", "1ms/2ms"], "not schedulable", 3),
        # Its window is 8 ms and its deadline 10 ms, but it may begin 5 ms late.
        (["jittery.toml"], "not schedulable", 3),
    ],
)
def test_the_verdict_is_in_the_exit_code(stealtime: Command, arguments: list[str], verdict: str, code: int) -> None:
    ended = stealtime("sched", "analyze", *arguments, "--json")
    document = json.loads(ended.out)
    assert (document["verdict"], ended.code) == (verdict, code)
    hold_against_schema(document, "analysis")


def test_responses_are_those_of_the_textbook(stealtime: Command) -> None:
    tasks = json.loads(stealtime("sched", "analyze", "tasks.toml", "--json").out)["cpus"][0]["tasks"]
    assert [(one["name"], one["response_ns"]) for one in tasks] == [("control", 2_000_000), ("logging", 8_000_000)]


def test_overheads_shrink_the_margin_and_the_largest_is_named(stealtime: Command) -> None:
    with_them = json.loads(stealtime("sched", "analyze", "tasks.toml", "--overheads", "overheads.toml", "--json").out)
    without = json.loads(stealtime("sched", "analyze", "tasks.toml", "--json").out)
    cpu, bare = with_them["cpus"][0], without["cpus"][0]
    assert cpu["cost_factor"] < bare["cost_factor"]
    factors = {one["overhead"]: one["cost_factor_without"] for one in cpu["overheads"]}
    assert cpu["dominant_overhead"] == max(factors, key=lambda name: factors[name])
    assert (bare["dominant_overhead"], bare["overheads"]) == (None, [])


def test_overheads_are_those_of_as_many_tasks_as_the_file_has(stealtime: Command, tmp_path: Path) -> None:
    # Any overhead that depends on the number of tasks ends SchedCAT's fixed-priority test in a TypeError.
    (tmp_path / "o.csv").write_text("TASK-COUNT,SCHEDULE,CXS\n1,1,2\n3,5,2\n")
    cpu = json.loads(stealtime("sched", "analyze", "tasks.toml", "--overheads", "o.csv", "--json").out)["cpus"][0]
    assert {one["overhead"]: one["overhead_ns"] for one in cpu["overheads"]} == {
        "scheduling": 3_000,
        "context_switch": 2_000,
    }
    # Two scheduling decisions and two context switches more than 2 ms.
    assert cpu["tasks"][0]["response_ns"] == 2_010_000


def test_the_proved_accounting_is_no_less_careful(stealtime: Command) -> None:
    def responses(accounting: str) -> list[int]:
        arguments = ("--overheads", "overheads.toml", "--accounting", accounting, "--json")
        cpu = json.loads(stealtime("sched", "analyze", "tasks.toml", *arguments).out)["cpus"][0]
        return [one["response_ns"] for one in cpu["tasks"]]

    assert all(job < stretch for job, stretch in zip(responses("job"), responses("stretch"), strict=True))


def test_a_full_cpu_with_jitter_is_not_judged_under_edf(stealtime: Command, tmp_path: Path) -> None:
    full = '[[tasks]]\nname = "a"\ncost = "10ms"\nperiod = "10ms"\ndeadline = "15ms"\njitter = "1ms"\n'
    (tmp_path / "full.toml").write_text(full)
    ended = stealtime("sched", "analyze", "full.toml", "--policy", "edf")
    assert ended.code == 4
    assert "not judged, because no fixed point was found" in ended.out


def test_edf_names_the_window_that_decides(stealtime: Command, tmp_path: Path) -> None:
    def demand(name: str) -> dict[str, int]:
        cpu = json.loads(stealtime("sched", "analyze", name, "--policy", "edf", "--json").out)["cpus"][0]
        window: dict[str, int] = cpu["demand"]
        return window

    # At 5 ms 3 ms are left over, at 7 ms 1 ms, and later not less.
    assert demand("missing.toml") == {
        "window_ns": 7_000_000,
        "demand_ns": 6_000_000,
        "service_ns": 7_000_000,
        "slack_ns": 1_000_000,
    }
    (tmp_path / "late.toml").write_text(TIGHT.format(deadline="5ms"))
    assert demand("late.toml") == {
        "window_ns": 5_000_000,
        "demand_ns": 6_000_000,
        "service_ns": 5_000_000,
        "slack_ns": -1_000_000,
    }


def test_edf_bounds_responses_on_any_supply(stealtime: Command) -> None:
    def responses(*arguments: str) -> list[tuple[int | None, str | None]]:
        ended = stealtime("sched", "analyze", "missing.toml", "--policy", "edf", *arguments, "--json")
        return [(one["response_ns"], one["verdict"]) for one in json.loads(ended.out)["cpus"][0]["tasks"]]

    # Released 2 ms after "logging" and due as late, "control" waits for it until 4 ms and ends at 6. Released with the
    # other, "logging" ends at 6 ms; its deadline is before that of the other's second job.
    assert responses() == [(4_000_000, "meets its deadline"), (6_000_000, "meets its deadline")]
    # Nothing is served for 2 ms, then more than both need.
    assert responses("--supply", "99ms/100ms") == [
        (6_000_000, "misses its deadline"),
        (8_000_000, "misses its deadline"),
    ]


def test_generated_sets_are_analysed(stealtime: Command, tmp_path: Path) -> None:
    arguments = ("--law", "light-uniform", "-k", "10", "--seed", "1", "--cpus", "2")
    generated = stealtime("sched", "generate", *arguments)
    assert generated.code == 0
    assert len(tomllib.loads(generated.out)["tasks"]) == 20
    (tmp_path / "t.toml").write_text(generated.out)
    document = json.loads(stealtime("sched", "analyze", "t.toml", "--json").out)
    assert [cpu["cpu"] for cpu in document["cpus"]] == [0, 1]


@pytest.mark.parametrize(("blocking", "code"), [("8ms", 0), ("8001us", 3)])
def test_blocking_counts_in_every_window_under_edf(
    stealtime: Command, tmp_path: Path, blocking: str, code: int
) -> None:
    task = f'[[tasks]]\nname = "a"\ncost = "1ms"\nperiod = "9ms"\nblocking = "{blocking}"\n'
    (tmp_path / "blocked.toml").write_text(task)
    assert stealtime("sched", "analyze", "blocked.toml").code == code
    ended = stealtime("sched", "analyze", "blocked.toml", "--policy", "edf")
    assert ended.code == code
    assert code == 0 or "in a window of 9ms jobs and what blocks them, together 9001us" in " ".join(ended.out.split())


def analysed(stealtime: Command, *arguments: str) -> tuple[dict[str, Any], int]:
    ended = stealtime("sched", "analyze", *arguments, "--json")
    return json.loads(ended.out)["cpus"][0], ended.code


def test_ticks_on_a_share_take_time_and_not_only_service(stealtime: Command, tmp_path: Path) -> None:
    # 440 ms of a second on 5 of every 10 ms: each of the thousand ticks comes, whether or not there is service.
    (tmp_path / "one.toml").write_text('[[tasks]]\nname = "a"\ncost = "440ms"\nperiod = "1s"\n')
    (tmp_path / "tick.toml").write_text('tick = "100us"\ntick_period = "1ms"\n')
    arguments = ("one.toml", "--overheads", "tick.toml", "--supply", "5ms/10ms")
    (by_priority, first), (by_deadline, second) = (
        analysed(stealtime, *arguments, "--policy", policy) for policy in ("fixed-priority", "edf")
    )
    assert (first, second) == (3, 3)
    assert by_priority["cost_factor"] == by_deadline["cost_factor"] == pytest.approx(0.9, abs=0.005)


def test_interrupts_have_the_jitter_of_their_jobs(stealtime: Command, tmp_path: Path) -> None:
    # 21 releases may come at once, and one more of each task while the victim works: 80 + 1 + 1 + 21 us.
    (tmp_path / "burst.toml").write_text(
        '[[tasks]]\nname = "victim"\ncost = "80us"\nperiod = "100us"\n'
        '[[tasks]]\nname = "burst"\ncost = "1us"\nperiod = "1ms"\njitter = "20ms"\ndeadline = "30ms"\n'
    )
    (tmp_path / "release.toml").write_text('release = "1us"\n')
    cpu, code = analysed(stealtime, "burst.toml", "--overheads", "release.toml", "--policy", "edf")
    # And 1 us that it is ready later, which its own interrupt has counted already.
    assert (code, cpu["tasks"][0]["response_ns"]) == (3, 104_000)


@pytest.mark.parametrize("policy", ["fixed-priority", "edf"])
def test_more_than_a_cpu_is_unbounded_with_a_margin(stealtime: Command, tmp_path: Path, policy: str) -> None:
    (tmp_path / "over.toml").write_text(
        '[[tasks]]\nname = "a"\ncost = "6ms"\nperiod = "10ms"\n[[tasks]]\nname = "b"\ncost = "12ms"\nperiod = "10ms"\n'
    )
    cpu, code = analysed(stealtime, "over.toml", "--policy", policy)
    last = cpu["tasks"][-1]
    assert (code, cpu["cost_factor"]) == (3, 0.555555)
    assert (last["response_ns"], last["at_least_ns"], last["unbounded"]) == (None, None, True)
    assert "unbounded" in stealtime("sched", "analyze", "over.toml", "--policy", policy).out


def test_equal_priorities_go_first_in_first_out(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "equal.toml").write_text(
        '[[tasks]]\nname = "long"\ncost = "5ms"\nperiod = "20ms"\npriority = 7\n'
        '[[tasks]]\nname = "short"\ncost = "1ms"\nperiod = "4ms"\ndeadline = "8ms"\npriority = 7\n'
    )
    cpu, code = analysed(stealtime, "equal.toml")
    # Neither waits for a job that came later: as a higher priority "short" would make the other take 7 ms.
    assert (code, [one["response_ns"] for one in cpu["tasks"]]) == (0, [6_000_000, 6_000_000])


def test_a_year_is_analysed(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "year.toml").write_text('[[tasks]]\nname = "a"\ncost = "1ns"\nperiod = "365d"\n')
    cpu, code = analysed(stealtime, "year.toml", "--least-budget", "10ms")
    assert (code, cpu["tasks"][0]["response_ns"], cpu["least_budget_ns"]) == (0, 1, 1)
    # The factor is beyond what is counted to.
    assert cpu["cost_factor_is_lower_bound"]


def test_a_margin_beyond_which_nothing_is_known_is_a_margin(stealtime: Command, tmp_path: Path) -> None:
    # Near a full CPU this jitter makes busy windows of any length.
    (tmp_path / "long.toml").write_text(
        '[[tasks]]\nname = "a"\ncost = "1ms"\nperiod = "10ms"\njitter = "25ms"\ndeadline = "60ms"\n'
        '[[tasks]]\nname = "b"\ncost = "2ms"\nperiod = "7ms"\njitter = "20ms"\ndeadline = "900ms"\n'
    )
    cpu, code = analysed(stealtime, "long.toml")
    assert (code, cpu["margin_because"], cpu["cost_factor_is_lower_bound"]) == (0, None, True)
    assert cpu["cost_factor"] == pytest.approx(1 / (1 / 10 + 2 / 7), abs=1e-4)


def test_a_curve_of_edf_on_a_share_has_its_headline_at_every_utilization(stealtime: Command) -> None:
    arguments = ("--policy", "edf", "--law", "light-uniform", "--sets", "60", "--supply", "5ms/10ms")
    ended = stealtime("sched", "curve", *arguments, "--json")
    document = json.loads(ended.out)
    assert ended.code == 0
    # At half of the CPU, too, which is what is supplied.
    assert [sum(one["not_judged"] for one in point["conditions"]) for point in document["points"]] == [0] * 20
    assert document["weighted"][1]["cost"] is not None


CURVE = ("sched", "curve", "--law", "medium-uniform", "--sets", "60", "--overheads", "overheads.toml")


def test_a_curve_tells_what_overheads_and_a_share_of_the_cpu_cost(stealtime: Command, tmp_path: Path) -> None:
    # A tenth of each CPU goes to the tick alone.
    (tmp_path / "heavy.toml").write_text('tick = "100us"\n')
    ended = stealtime(*CURVE, "--overheads", "heavy.toml", "--supply", "5ms/10ms", "--json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    hold_against_schema(document, "curve")
    assert document["conditions"] == [
        *("no overheads", "overheads.toml", "heavy.toml"),
        *(f"{name}, 5ms of every 10ms" for name in ("no overheads", "overheads.toml", "heavy.toml")),
    ]
    for point in document["points"]:
        bare, light, heavy, *shared = [one["schedulable_share"] for one in point["conditions"]]
        assert bare >= light >= heavy
        assert shared == sorted(shared, reverse=True)
        assert all(one["low"] <= one["schedulable_share"] <= one["high"] for one in point["conditions"])
        if point["utilization"] > 0.9:
            assert heavy == 0
        if point["utilization"] > 0.5:
            assert shared == [0, 0, 0]
    for one in document["weighted"]:
        assert one["cost"] == pytest.approx(document["weighted"][0]["schedulability"] - one["schedulability"])
        assert one["cost_low"] <= one["cost"] <= one["cost_high"]
    halves = [one["half_utilization"] for one in document["weighted"]]
    assert halves == sorted(halves, reverse=True)
    # What is lost to a supply of one half is half of a CPU at the most.
    assert 0 < halves[3] <= 0.5 < halves[0] <= 1
    weighted = [one["schedulability"] for one in document["weighted"]]
    assert 1 > weighted[0] > weighted[2] > weighted[3] > weighted[5] > 0


def test_a_curve_is_the_same_again_and_looks_so(stealtime: Command, snapshot: SnapshotAssertion) -> None:
    first = stealtime(*CURVE).out
    assert first == stealtime(*CURVE).out
    assert first != stealtime(*CURVE, "--seed", "2").out
    assert first == snapshot


def test_a_curve_as_a_page_names_every_condition_and_runs_nothing(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "<i>.toml").write_text(OVERHEADS)
    ended = stealtime(*CURVE, "--overheads", "<i>.toml", "-o", "curve.html")
    assert ended.code == 0, ended.err
    page = (tmp_path / "curve.html").read_text()
    assert "&lt;i&gt;.toml" in page
    assert "<i>" not in page
    assert "<script" not in page
    # The sentence at the top is the first line of the terminal.
    assert " ".join(ended.out.split())[:60] in page
    assert page.count("<polyline") == 3


def test_a_curve_that_nothing_is_compared_with_says_so(stealtime: Command) -> None:
    ended = stealtime("sched", "curve", "--law", "light-uniform", "--sets", "5")
    assert ended.out.startswith("There is nothing to compare with no overheads")


def test_the_interval_of_a_share_is_wilsons() -> None:
    # R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
    for (successes, trials), interval in {
        (81, 263): (0.2553, 0.3662),
        (15, 148): (0.0624, 0.1605),
        (0, 20): (0.0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }.items():
        assert wilson(successes, trials) == pytest.approx(interval, abs=5e-5)
    assert wilson(20, 20)[1] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["analyze", "nowhere.toml"], "nowhere.toml"),
        (["analyze", "tasks.toml", "--overheads", "last"], "there is no run 'last'"),
        (["analyze", "tasks.toml", "--supply", "last"], "there is no run 'last'"),
        (["analyze", "tasks.toml", "--overheads", "overheads.toml", "--machine", "native"], "is a file"),
        (["analyze", "tasks.toml", "--supply", "12ms/10ms"], "--supply: '12ms/10ms'"),
        (["analyze", "tasks.toml", "--policy", "rm"], "'rm'"),
        (["generate", "--law", "uniform"], "--law: 'uniform' is unknown"),
        (["curve", "--law", "uniform"], "--law: 'uniform' is unknown"),
        (["curve", "--law", "randfixedsum"], "--law: 'randfixedsum' is unknown"),
        (["curve", "--law", "light-uniform", "--sets", "0"], "--sets: 0 is not 1 to"),
        (["curve", "--law", "light-uniform", "--seed", "-1"], "--seed: -1 is not"),
        (["curve", "--law", "light-uniform", *["--overheads", "overheads.toml"] * 2], "is given twice"),
        (["curve", "--law", "light-uniform", "-o", "nowhere/curve.html"], "nowhere does not exist"),
        (["generate"], "--law"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_a_hint(stealtime: Command, arguments: list[str], message: str) -> None:
    ended = stealtime("sched", *arguments)
    error, hint = ended.err.splitlines()
    assert error.startswith("error: ")
    assert message in error
    assert hint.startswith("hint: ")
    assert ended.out == ""
    assert ended.code in (1, 2)


def test_a_duration_without_a_unit_is_refused(stealtime: Command) -> None:
    ended = stealtime("sched", "analyze", "tasks.toml", "--least-budget", "10")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: --least-budget: '10' has no unit")
