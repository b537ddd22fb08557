"""``run --max-overhead``: what is judged of each probe, and that what was not judged is no pass."""

import json
from pathlib import Path
from typing import Any

import pytest
import stretch_cells
import telephony_cells
from command import Command
from junitparser import Error, Failure, JUnitXml
from synthetic_run import SyntheticCell, write_synthetic_run
from telephony_cells import MS
from test_one_rule import FAILOVER, PARAMETERS, complete, record
from test_telephony_calls import _dialogues, _voice

from stealtime.campaigns.threshold import Threshold
from stealtime.cli.run import judge
from stealtime.report.cells.model import CellFigures, Watched
from stealtime.report.gate import Gate, hold
from stealtime.report.junit import write_junit
from stealtime.report.summarizing import summarize
from stealtime.report.summary import RunSummary
from stealtime.store.run import Run, Trial
from stealtime.studies.latency.analysis.model import HeldBack
from stealtime.studies.protection.study import STUDY
from stealtime.studies.realtime.analysis.model import RealTimeCell
from stealtime.studies.stretch.analysis.relate import relate
from stealtime.studies.telephony.calls.results import Calls

WAKEUP = SyntheticCell("native", "wakeup", {"interval_ns": MS}, 1_900.0, 410_000.0, 0.4, 2_000)
REFUSED: dict[str, str | None] = {
    "code": "no_sched_fifo", "level": "limits", "text": "SCHED_FIFO priority 80 was refused (EPERM)", "hint": None,
}  # fmt: skip
FULL: dict[str, str | None] = {
    "code": "memory_full", "level": "limits", "text": "the sample memory of 2000 samples was full", "hint": None,
}  # fmt: skip


def verdict(cell: CellFigures, at_most_ns: int) -> tuple[Any, ...]:
    (one,) = hold([cell], [Threshold("max", at_most_ns)]).cells
    return one.verdict, one.value_ns, one.because


def judged(folder: Path, cell: SyntheticCell, at_most_ns: int) -> tuple[RunSummary, Run]:
    run = Run.open(complete(write_synthetic_run(folder, cells=[cell]).folder))
    summary = summarize(run)
    return summary.model_copy(update={"gate": hold(summary.cells, [Threshold("max", at_most_ns)])}), run


@pytest.mark.parametrize("finding", [REFUSED, FULL], ids=lambda one: str(one["code"]))
def test_what_is_not_what_was_asked_for_passes_nothing_and_says_so(
    stealtime: Command, tmp_path: Path, finding: dict[str, str | None]
) -> None:
    summary, run = judged(tmp_path / "run", SyntheticCell(**{**vars(WAKEUP), "findings": (finding,)}), MS)
    (cell,) = summary.cells
    assert (cell.valid, summary.gate and summary.gate.verdict) == (True, "not judged")
    code, remarks = judge(summary)
    assert (code, str(finding["text"]) in str(remarks)) == (4, True)
    write_junit(run, summary, tmp_path / "cells.xml")
    (result,) = next(
        case for suite in JUnitXml.fromfile(str(tmp_path / "cells.xml")) for case in suite if case.result
    ).result
    assert isinstance(result, Error)
    assert stealtime("show", str(run.folder)).code == 4, "also where nobody asked for a threshold"
    # What is over the threshold is over it, however it was measured.
    summary, _ = judged(tmp_path / "over", SyntheticCell(**{**vars(WAKEUP), "findings": (finding,)}), 1)
    assert judge(summary)[0] == 3


def test_who_watched_too_short_says_for_how_long(tmp_path: Path) -> None:
    summary, run = judged(tmp_path / "run", SyntheticCell(**{**vars(WAKEUP), "findings": (FULL,)}), MS)
    told = run.trials[0].record.outcome
    assert told is not None
    assert told.request.duration_ns == pytest.approx(2e9, rel=0.01)
    assert summary.cells[0].too_short == [
        "repetition 1: watched too short: 2 s of 2 s, because the sample memory of 2000 samples was full"
    ]


