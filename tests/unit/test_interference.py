"""What a trace saw take the CPU, as curves that hold for every window of it, and as demand of an analysis."""

from pathlib import Path

import numpy as np
import pytest
from analysed_tasks import analysed, responses_ns
from command import Command, make_command
from hypothesis import given
from hypothesis import strategies as st

from stealtime._core import TAKER_CLASSES
from stealtime.schedulability.interference import THREAD, is_own
from stealtime.schedulability.overhead_seen import ArrivalCurve, Uncharged, joined, together
from stealtime.schedulability.task_file import TaskTable
from stealtime.studies.realtime.analysis.interference import Came, curves_of

MS = 1_000_000

taken = st.lists(st.tuples(st.integers(0, 2_000), st.integers(1, 40), st.integers(0, 1)), min_size=1, max_size=40)


def came(takings: list[tuple[int, int, int]]) -> Came:
    starts, lengths, cpus = zip(*takings, strict=True)
    return Came(np.array(cpus, np.uint16), np.array(starts, np.float64), np.array(lengths, np.float64))


def most_in(takings: list[tuple[int, int, int]], cpu: int, window: int) -> int:
    """Give the most that takings which begin in a window of a CPU take, by trying all of them."""
    own = [(start, length) for start, length, of in takings if of == cpu]
    return max(
        (sum(length for at, length in own if begin <= at < begin + window) for begin, _ in own),
        default=0,
    )


def bound(curves: tuple[ArrivalCurve, ...], window: int) -> int:
    return sum(one.count_in(window) * one.cost_ns for one in curves)


@given(taken, st.lists(st.integers(1, 2_500), min_size=5, max_size=5))
def test_no_window_of_a_trace_has_more_than_its_curves_say(
    takings: list[tuple[int, int, int]], windows: list[int]
) -> None:
    curves = curves_of(came(takings), 2_001)
    for window in windows:
        for cpu in (0, 1):
            assert most_in(takings, cpu, window) <= bound(curves, window)
    # A trace as a whole is met but for the lengths, which are within a factor of two, and the other CPU.
    longest = max(sum(length for _, length, of in takings if of == cpu) for cpu in (0, 1))
    assert bound(curves, 1) <= 4 * 40 * longest


@given(taken, taken, st.integers(1, 4_000))
def test_what_two_traces_saw_together_holds_for_each(
    first: list[tuple[int, int, int]], second: list[tuple[int, int, int]], window: int
) -> None:
    def seen(takings: list[tuple[int, int, int]], span: int) -> Uncharged:
        return Uncharged("softirq X", max(one[1] for one in takings), len(takings), 1, curves_of(came(takings), span))

    (both,) = together([[seen(first, 2_001)], [seen(second, 4_321)]])
    for takings in (first, second):
        assert max(most_in(takings, cpu, window) for cpu in (0, 1)) <= bound(both.curves, window)


def test_rare_long_ones_do_not_make_the_others_long() -> None:
    takings = [(at, 10, 0) for at in range(0, 1_000, 10)] + [(500, 40, 0)]
    curves = curves_of(came(takings), 1_000)
    assert [(one.cost_ns, one.period_ns) for one in curves] == [(40, 1_000), (10, 10)]


def test_a_burst_is_jitter() -> None:
    (curve,) = curves_of(came([(0, 3, 0), (1, 3, 0), (2, 3, 0), (900, 3, 0)]), 1_000)
    assert (curve.period_ns, curve.at_once) == (250, 2)
    # All three lie in a window of 3, and none of four in less than 900; a nanosecond is for rounding.
    assert [curve.count_in(window) for window in (3, 501, 502)] == [3, 4, 5]


def test_where_one_trace_does_not_tell_when_none_is_charged() -> None:
    told = Uncharged("x", 5, 1, 1, (ArrivalCurve(5, 100, 0),))
    (both,) = together([[told], [Uncharged("x", 7, 3, 1)]])
    assert (both.longest_ns, both.count, both.curves) == (7, 4, ())
    assert together([[told], []])[0].curves == told.curves
    assert joined([ArrivalCurve(5, 100, 30), ArrivalCurve(7, 50, 20)]) == (ArrivalCurve(7, 50, 20),)


