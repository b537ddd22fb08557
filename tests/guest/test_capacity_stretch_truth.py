"""The stretch that counters tell, against the work in the guest: how much longer does it really take there?

A guest works alone and beside another one in turn, so that what changes on this host meets both. Their weights are 1
and 3: the truth is 4 and 4/3, and the counters are not told. Work that is interrupted often finds its caches used by
others and takes more CPU time: that is no waiting, so it is measured apart, by the CPU time of the virtual CPU.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pyarrow as pa
import pytest
from machines import HOUSEKEEPING_CPU, MEASURED_CPU, needs_root, require_usable
from scipy.stats import t as student
from watched_guests import ours

from stealtime.capacity.collector import Collector
from stealtime.capacity.prediction.addition import Addition
from stealtime.capacity.prediction.what_if import Estimate, Node, named_apart, node_of
from stealtime.capacity.stretching import stretch_of, wanted_percent
from stealtime.capacity.use import Use, between
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.model import Machine, MachineRequest
from stealtime.lab.platforms.share import Share
from stealtime.vocabulary.readings import Absent
from stealtime.wire.message import ContendProbe, RunTrial

pytestmark = [pytest.mark.guest, pytest.mark.truth, pytest.mark.asyncio(loop_scope="session"), needs_root]

TOLERANCE = 0.05
ROUNDS = 4
WORK_S, SETTLE_S = 3.0, 0.6
"""Of each turn; counters are read within it, when both work already and still."""
WEIGHTS = (100, 300)
WORK = ContendProbe(
    tasks=1, iterations=900_000, collection_bytes=64 << 10, searches=20, io_mean_ns=0, io_spread_percent=0,
    lock_percent=0, lock_searches=1, seed=1,
)  # fmt: skip


@dataclass(frozen=True)
class Worked:
    """What a guest did in one turn."""

    iteration_s: float
    """In the mean, of those in the middle of the turn."""
    cpu_s: float
    wait_s: float
    """Of the task, as its own kernel counts it: natively that is the host's."""

    @property
    def stretch(self) -> float:
        return (self.cpu_s + self.wait_s) / self.cpu_s


@asynccontextmanager
async def guest(folder: Path, platform: str, weight: int) -> AsyncIterator[Machine]:
    await require_usable(platform)
    await asyncio.to_thread(folder.mkdir)
    request = MachineRequest(
        vcpu_cpus=((MEASURED_CPU,),), housekeeping_cpus=(HOUSEKEEPING_CPU,), folder=folder, memory_bytes=256 << 20,
        share=Share(weight=weight), group=folder.name, realtime=False,
    )  # fmt: skip
    async with registry.find(platform).boot(request) as machine:
        yield machine


async def work(machine: Machine, folder: Path, trial: int) -> Worked:
    request = RunTrial(
        trial=trial, probe=WORK, cpus=list(machine.measured_cpus), priority=0, duration_ns=round(WORK_S * 1e9)
    )
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    result = await machine.connection.run_trial(request, folder, deadline_s=WORK_S + 30, needs=("iterations",))
    with pa.ipc.open_stream(result.tables["iterations"]) as stream:
        rows = stream.read_all()
    starts, durations = (rows[name].to_numpy().astype(np.int64) for name in ("start_ns", "duration_ns"))
    inside = (starts >= SETTLE_S * 1e9) & (starts + durations <= (WORK_S - SETTLE_S) * 1e9)
    counters = result.outcome.counters
    iteration_s = float(durations[inside].mean()) / 1e9
    return Worked(iteration_s, counters["cpu_ns"] / 1e9, counters.get("run_delay_ns", 0) / 1e9)


async def used(collector: Collector) -> Use:
    await asyncio.sleep(SETTLE_S)
    before = collector.sample()
    await asyncio.sleep(WORK_S - 2 * SETTLE_S)
    return between(before, collector.sample())


async def together_on(
    machines: list[Machine], folder: Path, trial: int, collector: Collector
) -> tuple[list[Worked], Use]:
    """Let all work at once, and read their counters meanwhile."""
    watching = asyncio.create_task(used(collector))
    done = await asyncio.gather(
        *(work(one, folder / f"{trial}-{number}", trial) for number, one in enumerate(machines))
    )
    return list(done), await watching


def stretch_in(use: Use, collector: Collector, machine: Machine) -> float:
    (key,) = ours(collector, machine)
    stretch = stretch_of([use.guests[key]])
    assert not isinstance(stretch, Absent), stretch.absent
    return stretch


def run_share(use: Use, collector: Collector, machine: Machine) -> float:
    """Give how much of the time the virtual CPU ran."""
    (key,) = ours(collector, machine)
    wanted = wanted_percent(use.guests[key])
    assert not isinstance(wanted, Absent), wanted.absent
    return wanted[0] / 100