def test_bars_of_acceptance_are_no_pass_for_another_measurement_than_the_one_asked_for(
    stealtime: Command, tmp_path: Path
) -> None:
    write_synthetic_run(tmp_path / "run", cells=[SyntheticCell(**{**vars(WAKEUP), "findings": (REFUSED,)})])
    bars = tmp_path / "bars.toml"
    bars.write_text('title = "t"\n[[bars]]\nquantity = "wakeup-latency"\nat_most = "1s"\nwatched = "1s"\n')
    ended = stealtime("show", str(tmp_path / "run"), "--accept", str(bars), "--json")
    (cell,) = json.loads(ended.out)["cells"]
    assert (ended.code, cell["verdict"]) == (4, "not judged")
    assert "SCHED_FIFO priority 80 was refused" in cell["because"]


def test_a_limit_that_explains_every_sample_leaves_nothing_to_judge(tmp_path: Path) -> None:
    summary, _ = judged(tmp_path / "run", WAKEUP, MS)
    held = HeldBack(
        cause="RT throttling", pause_ns=50e6, count=1, longest_ns=50e6, rest_max_ns=None, rest_max_overhead_ns=None,
        rest_max_at_s=None,
    )  # fmt: skip
    (trial,) = summary.cells[0].trials
    trials = [trial.model_copy(update={"held_back": held})]
    cell = summary.cells[0].model_copy(update={"held_back": held, "trials": trials})
    assert verdict(cell, MS) == ("not judged", None, "RT throttling explains every sample")


def test_each_repetition_is_held_by_its_own_floor(tmp_path: Path) -> None:
    """As the agent does it: the longest sample of all need not be the one that took longest over its floor."""
    repetitions = enumerate([(60_000.0, 108_000.0), (68_000.0, 102_000.0)], start=1)
    cells = [
        SyntheticCell("native", "wakeup", {"interval_ns": MS}, floor, floor + over, 0.4, 2_000, repetition=number)
        for number, (floor, over) in repetitions
    ]
    (cell,) = summarize(Run.open(write_synthetic_run(tmp_path, cells=cells).folder)).cells
    assert verdict(cell, 105_000)[0] == "exceeded"
    assert verdict(cell, 110_000)[0] == "passed"


def test_the_most_urgent_task_is_held_against_the_threshold(stealtime: Command, tmp_path: Path) -> None:
    path, campaign = tmp_path / "cells.xml", tmp_path / "tasks.toml"
    campaign.write_text(
        'name = "tasks"\nplatforms = ["native"]\n'
        '[[probes]]\nprobe = "rtload"\nlaw = "light-uniform"\nk = [2, 3]\npolluters = 0\nduration = "1s"\n'
    )
    command = ("run", str(campaign), "--repetitions", "1")
    ended = stealtime(*command, "--max-overhead", "1ns", "--junit", str(path), "--json")
    gate = Gate.model_validate(json.loads(ended.out)["gate"])
    assert (ended.code, gate.verdict) == (3, "exceeded")
    assert {one.quantity for one in gate.cells} == {"the lateness of its most urgent task"}
    assert {one.verdict for one in gate.cells} == {"exceeded"}
    assert all(one.value_ns is not None and one.value_ns > 1 for one in gate.cells)
    cases = [case for suite in JUnitXml.fromfile(str(path)) for case in suite]
    assert all(isinstance(case.result[0], Failure) for case in cases if case.classname.startswith("tasks.native"))
    assert stealtime(*command, "--max-overhead", "10s").code == 0