CSV = """# statistic: worst
# not-charged: softirq NET_RX=100000/10/7, real-time thread planner=900000/5/8, softirq RCU=40000/3/1
# interference: softirq NET_RX=100000/5000000/10000000;30000/50000000/0, real-time thread planner=900000/10000000/0
TASK-COUNT,SCHEDULE
1,10
"""
TASKS = """
[[tasks]]
name = "{}"
cost = "2ms"
period = "10ms"
"""


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "o.csv").write_text(CSV)
    (tmp_path / "t.toml").write_text(TASKS.format("control"))
    return make_command(monkeypatch, capsys)


@pytest.mark.parametrize("policy", ["fixed-priority", "edf"])
def test_what_a_trace_saw_is_charged_as_it_was_seen(stealtime: Command, policy: str) -> None:
    document = analysed(stealtime, "t.toml", "--overheads", "o.csv", "--policy", policy)
    # 2 ms and two decisions; three softirqs of 100 us at once and one of 30 us; a thread, with decisions of its own.
    assert responses_ns(document) == {"control": 2_020_000 + 3 * 100_000 + 30_000 + 920_000}
    assert [one["what"] for one in document["interference"]] == ["real-time thread planner", "softirq NET_RX"]
    assert document["interference"][1]["curves"] == [[100_000, 5_000_000, 10_000_000], [30_000, 50_000_000, 0]]
    named = [one["what"] for one in document["not_charged"] if one["longest_ns"]]
    assert named == ["softirq RCU"]
    said = " ".join(stealtime("sched", "analyze", "t.toml", "--overheads", "o.csv").out.split())
    assert "charged as seen: softirq NET_RX, up to 100us, at most 24 times and 2260us in 100ms" in said


def test_it_is_only_named_where_that_is_asked(stealtime: Command) -> None:
    document = analysed(stealtime, "t.toml", "--overheads", "o.csv", "--no-interference")
    assert responses_ns(document) == {"control": 2_020_000}
    assert document["interference"] == []
    assert [one["what"] for one in document["not_charged"] if one["longest_ns"]] == [
        "real-time thread planner",
        "softirq NET_RX",
        "softirq RCU",
    ]


def test_a_thread_of_a_task_is_that_task(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(TASKS.format("planner"))
    document = analysed(stealtime, "t.toml", "--overheads", "o.csv")
    assert responses_ns(document) == {"planner": 2_020_000 + 3 * 100_000 + 30_000}
    assert THREAD in TAKER_CLASSES


def test_names_of_threads_end_where_the_kernel_ends_them() -> None:
    task = TaskTable.model_validate({"name": "a-very-long-name-of-a-task", "cost": "1ms", "period": "5ms"})
    twice = TaskTable.model_validate({"name": "planner-4711", "cost": "1ms", "period": "5ms"})
    assert is_own("real-time thread a-very-long-nam", [task])
    assert is_own("real-time thread planner", [twice])
    assert not is_own("real-time thread planne", [twice])
    assert not is_own("real-time thread a-very-long-name-of-a", [task])
    assert not is_own("softirq planner", [twice])


def test_beside_reservations_it_is_named(stealtime: Command, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(TASKS.format("control") + 'reservation = "3ms/10ms"\n')
    assert analysed(stealtime, "t.toml", "--overheads", "o.csv")["interference"] == []


@pytest.mark.parametrize("value", ["1/2", "0/5/0", "5/0/0", "5/-1/0", "x/1/1", f"1/{1 << 60}/0", ""])
def test_curves_that_cannot_be_are_refused(stealtime: Command, tmp_path: Path, value: str) -> None:
    (tmp_path / "o.csv").write_text(CSV.replace("30000/50000000/0", value))
    ended = stealtime("sched", "analyze", "t.toml", "--overheads", "o.csv")
    assert (ended.code, ended.out) == (2, "")
    assert "COST/PERIOD/JITTER" in ended.err
