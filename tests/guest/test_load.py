"""Loads on real machines: they do what they say, when they say it, and the agent answers meanwhile."""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from machines import CPUS, HOUSEKEEPING_CPU, MEASURED_CPU, needs_root, request_for
from numpy.typing import NDArray

from stealtime.lab.platforms import registry
from stealtime.lab.platforms.model import Machine
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.load import CpuLoad, LoadRequest, MemoryLoad
from stealtime.wire.message import RunTrial, TickProbe
from stealtime.wire.results import LoadResult

pytestmark = [pytest.mark.guest, pytest.mark.asyncio(loop_scope="session")]

Tell = Callable[[str], None]

ON_NS, OFF_NS = 20_000_000, 30_000_000
BLOCK_BYTES = 9_000_000
"""The paper's."""

LOOP_WORDS = 2048
"""A loop of the load ``cpu`` is one pass over so many words (``crates/probe/src/load/cpu.rs``)."""

CYCLES_A_WORD = (0.2, 6.0)
"""A multiplication, an addition, a load and a store: 1 to 2 cycles of the processor, whose clock may be above or below
that of its counter, and whose other hyperthread may be busy."""

TRANSLATED_CYCLES_A_WORD = (0.2, 100.0)
"""TCG makes some ten instructions of each of the seven."""

SHORT_NS = 5_000_000
"""In the fastest of many phases as short as that a load had the CPU for itself, also on a busy host."""


async def loaded(machine: Machine, folder: Path, load: LoadRequest, seconds: float, trial: int = 1) -> LoadResult:
    await machine.connection.start_load(trial, load)
    await asyncio.sleep(seconds)
    return await machine.connection.stop_load(trial, folder)


def rows(result: LoadResult) -> dict[str, NDArray[np.int64]]:
    with pa.OSFile(str(result.load)) as file:
        table = pa.ipc.open_stream(file).read_all()
    return {name: table[name].to_numpy().astype(np.int64) for name in table.column_names}


def fastest_phase_per_s(result: LoadResult) -> float:
    table = rows(result)
    return float((table["work"] / table["duration"]).max() * result.outcome.tsc_hz)


def is_translated(machine: Machine) -> bool:
    return "tcg" in machine.platform


async def test_a_cpu_load_makes_the_loops_that_the_processor_can(machine: Machine, tmp_path: Path, tell: Tell) -> None:
    load = LoadRequest(kind=CpuLoad(), cpus=list(machine.measured_cpus), on_ns=SHORT_NS, off_ns=SHORT_NS)
    result = await loaded(machine, tmp_path, load, 0.5)
    outcome, table = result.outcome, rows(result)
    assert outcome.unit == "loops"
    assert outcome.work == table["work"].sum() > 0
    assert outcome.on_ns == pytest.approx(table["duration"].sum() / outcome.tsc_hz * 1e9, rel=1e-6)
    assert outcome.rate_per_s == pytest.approx(outcome.work / outcome.on_ns * 1e9, rel=1e-6)
    rate = fastest_phase_per_s(result)
    cycles_a_word = outcome.tsc_hz / rate / LOOP_WORDS
    least, most = TRANSLATED_CYCLES_A_WORD if is_translated(machine) else CYCLES_A_WORD
    assert least < cycles_a_word < most, outcome
    tell(f"load cpu, {machine.platform}: {rate:.0f} loops/s, {cycles_a_word:.2f} cycles a word")


async def test_a_memory_load_copies_about_as_fast_as_memcpy(machine: Machine, tmp_path: Path, tell: Tell) -> None:
    load = LoadRequest(
        kind=MemoryLoad(block_bytes=BLOCK_BYTES), cpus=list(machine.measured_cpus), on_ns=SHORT_NS, off_ns=SHORT_NS
    )
    plain = plain_memcpy_bytes_per_s()
    result = await loaded(machine, tmp_path, load, 0.5)
    outcome = result.outcome
    assert outcome.unit == "bytes"
    assert outcome.work == rows(result)["work"].sum() > BLOCK_BYTES
    rate = fastest_phase_per_s(result)
    slowest = 100 if is_translated(machine) else 4
    assert plain / slowest < rate < 4 * plain, (plain, outcome)
    tell(f"load memory, {machine.platform}: {rate / 1e9:.2f} GB/s, memcpy {plain / 1e9:.2f} GB/s")