def test_jobs_that_never_began_show_how_late_they_were() -> None:
    task: dict[str, Any] = {
        "task": 0, "name": "a", "thread_id": 1, "priority": 80, "period_ns": 10 * MS, "deadline_ns": 10 * MS,
        "cost_ns": MS, "iterations": 9, "released": 100, "missed": 0, "overruns": 0, "median_response_ns": None,
        "worst_response_ns": None,
    }  # fmt: skip
    tail = {"count": 99, "p50": 1e4, "p99": 2e4, "p999": 3e4, "max": 3e4}
    values: dict[str, Any] = {
        "platform": "native", "scenario": "alone", "probe": "rtload", "parameters": {}, "valid": True, "reasons": [],
        "limits": [], "policy": "fifo", "polluters": 0, "released": 100, "missed": 0, "missed_share": None,
        "sets_missed": 0, "sets_missed_share": None, "urgent_latency_ns": tail, "start_latency_ns": tail,
        "response_share": None,
        "repetitions": [{
            "repetition": 1, "seed": None, "utilization": 0.5, "released": 100, "finished": 99, "missed": 0,
            "unstarted": 1, "overruns": 0, "urgent_latency_ns": tail, "start_latency_ns": tail, "response_share": None,
            "conversion_error_ns": 1.0, "tasks": [task],
        }],
    }  # fmt: skip
    # Its deadline lay within the trial: it is later than that already.
    assert verdict(RealTimeCell.model_validate(values), MS) == ("exceeded", 10e6, None)
    assert verdict(RealTimeCell.model_validate(values), 11 * MS)[0] == "not judged"
    values["repetitions"][0]["urgent_latency_ns"] = {**tail, "count": 100}
    assert verdict(RealTimeCell.model_validate(values), MS) == ("passed", 3e4, None)
    values["repetitions"][0]["urgent_latency_ns"] = {**tail, "count": 60}
    cell = RealTimeCell.model_validate(values)
    assert verdict(cell, MS) == ("exceeded", 40 * 10e6, None)
    because = "40 jobs of the most urgent task had not begun at the end, which were later than is known"
    assert verdict(cell, 1000 * MS) == ("not judged", 40 * 10e6, because)
    # A bar of acceptance says the same.
    assert cell.watched("start-latency") == Watched(40 * 10e6, 1.0, because)
    values["repetitions"][0]["urgent_latency_ns"] = values["urgent_latency_ns"] = None
    assert verdict(RealTimeCell.model_validate(values), 10_000 * MS)[0] == "not judged"


def test_contended_work_is_held_by_what_it_takes_longer_than_the_shortest_native_one() -> None:
    native, guest = relate([
        stretch_cells.cell("native", "alone", [1.0, 1.2]), stretch_cells.cell("uml", "alone", [1.5, 1.75]),
    ])  # fmt: skip
    assert verdict(native, 1) == ("base", None, None)
    assert verdict(guest, 700 * MS) == ("exceeded", pytest.approx(750e6), None)
    assert verdict(guest, 800 * MS) == ("passed", pytest.approx(750e6), None)
    (alone,) = relate([stretch_cells.cell("uml", "alone", [1.5, 1.75])])
    assert verdict(alone, MS) == ("not judged", None, "the same work was not measured natively alone")
    _, other = relate([native, stretch_cells.cell("uml", "alone", [1.5], checksum=8)])
    assert verdict(other, 10_000 * MS)[0] == "not judged"
    held = hold([native], [Threshold("max", MS)])
    assert held.verdict == "not judged", "who is alone with its base is held against nothing"
    assert held.remarks == ["--max-overhead 1ms judged nothing: the run has no cell that can be held against it"]


