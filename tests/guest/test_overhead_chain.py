"""The chain of a real job: complete, exact, and a known thief is found in the part that it belongs to.

Nothing here is about how long the kernel takes. The truth is what the threads stamped themselves: the agent each job's
start, the thief its own work.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import pytest_asyncio
from injected_stalls import calibrated_tick, read_table
from machines import PRIORITY, needs_root, request_for
from truth import some_of

from stealtime._core import JOB_DISCARDS, JOB_PARTS
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.model import Machine
from stealtime.store.surroundings import TRACE_SCHEMA
from stealtime.store.traces import events_of
from stealtime.studies.realtime.analysis.overheads import TrialOverheads, split
from stealtime.vocabulary.readings import Value
from stealtime.wire.message import Injection, RunTrial, TraceRequest
from stealtime.wire.results import TrialResult
from stealtime.wire.rtload import RealTimeTask, RtloadProbe

if TYPE_CHECKING:
    from stealtime._core import StampedJobsDict

pytestmark = [pytest.mark.guest, needs_root]

PERIOD_NS = 10_000_000
DURATION_NS = 4_000_000_000
THEFT_NS = 3_000_000
EVERY_NS = 14_000_000
"""Not a multiple of the period: thefts come at every place of it, over a release in three of fourteen."""


@dataclass(frozen=True)
class Measured:
    result: TrialResult
    overheads: TrialOverheads
    release: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    units_a_ns: float


@pytest_asyncio.fixture(params=some_of(["native", "qemu-tcg-paravirt"], "native"))
async def machine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Machine]:
    platform = registry.find(request.param)
    availability = await platform.check()
    if not availability.usable:
        pytest.skip(f"{request.param} cannot be used here")
    await asyncio.to_thread((tmp_path / "boot").mkdir)
    async with platform.boot(request_for(tmp_path / "boot")) as booted:
        yield booted


async def measured(
    machine: Machine,
    folder: Path,
    injection: Injection | None = None,
    *,
    polluters: int = 0,
    released_elsewhere: bool = False,
) -> Measured:
    await asyncio.to_thread(folder.mkdir)
    busy = await calibrated_tick(machine)
    task = RealTimeTask(
        name="t1",
        period_ns=PERIOD_NS,
        deadline_ns=PERIOD_NS,
        cost_ns=500_000,
        budget_ns=None,
        iterations=busy.iterations,
    )
    request = RunTrial(
        trial=1,
        probe=RtloadProbe(
            policy="fifo",
            tasks=[task],
            polluters=polluters,
            polluter_bytes=4096,
            released_elsewhere=released_elsewhere,
            drawn=None,
        ),
        cpus=[machine.measured_cpus[0]],
        priority=PRIORITY,
        duration_ns=DURATION_NS,
        lift_rt_throttling=True,
        injection=injection,
        tracing=TraceRequest(buffer_bytes_per_cpu=32 << 20, extra_groups=["timers", "scheduler"]),
    )
    result = await machine.connection.run_trial(request, folder, deadline_s=90, needs=("jobs",))
    tracing, told = result.outcome.tracing, result.outcome.rtload
    assert tracing is not None
    assert told is not None
    assert tracing.lost == 0, tracing
    assert tracing.groups["timers"] == Value(value=True), tracing.groups
    trace, table = read_table(result.trace), read_table(result.tables["jobs"])
    columns = {name: np.ascontiguousarray(trace[name].to_numpy()) for name in TRACE_SCHEMA.names}
    jobs: StampedJobsDict = {
        "thread": np.full(table.num_rows, told.tasks[0].thread_id, np.int32),
        "release": np.ascontiguousarray(table["release"].to_numpy()),
        "start": np.ascontiguousarray(table["start"].to_numpy()),
        "finish": np.ascontiguousarray(table["finish"].to_numpy()),
    }
    overheads = split(events_of(columns, tracing), tracing.tsc_hz, jobs)
    return Measured(result, overheads, jobs["release"].astype(np.int64), result.outcome.clock.units_per_s / 1e9)


async def test_the_parts_are_the_whole_latency_of_nearly_every_job(machine: Machine, tmp_path: Path) -> None:
    # A CPU that never idles: of switches out of idleness a kernel may tell nothing.
    one = await measured(machine, tmp_path / "trial", polluters=1)
    overheads, chains = one.overheads, one.overheads.found["chains"]
    assert overheads.jobs >= 0.9 * DURATION_NS / PERIOD_NS
    undisturbed = chains["interrupted"] == 0
    # A job that a slow host made late leaves its successor no sleep to end.
    slept = chains["discard"] != JOB_DISCARDS.index("backlogged")
    assert slept.sum() >= 100, overheads.found["discards"]
    assert overheads.is_followed[slept].mean() >= 0.95, overheads.found["discards"]
    followed = overheads.is_followed & undisturbed
    known_ns = overheads.part_ns(*(part for part in JOB_PARTS if part != "remainder"))
    stamped_ns = overheads.start_latency_cycles * overheads.ns_a_cycle
    off_ns = np.abs(known_ns - stamped_ns)[followed]
    assert (off_ns < 1_000).mean() >= 0.99, np.sort(off_ns)[-10:]
    whole = np.sum([chains[part].astype(np.int64) for part in JOB_PARTS], axis=0)
    assert np.array_equal(whole[overheads.is_followed], overheads.start_latency_cycles[overheads.is_followed])
    # What every release goes through took some time, and each job has but one of the two ways to be told.
    for part in ("event_latency", "release", "interrupt_rest"):
        assert (chains[part][followed] > 0).all(), part
    tracing = one.result.outcome.tracing
    assert tracing is not None
    is_fine = tracing.groups["scheduler"] == Value(value=True)
    finer, coarser = ("context_switch", "arrival") if is_fine else ("arrival", "context_switch")
    assert (chains[finer][followed] > 0).mean() >= 0.95, tracing.groups["scheduler"]
    assert (chains[coarser][followed] == 0).mean() >= 0.95


async def test_a_job_out_of_idleness_has_a_chain_and_says_where_the_kernel_left_its_switch_out(
    machine: Machine, tmp_path: Path
) -> None:
    one = await measured(machine, tmp_path / "trial")
    overheads, chains = one.overheads, one.overheads.found["chains"]
    slept = chains["discard"] != JOB_DISCARDS.index("backlogged")
    assert slept.sum() >= 100, overheads.found["discards"]
    assert overheads.is_followed[slept].mean() >= 0.95, overheads.found["discards"]
    whole = np.sum([chains[part].astype(np.int64) for part in JOB_PARTS], axis=0)
    assert np.array_equal(whole[overheads.is_followed], overheads.start_latency_cycles[overheads.is_followed])
    unseen = chains["unseen_switch"] > 0
    assert (chains["context_switch"][unseen] == 0).all()
    assert (chains["dispatch"][unseen] == 0).all()
    assert len(overheads.series["scheduling"].ns) <= (overheads.is_followed & ~unseen).sum()


async def test_a_thief_at_a_release_is_found_in_the_preemption(machine: Machine, tmp_path: Path) -> None:
    one = await measured(machine, tmp_path / "trial", Injection(every_ns=EVERY_NS, steal_ns=THEFT_NS), polluters=1)
    overheads = one.overheads
    assert one.result.tables.get("events") is not None
    stolen = read_table(one.result.tables["events"])
    begin = stolen["start"].to_numpy().astype(np.int64) + one.result.outcome.clock.origin_units
    end = begin + stolen["duration"].to_numpy().astype(np.int64)
    assert len(begin) > 100, "the thief did not come"
    # The theft that each release lies in, well within.
    margin = int(200_000 * one.units_a_ns)
    theft = np.searchsorted(begin, one.release, side="right") - 1
    release, within = one.release, theft >= 0
    within &= (release >= begin[theft] + margin) & (release <= end[theft] - margin) & overheads.is_followed
    assert within.sum() > 20, within.sum()
    # Linux 6.12 and newer lets starving ordinary threads in between: then the thief is kept off as well as the job.
    preemption_ns = overheads.part_ns("preemption", "remainder")
    interrupt_ns = overheads.part_ns("event_latency", "release", "interrupt_rest")
    # From the interrupt's end to the thief's own stamp it is the thief's; then the thief has to go to sleep.
    expected_ns = (end[theft] - release) / one.units_a_ns - interrupt_ns
    beyond_ns = (preemption_ns - expected_ns)[within]
    assert np.percentile(beyond_ns, 5) > -1_000, "the thief's time is missing"
    assert np.median(beyond_ns) < 0.1 * THEFT_NS, np.sort(beyond_ns)
    # Where nobody stole, nothing of that length is found, and the other parts are no longer where somebody did. (In a
    # busy guest under TCG the timer itself comes later: its interrupts come from a thread that wants the same CPU.)
    apart = (release > end[theft] + margin) & (theft >= 0) & overheads.is_followed
    apart &= release + overheads.start_latency_cycles < np.append(begin, np.iinfo(np.int64).max)[theft + 1] - margin
    assert apart.sum() > 50
    assert np.percentile(preemption_ns[apart], 90) < 0.1 * THEFT_NS, np.sort(preemption_ns[apart])[-20:]
    others_ns = overheads.part_ns(*(part for part in JOB_PARTS if part not in ("preemption", "remainder")))
    if machine.platform != "native":
        return
    assert np.median(others_ns[within]) < np.median(others_ns[apart]) + 0.1 * THEFT_NS, "it is found elsewhere too"


@pytest.mark.truth
async def test_releases_by_another_cpu_take_inter_processor_interrupts(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "boot").mkdir)
    async with registry.find("native").boot(request_for(tmp_path / "boot")) as machine:
        elsewhere = await measured(machine, tmp_path / "elsewhere", polluters=1, released_elsewhere=True)
        here = await measured(machine, tmp_path / "here", polluters=1)
    # The polluter runs where the task does, so that nearly each release asks that CPU; some come while it idles.
    assert len(elsewhere.overheads.series["inter_processor_interrupt"].ns) > 0.5 * len(elsewhere.release)
    # No timer of its own wakes the task.
    no_timer = JOB_DISCARDS.index("no_timer")
    assert (elsewhere.overheads.found["chains"]["discard"] == no_timer).mean() > 0.9
    assert len(here.overheads.series["inter_processor_interrupt"].ns) < 0.1 * len(here.release)