def plain_memcpy_bytes_per_s() -> float:
    """Copy the same block with the C library, the way the paper's load does; the fastest of some."""
    source, target = np.full(BLOCK_BYTES, 1, np.uint8), np.full(BLOCK_BYTES, 2, np.uint8)
    rates = []
    for _ in range(20):
        before = time.perf_counter()
        np.copyto(target, source)
        rates.append(BLOCK_BYTES / (time.perf_counter() - before))
    return max(rates)


async def test_the_phases_of_a_load_are_seen_on_the_machines_counter(machine: Machine, tmp_path: Path) -> None:
    load = LoadRequest(kind=CpuLoad(), cpus=list(machine.measured_cpus), on_ns=ON_NS, off_ns=OFF_NS)
    result = await loaded(machine, tmp_path, load, 1.0)
    outcome, table = result.outcome, rows(result)
    period = (ON_NS + OFF_NS) * outcome.tsc_hz / 1e9
    phases = (table["start"] - table["start"][0]) / period
    offsets = phases - np.round(phases)
    # A busy host may let a phase begin late, but never outside its own: they lie at absolute times.
    assert np.all(np.abs(offsets) < ON_NS / (ON_NS + OFF_NS) + 0.05), phases
    assert np.all(np.diff(np.round(phases)) >= 1), "a phase of 20 ms is one row"
    assert len(phases) > 0.5e9 / (ON_NS + OFF_NS), outcome
    assert table["start"][0] > outcome.start.tsc
    assert table["start"][-1] + table["duration"][-1] < outcome.end.tsc


async def test_the_agent_answers_beside_more_hogs_than_cpus(machine: Machine, tmp_path: Path) -> None:
    load = LoadRequest(kind=CpuLoad(), cpus=list(machine.measured_cpus), threads=3)
    started = await machine.connection.start_load(1, load)
    alignment = await machine.connection.exchange_clocks(count=3)
    result = await machine.connection.stop_load(1, tmp_path)
    assert alignment.exchanges == 3
    assert result.outcome.thread_ids == started.thread_ids
    assert set(rows(result)["thread"]) <= set(started.thread_ids)


@needs_root
async def test_a_real_time_load_may_not_silence_the_agents_last_cpu(machine: Machine, tmp_path: Path) -> None:
    if machine.platform == "native":
        pytest.skip("natively the agent has a CPU of its own")
    forever = LoadRequest(kind=CpuLoad(), priority=50)
    with pytest.raises(StealtimeError, match=r"priority 50 on \[0\] would leave the agent no CPU") as caught:
        await machine.connection.start_load(1, forever)
    assert "let it pause" in (caught.value.hint or "")
    pulsed = forever.model_copy(update={"on_ns": 5_000_000, "off_ns": 50_000_000})
    result = await loaded(machine, tmp_path, pulsed, 0.3)
    assert "late_answers" in [finding.code for finding in result.outcome.findings]
    assert "no_sched_fifo" not in [finding.code for finding in result.outcome.findings]
    assert result.outcome.work > 0


@needs_root
async def test_two_hogs_on_one_cpu_lose_half_each(native: Machine, tmp_path: Path, tell: Tell) -> None:
    lost_work: tuple[list[float], list[float]] = ([], [])
    lost_time: tuple[list[float], list[float]] = ([], [])
    for _ in range(5):
        [alone] = await hogs(native, tmp_path, count=1)
        for number, hog in enumerate(await hogs(native, tmp_path, count=2)):
            lost_work[number].append(1 - hog.work_per_cycle / alone.work_per_cycle)
            lost_time[number].append(1 - hog.share_of_time / alone.share_of_time)
    for number in (0, 1):
        work, time_ = statistics.median(lost_work[number]), statistics.median(lost_time[number])
        tell(f"two hogs on one CPU: hog {number + 1} lost {work:.1%} of its work, {time_:.1%} of its time")
        assert 0.45 < time_ < 0.55, lost_time
        assert 0.45 < work < 0.55, lost_work


