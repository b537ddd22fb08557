"""From what was seen of threads to a task set and a verdict: what is not known is said, and never taken for good."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import Command, make_command

from stealtime import _core
from stealtime.cli.sched_sources import supply_of
from stealtime.extraction.document import (
    ArrivalDocument,
    CostDocument,
    ExtractDocument,
    HostDocument,
    LeftOutDocument,
    TaskDocument,
    VerifyDocument,
)
from stealtime.extraction.extracting import extract
from stealtime.extraction.host_view import HostView
from stealtime.extraction.task_set import Charged, task_file_text, task_set
from stealtime.extraction.verifying import verify, verify_exit_code
from stealtime.extraction.watching import Order, Watched, watch
from stealtime.schedulability.overheads import read_overheads
from stealtime.schedulability.question import Terms
from stealtime.schedulability.task_file import read_task_file
from stealtime.vocabulary.clocks import ClockReading
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.wire.message import TracingOutcome
from stealtime.wire.program import ProgramThread, Reservation

MS = 1_000_000


def task(name: str, period_ns: int, cost_ns: int, **changes: object) -> TaskDocument:
    arrival = ArrivalDocument(
        kind="programmed",
        arrivals=100,
        period_ns=period_ns,
        period_error_ns=0,
        jitter_ns=0,
        missed_periods=0,
        restarts=0,
        least_distance_ns=None,
        curve=(),
    )
    cost = CostDocument(
        jobs=99,
        own_ns=cost_ns - 10_000,
        with_calls_ns=cost_ns,
        first_half_ns=cost_ns,
        second_half_ns=cost_ns,
        interrupts_ns=5_000,
    )
    plain = TaskDocument(
        name=name,
        thread=7,
        process=6,
        policy="SCHED_FIFO",
        priority=50,
        deadline_ns=None,
        reserved_ns=None,
        cpus=(1,),
        arrival=arrival,
        cost=cost,
        suspended_ns=0,
        suspending=0,
        response_ns=cost_ns,
        lateness_ns=20_000,
        lateness_median_ns=10_000,
        host=None,
        left_out=LeftOutDocument(holed=0, merged=0, unseen_switches=0),
        seen_percent=100.0,
        notes=(),
        excluded=None,
    )
    return plain.model_copy(update=changes)


def two() -> list[TaskDocument]:
    return [task("fast", 5 * MS, 1 * MS, priority=60), task("slow", 20 * MS, 6 * MS)]


def sporadic(one: TaskDocument, mean_ns: int, jitter_ns: int) -> TaskDocument:
    changes = {"kind": "sporadic", "period_ns": mean_ns, "jitter_ns": jitter_ns}
    return one.model_copy(update={"arrival": one.arrival.model_copy(update=changes), "lateness_ns": None})


def document(tasks: list[TaskDocument], quiet: tuple[str, ...] = ()) -> ExtractDocument:
    return ExtractDocument(
        machine="native",
        program="engine",
        watched_ns=1_000 * MS,
        events=1,
        lost_events=0,
        host="",
        tasks=tuple(tasks),
        quiet_threads=quiet,
        notes=(),
        task_file=None,
    )


def verified(tasks: list[TaskDocument], terms: Terms = Terms()) -> VerifyDocument:  # noqa: B008 - it is frozen
    return verify(document(tasks), terms)


def test_the_task_file_is_read_back_with_what_was_seen(tmp_path: Path) -> None:
    text, because = task_file_text(two(), "engine\n[[tasks]]", 1_000 * MS)
    assert because is None
    assert text is not None
    path = tmp_path / "tasks.toml"
    path.write_text(text)
    fast, slow = read_task_file(path).tasks
    assert (fast.name, fast.cost, fast.period, fast.jitter, fast.priority, fast.cpu) == (
        *("fast", 1 * MS, 5 * MS, 20_000, 60, 1),
    )
    assert slow.deadline_ns == 20 * MS


def test_a_wait_inside_a_job_is_charged_as_cost() -> None:
    file, _ = task_set([task("one", 10 * MS, 1 * MS, suspended_ns=2 * MS, suspending=9)])
    assert file is not None
    assert file.tasks[0].cost == 3 * MS


def test_what_the_analysis_charges_is_not_charged_twice_and_nothing_is_forgotten() -> None:
    plain = task("one", 10 * MS, 1 * MS)
    assert task_set([plain], Charged(event_latency_ns=15_000))[0].tasks[0].jitter == 5_000  # type: ignore[union-attr]
    assert task_set([plain], Charged(event_latency_ns=30_000))[0].tasks[0].jitter is None  # type: ignore[union-attr]
    with_interrupts, _ = task_set([plain], Charged(with_interrupts=True))
    assert with_interrupts is not None
    assert with_interrupts.tasks[0].cost == 1 * MS + 5_000


def test_a_period_that_may_be_wrong_is_taken_as_short_as_it_may_be() -> None:
    one = task("one", 10 * MS, 1 * MS)
    one = one.model_copy(update={"arrival": one.arrival.model_copy(update={"period_error_ns": 300})})
    file, _ = task_set([one])
    assert file is not None
    assert file.tasks[0].period == 10 * MS - 300


def test_sporadic_arrivals_are_covered_and_have_one_period_for_each_job() -> None:
    file, _ = task_set([sporadic(task("one", 10 * MS, 1 * MS), 4 * MS, 7 * MS)])
    assert file is not None
    one = file.tasks[0]
    assert (one.period, one.jitter, one.deadline) == (4 * MS, 7 * MS, 11 * MS)


def test_threads_under_both_kinds_of_policy_are_no_set() -> None:
    reserved = task("r", 10 * MS, MS, policy="SCHED_DEADLINE", priority=None, deadline_ns=8 * MS)
    file, because = task_set([reserved, *two()])
    assert file is None
    assert because is not None
    assert "SCHED_DEADLINE" in because


def test_what_breaks_first_is_named_with_its_margin() -> None:
    found = verified(two())
    assert found.verdict == "schedulable"
    assert verify_exit_code(found) == 0
    assert found.first == "slow"
    assert found.overheads == "not measured"
    assert found.cost_factor is not None
    # slow: 6 ms and four jobs of fast, each with what interrupts took and its jitter, within 20 ms.
    assert 1.9 < found.cost_factor < 2.1
    assert "before the deadline of slow of 20.00 ms is missed on CPU 1" in found.summary


def test_the_overhead_that_takes_most_is_named(tmp_path: Path) -> None:
    path = tmp_path / "overheads.toml"
    path.write_text('scheduling = "200us"\ncontext_switch = "10us"\n')
    found = verified(two(), Terms(overheads=read_overheads(path)))
    assert found.dominant_overhead == "scheduling"
    assert "scheduling (200.0 µs) takes most" in found.summary
    assert found.overheads == str(path)
    # Interrupts are charged once: by the overheads, or else as they were seen.
    bare = verified(two())
    assert found.analysis is not None
    assert bare.analysis is not None
    costs = [one.cpus[0].tasks[0].cost_ns for one in (found.analysis, bare.analysis)]
    assert costs == [1 * MS, 1 * MS + 5_000]


def test_what_the_overheads_run_saw_of_others_is_charged_but_for_the_tasks_themselves(tmp_path: Path) -> None:
    path = tmp_path / "overheads.csv"
    path.write_text(
        "# statistic: worst\n"
        "# not-charged: softirq RCU=300000/4/9, real-time thread fast=1000000/9/900\n"
        "# interference: softirq RCU=300000/20000000/0, real-time thread fast=1000000/5000000/0\n"
        "TASK-COUNT,SCHEDULE\n1,0\n"
    )
    terms = Terms(overheads=read_overheads(path))
    charged, named = verified(two(), terms), verified(two(), replace(terms, interference=False))
    assert charged.analysis is not None
    assert named.analysis is not None
    responses = [one.cpus[0].tasks[0].response_ns for one in (charged.analysis, named.analysis)]
    # Of which 20 us are its jitter.
    assert responses == [1_320_000, 1_020_000]
    assert any("of 1 sources, most of it softirq RCU (4 times, up to 300.0 µs)" in note for note in charged.notes)
    assert any("are not charged" in note for note in named.notes)


def test_too_much_work_is_not_schedulable_and_says_who_misses() -> None:
    found = verified([task("fast", 5 * MS, 3 * MS, priority=60), task("slow", 18 * MS, 6_500_000)])
    assert found.verdict == "not schedulable"
    assert verify_exit_code(found) == 3
    assert found.first == "slow"
    over = verified([task("fast", 5 * MS, 3 * MS, priority=60), task("slow", 20 * MS, 9 * MS)])
    assert over.verdict == "not schedulable"
    assert "105" in over.summary


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"left_out": LeftOutDocument(holed=0, merged=3, unseen_switches=0)}, "3 jobs of slow were seen"),
        ({"response_ns": 21 * MS}, "was seen to end 21.00 ms after its release"),
    ],
)
def test_a_deadline_that_was_seen_to_be_missed_is_missed_whatever_the_analysis_says(
    changes: dict[str, object], words: str
) -> None:
    fast, slow = two()
    found = verified([fast, slow.model_copy(update=changes)])
    assert found.verdict == "not schedulable"
    assert words in found.summary


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"excluded": "only 1 job of it was seen"}, "slow is a real-time thread, and only 1 job"),
        ({"cpus": (1, 0)}, "slow ran on the CPUs 1, 0"),
        ({"left_out": LeftOutDocument(holed=2, merged=0, unseen_switches=0)}, "events were lost in 2 jobs of slow"),
    ],
)
def test_what_is_not_known_of_a_real_time_thread_forbids_a_verdict(changes: dict[str, object], words: str) -> None:
    fast, slow = two()
    found = verified([fast, slow.model_copy(update=changes)])
    assert found.verdict == "not judged"
    assert verify_exit_code(found) == 4
    assert words in found.summary
    assert "not judged" not in found.summary, "the verdict says so"


@pytest.mark.parametrize("told", ["dedicated", "5ms/5ms"])
def test_a_cpu_that_the_host_takes_is_dedicated_to_nobody(told: str) -> None:
    fast, slow = two()
    host = HostDocument(jobs=3, are_counted=False, taken_ns=2 * MS, own_ns=MS)
    found = verified([fast, slow.model_copy(update={"host": host})], Terms(supply=supply_of(told, None)))
    if told == "dedicated":
        assert (found.verdict, verify_exit_code(found)) == ("not judged", 4)
        assert "the host was seen to take the CPU in 3 jobs, from one for 2.000 ms" in found.summary
    else:
        assert found.verdict == "schedulable", "who says what is certain is believed"


def test_an_ordinary_thread_forbids_nothing() -> None:
    ordinary = task("log", 9 * MS, MS, policy="SCHED_OTHER", priority=None, excluded="it is ordinary", cpus=(0, 1))
    assert verified([*two(), ordinary]).verdict == "schedulable"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"suspending": 3}, "3 jobs of r wait inside"),
        ({"reserved_ns": MS}, "more than its reservation of 1.000 ms"),
        ({"reserved_period_ns": 20 * MS}, "its reservation has one period in 20.00 ms"),
    ],
)
def test_a_reservation_that_may_stop_a_job_is_not_judged(changes: dict[str, int], words: str) -> None:
    told = {"reserved_ns": 3 * MS, "reserved_period_ns": 10 * MS}
    one = task("r", 10 * MS, 2 * MS, policy="SCHED_DEADLINE", priority=None, deadline_ns=8 * MS)
    assert verified([one.model_copy(update=told)]).verdict == "schedulable"
    found = verified([one.model_copy(update=told | changes)])
    assert (found.verdict, words in found.summary) == ("not judged", True), found.summary


def test_reservations_are_judged_by_their_own_policy() -> None:
    found = verified([task("r", 10 * MS, 2 * MS, policy="SCHED_DEADLINE", priority=None, deadline_ns=8 * MS)])
    assert found.analysis is not None
    assert found.analysis.policy == "edf"
    assert found.verdict == "schedulable"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--for", "1ms", "1"), "is not possible"),
        (("--for", "2h", "1"), "is not possible"),
        (("0",), "no process 0"),
        (("--machine", "qemu-tcg-paravirt", "123"), "is booted for this"),
        (("--machine", "qemu-tgc", "123"), "no platform 'qemu-tgc'"),
    ],
)
def test_what_cannot_be_watched_is_said_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    stealtime: Command = make_command(monkeypatch, capsys)
    for name in ("extract", "verify"):
        ended = stealtime("sched", name, *arguments)
        assert ended.code == 2, ended.err
        assert words in " ".join(ended.err.split())


def test_user_mode_linux_has_no_trace_and_says_so() -> None:
    with pytest.raises(StealtimeError, match="no trace of its own"):
        asyncio.run(watch(Order("uml", ("stealtime-agent", "rtload", "1ms/10ms"), 1_000 * MS), lambda _: None))


def test_a_number_is_a_process_and_anything_else_a_command() -> None:
    assert Order("native", ("4711",), 1_000 * MS).process == 4711
    assert Order("native", ("sleep", "4711"), 1_000 * MS).process is None
    with pytest.raises(UsageError):
        Order("native", (), 1_000 * MS)


CYCLES = 2
"""In a ns."""
SWITCH, WAKING, START, ENTRY, EXIT = (
    _core.EVENT_KINDS.index(name) for name in ("switch", "waking", "timer_start", "call_entry", "call_exit")
)


def made_up(jobs: int, thread: int, period_ns: int, cost_ns: int) -> dict[str, object]:
    """Make the columns of a trace in which a thread works for ``cost_ns`` each period."""
    rows: list[tuple[int, int, int, int, int, int]] = []
    for job in range(jobs):
        release = (job + 1) * period_ns
        rows += [
            (release + 1_000, WAKING, 0, 0, thread, 0),
            (release + 2_000, SWITCH, 0, 0, thread, 0),
            (release + 3_000, EXIT, thread, 230, 0, 2),
            (release + 3_000 + cost_ns, ENTRY, thread, 230, 0, 2),
            (release + 3_500 + cost_ns, START, thread, release + period_ns, 0, 1),
            (release + 4_000 + cost_ns, SWITCH, thread, 1, 0, 2),
        ]
    time, kind, who, value, other, name = (np.array(column) for column in zip(*rows, strict=True))
    return {
        "time": (time * CYCLES).astype(np.uint64),
        "cpu": np.zeros(len(rows), np.uint16),
        "kind": kind.astype(np.uint8),
        "thread": who.astype(np.int32),
        "value": value.astype(np.int64),
        "other": other.astype(np.int32),
        "priority": np.full(len(rows), 39, np.int16),
        "name": name.astype(np.uint32),
        "names": ["engine", "hrtimer_wakeup", "swapper/0"],
        "covered": (0, int(time[-1]) * CYCLES),
    }


def watched(threads: dict[int, ProgramThread], events: dict[str, object], ran_ns: dict[int, int]) -> Watched:
    def reading(ns: int) -> ClockReading:
        return ClockReading(tsc=ns * CYCLES, monotonic_raw_ns=ns, monotonic_ns=ns, bracket_tsc=0)

    outcome = TracingOutcome(
        clock="x86-tsc",
        tsc_hz=CYCLES * 1e9,
        start=reading(0),
        end=reading(1_000 * MS),
        events=len(events["time"]),  # type: ignore[arg-type]
        lost=0,
        groups={},
        names=[],
        findings=[],
    )
    return Watched(
        order=Order("native", ("engine",), 1_000 * MS),
        elapsed_ns=1_000 * MS,
        events=events,  # type: ignore[arg-type]
        tracing=outcome,
        threads=threads,
        ran_ns=ran_ns,
        host=HostView(None, None, Path(), "natively no trace tells"),  # type: ignore[arg-type]
        ended_early=False,
    )


def thread(number: int, **changes: object) -> ProgramThread:
    plain = ProgramThread(
        id=number,
        process=6,
        name="engine",
        policy="SCHED_FIFO",
        priority=60,
        reservation=None,
        cpus=[0],
        ran_ns=None,
    )
    return plain.model_copy(update=changes)


def test_a_trace_becomes_tasks_with_their_counts() -> None:
    events = made_up(40, 7, 10 * MS, 500_000)
    found = extract(watched({7: thread(7), 8: thread(8, name="idle")}, events, {7: 40 * 503_000}))
    (one,) = found.tasks
    assert (one.name, one.priority, one.cpus, one.arrival.kind, one.arrival.period_ns) == (
        *("engine", 60, (0,), "programmed", 10 * MS),
    )
    assert (one.cost.jobs, one.cost.own_ns, one.cost.with_calls_ns) == (38, 500_000, 502_000)
    assert one.lateness_ns == 1_000
    assert one.excluded is None
    assert one.seen_percent == pytest.approx(99.8, abs=0.2)
    assert found.quiet_threads == ("idle (8)",)
    assert found.task_file is not None
    assert 'period = "10ms"' in found.task_file


def test_a_trace_that_shows_less_than_the_kernel_counts_says_so() -> None:
    found = extract(watched({7: thread(7)}, made_up(40, 7, 10 * MS, 500_000), {7: 40 * 1_000_000}))
    assert any("50 % of the time that the kernel counts" in note for note in found.tasks[0].notes)


def test_a_thread_that_was_in_no_list_is_counted() -> None:
    found = extract(watched({8: thread(8)}, made_up(5, 7, 10 * MS, 500_000), {}))
    assert found.tasks == ()
    assert any("1 threads came and went" in note for note in found.notes)
    assert found.task_file is None


def test_an_ordinary_thread_and_a_reservation_are_what_they_are() -> None:
    events = made_up(40, 7, 10 * MS, 500_000)
    ordinary = extract(watched({7: thread(7, policy="SCHED_OTHER", priority=0)}, events, {})).tasks[0]
    assert ordinary.priority is None
    assert "SCHED_OTHER" in (ordinary.excluded or "")
    kept = Reservation(runtime_ns=MS, deadline_ns=8 * MS, period_ns=10 * MS)
    changed = thread(7, policy="SCHED_DEADLINE", priority=0, reservation=kept)
    reserved = extract(watched({7: changed}, events, {})).tasks[0]
    assert (reserved.priority, reserved.deadline_ns, reserved.reserved_ns, reserved.excluded) == (
        None,
        8 * MS,
        MS,
        None,
    )
