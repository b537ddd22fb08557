"""What a run tells of overheads: of which machines, why not of others, and at what cost."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from command import Command

from stealtime._core import JOB_PARTS, OVERHEAD_FLAGS, OVERHEAD_SAMPLES
from stealtime.schedulability.overhead_seen import Uncharged
from stealtime.studies.realtime.analysis import overhead_source
from stealtime.studies.realtime.analysis.overheads import TrialOverheads
from stealtime.studies.realtime.analysis.overheads import measure as really_measure
from stealtime.vocabulary.quantities import parse_duration_ns

if TYPE_CHECKING:
    from stealtime.store.run import Trial

CAMPAIGN = """
name = "tasks"
platforms = ["native", "uml"]
repetitions = 2
tracing = "{tracing}"
[[probes]]
probe = "rtload"
set = "two"
duration = "200ms"
tasks = [{{ cost = "1ms", period = "10ms" }}, {{ cost = "2ms", period = "20ms" }}]
"""
TASKS = '[[tasks]]\nname = "a"\ncost = "2ms"\nperiod = "10ms"\n[[tasks]]\nname = "b"\ncost = "8ms"\nperiod = "20ms"\n'
JOBS, UNSEEN = 2_000, 300


def overheads() -> TrialOverheads:
    """Jobs of 10 us in parts, one job in 500 of 50 us; to some the switch is not in the trace. A cycle is a ns."""
    chains: dict[str, Any] = {name: np.zeros(JOBS, np.uint64) for name in JOB_PARTS}
    chains["event_latency"][:] = 10_000
    chains["event_latency"][::500] = 50_000
    chains["dispatch"][UNSEEN:], chains["arrival"][UNSEEN:] = 3_000, 2_000
    chains["unseen_switch"][:UNSEEN] = 5_000
    flags = np.zeros(JOBS, np.uint8)
    flags[UNSEEN:] = OVERHEAD_FLAGS["direct"]
    chains |= {"flags": flags, **{name: np.zeros(JOBS, np.uint32) for name in ("discard", "interrupted", "taken")}}
    releases = OVERHEAD_SAMPLES.index("release")
    samples = {name: np.zeros(JOBS, np.uint64) for name in ("cpu", "start", "expiries")}
    samples |= {
        "kind": np.full(JOBS, releases, np.uint8),
        "duration": np.full(JOBS, 1_000, np.uint64),
        "flags": np.full(JOBS, OVERHEAD_FLAGS["real_time"], np.uint8),
        "releases": np.ones(JOBS, np.uint64),
        "ticks": np.zeros(JOBS, np.uint64),
    }
    found = {"chains": chains, "samples": samples, "discards": {"jobs": {"hole": 0}, "pairs": {"not_ended": 1}}}
    block = Uncharged("softirq BLOCK", 171_600, 12, 40)
    return TrialOverheads(cast("Any", found), 1.0, JOBS, np.full(JOBS, 15_000, np.int64), uncharged=[block])


@pytest.fixture
def native_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that tells all, of native; of other machines what is there, which is nothing."""

    def measure(trial: "Trial") -> TrialOverheads:
        return overheads() if trial.record.cell.platform == "native" else really_measure(trial)

    monkeypatch.setattr(overhead_source, "measure", measure)


@pytest.fixture
def run(stealtime: Command, tmp_path: Path) -> Callable[[str], None]:
    def measured(tracing: str) -> None:
        file = tmp_path / "tasks.toml"
        file.write_text(CAMPAIGN.format(tracing=tracing))
        ended = stealtime("run", str(file), "--json")
        assert ended.code == 0, ended.err

    (tmp_path / "t.toml").write_text(TASKS)
    return measured


def in_words(text: str) -> str:
    """Undo the breaks of lines."""
    return " ".join(text.split())


@pytest.mark.usefixtures("native_measures")
def test_machines_that_were_not_measured_are_named_with_the_reason(
    stealtime: Command, run: Callable[[str], None], tmp_path: Path
) -> None:
    run("on")
    shown = stealtime("sched", "overheads", "last")
    assert shown.code == 0, shown.err
    words = in_words(shown.out)
    assert "native, 2 tasks; times in us" in words
    assert "not measured: uml (trials: 2): its kernel has no trace of its own" in words
    assert "What tracing adds to these figures is not known of this run" in words
    refused = stealtime("sched", "analyze", str(tmp_path / "t.toml"), "--overheads", "last", "--machine", "uml")
    assert refused.code == 1
    assert "holds no overheads of uml (trials: 2): its kernel has no trace" in in_words(refused.err)
    assert stealtime("sched", "overheads", "last", "--machine", "qemu-x").code == 2
    parts = stealtime("show", "last")
    assert "not split: uml (trials: 2): its kernel has no trace of its own" in in_words(parts.out)