@pytest.mark.parametrize(
    ("changes", "at_most_ns", "expected"),
    [
        ({}, 301 * MS, ("passed", 300e6, None)),
        ({}, 299 * MS, ("exceeded", 300e6, None)),
        ({"silence_udp_ns": 900 * MS}, 301 * MS, ("exceeded", 900e6, None)),
        (
            {"unanswered_protocols": ("udp",)},
            10**12,
            ("exceeded", None, "over UDP nothing was answered any more after 1 failovers"),
        ),
        (
            {"violations": {"forgotten": 3}, "pages_wrong": 7},
            10**12,
            (
                "exceeded",
                None,
                "clients saw what must not happen: 3 x forgotten; 7 pages of the guest's memory are wrong",
            ),
        ),
        ({"tcp_lived": False}, 10**12, ("exceeded", None, "1 of 1 TCP connections were lost")),
    ],
)
def test_a_protected_client_is_held_by_its_longest_silence(
    changes: dict[str, Any], at_most_ns: int, expected: tuple[str, float | None, str | None]
) -> None:
    one = record("failover", 1, state="measured", result=FAILOVER.model_copy(update=changes))
    assert verdict(STUDY.summarize_cell([Trial(Path("nowhere"), one)]), at_most_ns) == expected


def _cell(probe: str, *results: Any) -> CellFigures:
    return telephony_cells.cell_of("native", probe, PARAMETERS.get(probe, {"mode": "off"}), list(results))


def test_phones_are_held_by_the_longest_time_without_an_answer() -> None:
    answered = telephony_cells.failover()
    silent = telephony_cells.failover(silence_ns=None, unanswered=7)
    never_again = telephony_cells.failover(fault_to_answer_ns=None, unanswered=7)
    assert verdict(_cell("register-failover", answered), 250 * MS) == ("passed", 200e6, None)
    assert verdict(_cell("register-failover", answered), 150 * MS)[0] == "exceeded"
    why = "after 1 of 2 failovers phones were not answered any more"
    assert verdict(_cell("register-failover", answered, silent), 10**12) == ("exceeded", None, why)
    assert verdict(_cell("register-failover", answered, never_again), 10**12) == ("exceeded", None, why)
    nobody_left = telephony_cells.failover(silence_ns=None, fault_to_answer_ns=None)
    why = "in 1 of 2 failovers all phones had registered before the guest ran again"
    assert verdict(_cell("register-failover", answered, nobody_left), 250 * MS) == ("not judged", 200e6, why)
    assert verdict(_cell("register-failover", answered, nobody_left), 150 * MS)[0] == "exceeded"
    assert verdict(_cell("register-failover", nobody_left), 10**12)[:2] == ("not judged", None)
    forgotten = telephony_cells.failover(lost=2, lost_users=["phone1"])
    assert verdict(_cell("register-failover", forgotten), 10**12)[2] == "2 acknowledged registrations were lost"
    assert verdict(_cell("two-stage-failover", telephony_cells.two_stage_failover()), 250 * MS)[:2] == ("passed", 200e6)
    assert verdict(_cell("register", telephony_cells.registrations()), 99 * MS) == ("exceeded", 100e6, None)
    unanswered = telephony_cells.registrations(unanswered=3)
    assert verdict(_cell("register", unanswered), 10**12)[2] == "3 of 400 registrations were not acknowledged"


def test_calls_are_held_by_the_longest_silence_of_the_voice() -> None:
    def calls(**changes: Any) -> CellFigures:
        voice = _voice(**changes)
        return _cell("call", Calls(dialogues=_dialogues(), voice=voice, server_cpu_ns=5, host_cpu_ns=1, elapsed_ns=9))

    assert verdict(calls(), 30 * MS) == ("passed", 21e6, None)
    assert verdict(calls(), 20 * MS) == ("exceeded", 21e6, None)
    assert verdict(calls(streams=2), 30 * MS) == ("exceeded", None, "of 1 streams of voice nothing was heard")
    assert verdict(calls(silence_ns=None), 30 * MS) == ("not judged", None, "nothing was measured")
    fell_silent = [one.model_copy(update={"silence_ended": False}) for one in _voice().each]
    assert fell_silent
    why = f"{len(fell_silent)} streams of voice fell silent and stayed so"
    assert verdict(calls(each=fell_silent), 10**12) == ("exceeded", None, why)