@dataclass(frozen=True)
class Hog:
    """What one of the hogs got."""

    work_per_cycle: float
    """Of its on-time, whoever had the CPU."""
    share_of_time: float
    """In which it ran, of the time in which it wanted to."""


async def hogs(native: Machine, folder: Path, count: int) -> list[Hog]:
    """Run some hogs on the measured CPU.

    One alone is the measure for two, since this host may run more: an autogroup shares what there is evenly.
    """
    load = LoadRequest(kind=CpuLoad(), cpus=[MEASURED_CPU], threads=count)
    started = await native.connection.start_load(1, load)
    for thread in started.thread_ids:
        os.setpriority(os.PRIO_PROCESS, thread, -20)
    before = [schedstat_ns(thread) for thread in started.thread_ids]
    await asyncio.sleep(0.4)
    after = [schedstat_ns(thread) for thread in started.thread_ids]
    table = rows(await native.connection.stop_load(1, folder))
    found = []
    for thread, (ran, waited), (ran_after, waited_after) in zip(started.thread_ids, before, after, strict=True):
        own = table["thread"] == thread
        work_per_cycle = float(table["work"][own].sum() / table["duration"][own].sum())
        ran_ns, waited_ns = ran_after - ran, waited_after - waited
        found.append(Hog(work_per_cycle, ran_ns / (ran_ns + waited_ns)))
    return found


def schedstat_ns(thread: int) -> tuple[int, int]:
    """Give how long a thread has run and how long it was runnable and waited (``Documentation/scheduler``)."""
    ran, waited, _ = Path(f"/proc/{thread}/schedstat").read_text().split()
    return int(ran), int(waited)


@pytest.fixture
def two_folders(tmp_path: Path) -> tuple[Path, Path]:
    folders = tmp_path / "one", tmp_path / "other"
    for folder in folders:
        folder.mkdir()
    return folders


@asynccontextmanager
async def real_time_hog(folder: Path, cpu: int, off_ns: int) -> AsyncIterator[None]:
    async with registry.find("native").boot(request_for(folder)) as neighbour:
        load = LoadRequest(kind=CpuLoad(), cpus=[cpu], priority=90, on_ns=5_000_000, off_ns=off_ns)
        await neighbour.connection.start_load(1, load)
        yield
        await neighbour.connection.stop_load(1, folder)


@needs_root
@pytest.mark.skipif(len(CPUS) < 2, reason="nothing to roam over")
async def test_a_roaming_tick_has_no_blind_gap_where_it_is_chased_from_cpu_to_cpu(
    native: Machine, tmp_path: Path, two_folders: tuple[Path, Path]
) -> None:
    request = RunTrial(trial=1, probe=TickProbe(iterations=20_000), cpus=CPUS, priority=80, duration_ns=1_000_000_000)
    async with (
        real_time_hog(two_folders[0], MEASURED_CPU, 45_000_000),
        real_time_hog(two_folders[1], HOUSEKEEPING_CPU, 70_000_000),
    ):
        result = await native.connection.run_trial(request, tmp_path, deadline_s=60)
    outcome = result.outcome
    assert outcome.placement.cpus == CPUS
    if "migrations" not in outcome.counters:
        pytest.skip("this kernel does not tell how often a thread migrates")
    assert outcome.counters["migrations"] > 4, "the probe was hardly moved, so nothing was tested"
    with pa.OSFile(str(result.samples)) as file:
        durations = pa.ipc.open_stream(file).read_all()["duration"].to_numpy()
    assert outcome.counters["saturated"] == 0, "a counter that went backwards would be saturated"
    total_ns = durations.astype(np.int64).sum() / outcome.clock.units_per_s * 1e9
    assert total_ns >= request.duration_ns
    assert outcome.clock.origin_units + durations.astype(np.int64).sum() <= outcome.clock.end.tsc