def held(live: list[float], inside: list[float]) -> str:
    """Say how far the two are from each other; nothing where that is within the tolerance, or cannot be told better."""
    logs = [math.log(one / other) for one, other in zip(live, inside, strict=True)]
    # An interval of 99.9 %: how fast this machine is changes between turns.
    half = float(student.ppf(0.9995, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    off = fmean(logs)
    is_right = abs(math.expm1(off)) <= TOLERANCE or abs(off) <= half
    told = f"live {live}, inside {inside}: {100 * math.expm1(off):.1f} % off, +- {100 * half:.1f} %"
    return "" if is_right else told


@pytest.mark.parametrize("platform", ["uml", "qemu-tcg-paravirt"])
async def test_the_live_stretch_of_a_guest_is_that_of_the_work_in_it(
    tmp_path: Path, platform: str, record_property: Callable[[str, object], None]
) -> None:
    live: list[list[float]] = [[], []]
    inside: list[list[float]] = [[], []]
    dearer: list[list[float]] = [[], []]
    alone_s, alone_cpu_s = [0.0, 0.0], [0.0, 0.0]
    async with AsyncExitStack() as stack:
        pair = [
            await stack.enter_async_context(guest(tmp_path / f"guest-{weight}", platform, weight)) for weight in WEIGHTS
        ]
        collector = stack.enter_context(Collector())
        collector.sample()
        for turn in range(ROUNDS):
            for number, one in enumerate(pair):
                # What else runs on this host may take a little of a guest alone, too.
                (alone,), before = await together_on([one], tmp_path, 3 * turn + 1, collector)
                alone_s[number] = alone.iteration_s / stretch_in(before, collector, one)
                alone_cpu_s[number] = alone.iteration_s * run_share(before, collector, one)
            together, use = await together_on(pair, tmp_path, 3 * turn + 2, collector)
            for number, one in enumerate(pair):
                iteration_s = together[number].iteration_s
                live[number].append(stretch_in(use, collector, one))
                inside[number].append(iteration_s / alone_s[number])
                dearer[number].append(iteration_s * run_share(use, collector, one) / alone_cpu_s[number])
    record_property("live", live)
    record_property("inside", inside)
    record_property("dearer", dearer)
    assert [len(one) for one in live] == [ROUNDS, ROUNDS]
    for told, cost, worked in zip(live, dearer, inside, strict=True):
        expected = [one * other for one, other in zip(told, cost, strict=True)]
        assert not held(expected, worked), held(expected, worked)
        # Company does not make work cheaper: what is told never exceeds what the work feels.
        assert fmean(told) <= (1 + TOLERANCE) * fmean(worked), (told, worked)
    if platform == "uml":
        # QEMU's other threads share the weight of their guest; here the virtual CPU is all there is.
        truth = [sum(WEIGHTS) / weight for weight in WEIGHTS]
        assert [fmean(one) for one in live] == pytest.approx(truth, rel=TOLERANCE)


async def test_the_kernels_counts_of_a_native_task_are_its_stretch(tmp_path: Path) -> None:
    live: list[list[float]] = [[], []]
    inside: list[list[float]] = [[], []]
    async with AsyncExitStack() as stack:
        pair = [
            await stack.enter_async_context(guest(tmp_path / f"task-{weight}", "native", weight)) for weight in WEIGHTS
        ]
        for turn in range(ROUNDS):
            alone = [await work(one, tmp_path / "alone", 3 * turn + 1) for one in pair]
            together = await asyncio.gather(
                *(work(one, tmp_path / f"together-{number}", 3 * turn + 2) for number, one in enumerate(pair))
            )
            for number, worked in enumerate(together):
                live[number].append(worked.stretch)
                inside[number].append(worked.iteration_s / (alone[number].iteration_s / alone[number].stretch))
    for told, its_own in zip(live, inside, strict=True):
        assert not held(told, its_own), held(told, its_own)


async def test_what_one_more_guest_does_is_predicted_before_it_comes(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async with AsyncExitStack() as stack:
        pair = [await stack.enter_async_context(guest(tmp_path / name, "uml", 100)) for name in ("first", "second")]
        newcomer = await stack.enter_async_context(guest(tmp_path / "newcomer", "uml", 100))
        collector = stack.enter_context(Collector())
        collector.sample()
        _, before = await together_on(pair, tmp_path, 1, collector)
        mine = ours(collector, *pair, newcomer)
        own = {key: one for key, one in before.guests.items() if mine.get(key) in (0, 1)}
        seen = [Use(before.elapsed_s, before.cpus, before.memory_available_percent, {}, own)] * 10
        names = named_apart(one.guest for one in own.values())
        node = node_of(seen, dict.fromkeys(own, 1.0), names)
        assert isinstance(node, Node)
        outlook = node.with_more(Addition("1vcpu", 1, 1.0, 100, frozenset({MEASURED_CPU})))
        _, after = await together_on([*pair, newcomer], tmp_path, 2, collector)
    for key, name in names.items():
        predicted, came = outlook.stretch[name], stretch_of([after.guests[key]])
        record_property(name, (predicted, came))
        assert isinstance(predicted, Estimate)
        assert not isinstance(came, Absent)
        assert predicted.low <= came <= predicted.high, f"{predicted} was predicted, and {came:.2f} came"