@pytest.mark.usefixtures("native_measures")
def test_jobs_whose_switch_the_kernel_left_out_are_counted(stealtime: Command, run: Callable[[str], None]) -> None:
    run("on")
    words = in_words(stealtime("sched", "overheads", "last").out)
    assert f"{2 * UNSEEN:,} of {2 * JOBS:,} jobs that were followed give no sample of scheduling" in words
    # The clean series of both are of the others alone.
    assert words.count(f"clean {2 * (JOBS - UNSEEN)} ") == 2


@pytest.mark.usefixtures("native_measures")
def test_trials_with_and_without_tracing_tell_what_it_costs(stealtime: Command, run: Callable[[str], None]) -> None:
    run("both")
    words = in_words(stealtime("sched", "overheads", "last").out)
    # The scripted agent's jobs all begin 5 us after their release, traced or not.
    for platform in ("native", "uml"):
        assert f"start of the most urgent task of {platform} by +0 (+0 to +0 in 2 pairs; 5.000 µs without it)" in words
    assert "uml (trials: 2)" in words


def test_a_run_without_a_trace_names_every_machine(
    stealtime: Command, run: Callable[[str], None], tmp_path: Path
) -> None:
    run("off")
    ended = stealtime("sched", "overheads", "last")
    assert ended.code == 1
    words = in_words(ended.err)
    for machine in ("native", "uml"):
        assert f"{machine} (trials: 2): measured without tracing" in words
    page = tmp_path / "report.html"
    assert stealtime("report", "last", "-o", str(page)).code == 0
    assert "None are shown: native (trials: 2): measured without tracing" in page.read_text()


@pytest.mark.usefixtures("native_measures")
def test_misses_allowed_are_answered_from_percentiles(
    stealtime: Command, run: Callable[[str], None], tmp_path: Path
) -> None:
    run("on")
    ended = stealtime(
        "sched", "analyze", str(tmp_path / "t.toml"), "--overheads", "last", "--allow-misses", "--least-budget", "10ms"
    )
    assert ended.code == 0, ended.err
    assert "empirical, not proven" in ended.out
    rows = [line.split() for line in ended.out.splitlines() if " % " in line and "schedulable" in line]
    assert [row[:3] for row in rows] == [["0", "%", "worst"], ["0.1", "%", "p99.9"], ["1", "%", "p99"]]
    # Of 4,000 samples 8 are 50 us, which is the 99.9th percentile too.
    factors, budgets = [row[5] for row in rows], [row[6] for row in rows]
    assert factors[0] == factors[1] < factors[2]
    assert budgets[0] == budgets[1]
    assert parse_duration_ns(budgets[2]) < parse_duration_ns(budgets[1])


@pytest.mark.usefixtures("native_measures")
def test_what_is_not_charged_is_said_with_its_size_also_from_a_file(
    stealtime: Command, run: Callable[[str], None], tmp_path: Path
) -> None:
    run("on")
    file = tmp_path / "native.csv"
    file.write_text(stealtime("sched", "overheads", "last", "--machine", "native", "--csv").out)
    for source in (("last", "--machine", "native"), (str(file),)):
        ended = stealtime("sched", "analyze", str(tmp_path / "t.toml"), "--overheads", *source, "--json")
        told = json.loads(ended.out)["not_charged"]
        # Of both repetitions the longest, and how often in both.
        block = {"what": "softirq BLOCK", "longest_ns": 171_600, "count": 24, "share_percent": 0.004, "because": None}
        assert told[0] == block
        assert [one["what"] for one in told[1:]] == [
            "cache-related preemption delay",
            "RT throttling and the fair server",
        ]
        words = in_words(stealtime("sched", "analyze", str(tmp_path / "t.toml"), "--overheads", *source).out)
        assert "not charged: softirq BLOCK, seen 24 times, up to 171.60µs, 0.004 % of the CPU" in words
        assert "not charged: cache-related preemption delay: not measured; 0 is charged" in words
    shown = in_words(stealtime("sched", "overheads", "last").out)
    assert "takes the CPU beside, and is charged by no overhead what times longest % of the CPU" in shown.replace(
        "─", ""
    )
    assert "softirq BLOCK 24 171.60 0.004" in shown
