"""Boots a pool's guests and lets them work, alone and together.

A *block* is a mix, and each of its pieces alone just before or just after it, for as long: how fast this machine is
changes from minute to minute. All work for the same time, not the same amount, so each has all others beside it all the
time. What is compared is the same iterations of the same tasks, which were done both alone and beside the others.
"""

import asyncio
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from co_located.mixes import PIECES, SLOTS, Mix, Pool
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.cgroup import cpu_group
from stealtime.lab.platforms.host_views import between, look
from stealtime.lab.platforms.model import Machine, MachineRequest
from stealtime.lab.platforms.quotas import group_of
from stealtime.lab.platforms.share import MAXIMUM_SHARES, MAXIMUM_WEIGHT, Share
from stealtime.vocabulary.readings import Absent, Reading
from stealtime.wire.message import RunTrial

_ANSWER_S = 30.0
_SETTLE_S = 1.0
_MARGIN = 0.1
"""Of the time, at its begin and its end."""
_ALONE = -1
"""In the place of a slot: the guest that works alone, which has neither a weight nor a quota of its own."""


@dataclass(frozen=True)
class Effort:
    """How long and how often."""

    window_s: float
    """Of a mix, and of each of its pieces alone."""
    repetitions: int


@dataclass(frozen=True)
class Times:
    """When the iterations of one guest began, and how long they took, by task and in their order."""

    tasks: NDArray[np.int64]
    starts_ns: NDArray[np.int64]
    durations_ns: NDArray[np.int64]

    def of(self, task: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        own = self.tasks == task
        return self.starts_ns[own], self.durations_ns[own]


def same_work_s(alone: Times, beside: Times, tasks: int, window_ns: float) -> tuple[float, float]:
    """Add up how long the same iterations of the same tasks took alone and beside others.

    Left out are those that were begun in the first tenth of the window, and those that ended in the last one beside
    others: machines do not begin and end at the same moment.

    Args:
        alone: What was done alone.
        beside: What was done in the mix.
        tasks: How many there are.
        window_ns: How long all worked.
    """
    begin_ns, end_ns = _MARGIN * window_ns, (1.0 - _MARGIN) * window_ns
    alone_ns = beside_ns = 0
    for task in range(tasks):
        (starts, durations), (their_starts, their_durations) = alone.of(task), beside.of(task)
        in_time = int(np.searchsorted(their_starts + their_durations, end_ns, side="right"))
        last = min(len(starts), in_time)
        first = max(int(np.searchsorted(starts, begin_ns)), int(np.searchsorted(their_starts, begin_ns)))
        alone_ns += int(durations[first:last].sum())
        beside_ns += int(their_durations[first:last].sum())
    return alone_ns / 1e9, beside_ns / 1e9


def prefer(machines: Iterable[Machine]) -> None:
    """Give all machines together as much weight as the kernel takes against whatever else runs on this host.

    What each of them has against the others stays as it is: that is a matter of the groups within.
    """
    for machine in machines:
        group = machine.cpu_group
        if group is None:
            continue
        file, most = ("cpu.weight", MAXIMUM_WEIGHT) if group.hierarchy.version == 2 else ("cpu.shares", MAXIMUM_SHARES)
        for above in group.path.parents:
            if above.is_relative_to(group.hierarchy.root) and above != group.hierarchy.root:
                (above / file).write_text(str(most))


@asynccontextmanager
async def preferred_control() -> AsyncIterator[None]:
    """Let this process win against the machines for the time of the context.

    It tells each of them to begin. Busy ones that win against everything else leave it nothing, and the last machine
    would begin seconds after the first.
    """
    async with cpu_group("control", Share(weight=MAXIMUM_WEIGHT)) as group:
        before = group_of(Path("/proc/self/cgroup").read_text(), group.hierarchy)  # noqa: ASYNC240 - the kernel's
        (group.path / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            ((before or group.hierarchy.root) / "cgroup.procs").write_text(str(os.getpid()))


class PoolMeasuring:
    """The guests of one pool, up."""

    def __init__(self, machines: Mapping[int, Machine], cpus: tuple[int, ...], folder: Path) -> None:
        self._machines = machines
        self._cpus = cpus
        self._folder = folder
        self._trials = 0

    async def block(self, mix: Mix, window_s: float, order: int) -> dict[str, Any]:
        """Measure a mix and its pieces alone.

        Args:
            mix: What runs at once.
            window_s: How long each time.
            order: By which it is drawn which pieces are measured before the mix.
        """
        # Each boot and each end of a machine, whoever's it is, weighs the groups above anew.
        prefer(self._machines.values())
        alone: dict[str, tuple[dict[str, Any], Times]] = {}
        steal_s = whole_s = 0.0
        together: dict[int, tuple[dict[str, Any], Times]] = {}
        todo: list[str | Mix] = [*sorted(set(mix.pieces.values())), mix]
        random.Random(f"{mix.name} {order}").shuffle(todo)  # noqa: S311 - the order, not a secret
        for one in todo:
            what = one.pieces if isinstance(one, Mix) else {_ALONE: one}
            host_before, began_s = look([], self._cpus), time.monotonic()
            done = await asyncio.gather(*(self._one(slot, piece, window_s) for slot, piece in what.items()))
            whole_s += (time.monotonic() - began_s) * len(self._cpus)
            steal_s += _seconds(between(host_before, look([], self._cpus)).steal_ns) or 0.0
            if isinstance(one, Mix):
                together = dict(zip(what, done, strict=True))
            else:
                alone[one] = done[0]
        guests = {}
        for slot, piece in mix.pieces.items():
            times = alone[piece][1], together[slot][1]
            alone_s, beside_s = same_work_s(*times, PIECES[piece].tasks, window_s * 1e9)
            guests[str(slot)] = {
                "piece": piece, "same_alone_s": round(alone_s, 6), "same_s": round(beside_s, 6),
                "alone": alone[piece][0], "beside": together[slot][0],
            }  # fmt: skip
        return {
            "window_s": window_s,
            "host_steal_percent": round(100 * steal_s / whole_s, 2),
            "guests": guests,
        }

    async def _one(self, slot: int, piece: str, duration_s: float) -> tuple[dict[str, Any], Times]:
        machine = self._machines.get(slot) or self._machines[0]
        self._trials += 1
        threads = [thread.tid for thread in machine.threads() if thread.role == "vcpu"]
        request = RunTrial(
            trial=self._trials, probe=PIECES[piece], cpus=list(machine.measured_cpus), priority=0,
            duration_ns=round(duration_s * 1e9),
        )  # fmt: skip
        before = look(threads, ())
        result = await machine.connection.run_trial(
            request, self._folder / f"slot-{slot}", deadline_s=duration_s + _ANSWER_S, needs=("iterations",)
        )
        gained = between(before, look(threads, ()))
        host_run_s = _seconds(gained.run_ns)
        with pa.ipc.open_stream(result.tables["iterations"]) as stream:
            rows = stream.read_all().sort_by([("task", "ascending"), ("iteration", "ascending")])
        counters = result.outcome.counters
        if counters["iterations"] == PIECES[piece].tasks * PIECES[piece].iterations:
            raise SystemExit(f"the piece {piece} ended before its time: give it more iterations")
        found = {
            "elapsed_s": counters["elapsed_ns"] / 1e9,
            "iterations": counters["iterations"],
            "cpu_s": counters["cpu_ns"] / 1e9,
            "io_asked_s": counters["io_asked_ns"] / 1e9,
            "host_run_s": host_run_s,
            # Natively that of the tasks, which wait for each other too.
            "wait_s": counters["run_delay_ns"] / 1e9 if host_run_s is None else _seconds(gained.run_delay_ns),
            "vcpu_threads": len(threads),
            "cost_s": counters["cpu_ns"] / 1e9 if host_run_s is None else host_run_s,
        }
        columns = (rows[name].to_numpy().astype(np.int64) for name in ("task", "start_ns", "duration_ns"))
        return found, Times(*columns)


async def measure_pool(
    pool: Pool, drawn: list[tuple[Mix, int]], cpus: tuple[int, ...], window_s: float
) -> AsyncIterator[dict[str, Any]]:
    """Boot a pool's guests and measure blocks; gives each as soon as it is measured.

    Args:
        pool: Whose guests are booted.
        drawn: Its mixes, each with the number of its repetition, in the order in which they are measured.
        cpus: Of the host, which all share.
        window_s: How long each works at a time.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(preferred_control())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        slots = sorted({slot for mix, _ in drawn for slot in mix.pieces} | {0})
        machines = {slot: await _boot(stack, pool, slot, cpus, folder) for slot in slots}
        if pool.base != pool:
            machines[_ALONE] = await _boot(stack, pool, _ALONE, cpus[: pool.base.cpus], folder)
        await asyncio.sleep(_SETTLE_S)
        measuring = PoolMeasuring(machines, cpus, folder)
        for mix, repetition in drawn:
            found = await measuring.block(mix, window_s, repetition)
            yield {"pool": pool.name, "repetition": repetition, "mix": mix.name, **found}


async def _boot(stack: AsyncExitStack, pool: Pool, slot: int, cpus: tuple[int, ...], folder: Path) -> Machine:
    own = folder / f"slot-{slot}"
    await asyncio.to_thread(own.mkdir)
    guest = SLOTS[slot] if slot != _ALONE else SLOTS[0]
    request = MachineRequest(
        vcpu_cpus=(cpus,), housekeeping_cpus=cpus, folder=own, group=f"slot-{slot}", realtime=False,
        share=Share(weight=guest.weight, quota_percent=guest.quota_percent), memory_bytes=256 << 20,
    )  # fmt: skip
    return await stack.enter_async_context(registry.find(pool.platform).boot(request))


def _seconds(reading: Reading) -> float | None:
    with suppress(ValueError):
        return None if isinstance(reading, Absent) else int(str(reading.value)) / 1e9
    return None
