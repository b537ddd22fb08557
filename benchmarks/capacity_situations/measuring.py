"""Boots guests, lets them work alone and together, and keeps how long a burst took inside beside the host's counters.

The *stretch* of a guest is how long a burst took in the situation over how long the same took in the same guest alone,
just before. Both are told by the guest's own clock, and the pauses that it asked for are taken out: what it waited to
be put on a CPU after a pause is not. No counter of the host has a part in it.

*Alone* means beside no other guest of ours. Whether it was alone is told by the kernel: how much of the CPU time that
its virtual CPUs wanted then they waited for. With much waiting the base is not that of a guest that has a CPU.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from watched_guests import ours, prefer, prefer_thread

from capacity_situations.replaying import written
from capacity_situations.situations import HELD_OUT, KIB, PIECES, Hog, Piece, Situation, Where
from capacity_situations.tally import BASE_WAITED_FROM
from stealtime.capacity.collector import Collector
from stealtime.capacity.counters.parsers import parse_schedstat
from stealtime.capacity.gather import uses_beside
from stealtime.capacity.guests.view import GuestViews
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.affinity import pin_thread
from stealtime.lab.platforms.model import Machine, MachineRequest
from stealtime.lab.platforms.share import Share
from stealtime.wire.message import ContendProbe, RunTrial

SAMPLES = 12
_ALONE_S = 3.0
_TRIES = 4
_SETTLE_S = 1.0
_ANSWER_S = 40.0
_CALIBRATION_S = 1.0
_SMALL_BYTES, _LARGE_BYTES = 64 * KIB, 1024 * KIB
_LARGE_SEARCHES = 3
_ITERATIONS = 20_000
_BURST = """
import time, sys
on, off = (float(word) / 1000 for word in sys.argv[1:])
while True:
    end = time.monotonic() + on
    while time.monotonic() < end:
        pass
    time.sleep(off)
"""


class Alone(NamedTuple):
    """A guest beside no other one."""

    burst_ms: float
    wait_share_percent: float
    """Of the CPU time that its virtual CPUs wanted."""


class Host:
    """CPUs by what situations call them."""

    def __init__(self, cpus: tuple[int, ...]) -> None:
        self._cpus = {"first": cpus[:1], "last": cpus[-1:], "both": (cpus[0], cpus[-1])}

    def __getitem__(self, where: Where) -> tuple[int, ...]:
        return self._cpus[where]


class Pool:
    """Guests of one platform, up; what they do and where they may is changed from situation to situation."""

    def __init__(self, machines: list[Machine], host: Host, folder: Path) -> None:
        self.machines = machines
        self._host = host
        self._folder = folder
        self._trials = 0
        self._searches_per_ms = 0.0

    async def calibrate(self) -> None:
        """Find how much work a millisecond is: under TCG less than natively."""
        number = len(self.machines) - 1  # the first may have a quota
        self._place(number, "last")
        trial = ContendProbe(**_work(_SMALL_BYTES, 2000, 1), io_mean_ns=0, io_spread_percent=0)
        rows, _ = await self._run(number, trial, _CALIBRATION_S)
        self._searches_per_ms = 2000 / (sorted(rows["duration_ns"])[len(rows["duration_ns"]) // 2] / 1e6)

    async def alone(self, number: int, piece: str, where: Where) -> "Alone":
        """Time a burst of a guest beside no other; again where something else took its CPU, and the best is taken."""
        self._place(number, where)
        tries: list[Alone] = []
        while not tries or (tries[-1].wait_share_percent >= BASE_WAITED_FROM and len(tries) < _TRIES):
            before = self._counts(number)
            burst_ms = await self._burst_ms(number, PIECES[piece], _ALONE_S)
            ran_ns, waited_ns = (after - first for after, first in zip(self._counts(number), before, strict=True))
            tries.append(Alone(burst_ms, 100 * waited_ns / max(1, ran_ns + waited_ns)))
        return min(tries, key=lambda one: one.wait_share_percent)

    def _counts(self, number: int) -> tuple[int, int]:
        """Give how long the virtual CPUs ran and waited so far, in ns."""
        vcpus = [one.tid for one in self.machines[number].threads() if one.role == "vcpu"]
        found = [parse_schedstat(Path(f"/proc/{tid}/schedstat").read_bytes()) for tid in vcpus]
        known = [one for one in found if one is not None]
        return sum(one.run_ns for one in known), sum(one.wait_ns for one in known)

    async def measure(self, situation: Situation) -> dict[str, Any]:
        """Let all of a situation work at once, and watch the host meanwhile."""
        own = [(number, one) for number, one in enumerate(situation.guests)]
        alone: dict[tuple[str, Where], Alone] = {}
        for number, one in own:
            if one.piece is not None and (one.piece, one.where) not in alone and situation.quota_percent is None:
                alone[one.piece, one.where] = await self.alone(number, one.piece, one.where)
        if situation.quota_percent is not None:
            # Without the quota: another guest like it.
            alone["busy", "last"] = await self.alone(1, "busy", "last")
        for number in range(len(self.machines)):
            self._place(number, situation.guests[number].where if number < len(own) else "first")
        with ExitStack() as stack:
            for hog in situation.hogs:
                stack.enter_context(_hog(hog, self._host[hog.where]))
            watched_s = SAMPLES + 2 * _SETTLE_S
            working = [
                asyncio.create_task(self._burst_ms(number, PIECES[one.piece], watched_s))
                for number, one in own
                if one.piece is not None
            ]
            await asyncio.sleep(_SETTLE_S)
            uses = await self._watch(len(own))
            together = iter(await asyncio.gather(*working))
        guests = []
        for number, one in own:
            told: dict[str, Any] = {"machine": number, "piece": one.piece, "where": one.where}
            if one.piece is not None:
                base, now_ms = alone[one.piece, one.where], next(together)
                told |= {"alone_ms": round(base.burst_ms, 3), "together_ms": round(now_ms, 3)}
                told |= {"alone_wait_share_percent": round(base.wait_share_percent, 1)}
                told["stretch"] = round(now_ms / base.burst_ms, 3)
            guests.append(told)
        return {"situation": situation.name, "held_out": situation.name in HELD_OUT, "guests": guests, "uses": uses}

    async def _watch(self, guests: int) -> list[Any]:
        views = GuestViews({})
        seen = []
        with Collector(guest_view=views.of) as collector:
            async for use in uses_beside(collector, 1.0):
                numbers = ours(collector, *self.machines[:guests])
                mine = {key: one for key, one in use.guests.items() if key in numbers}
                seen.append(written(replace(use, guests=mine), numbers))
                if len(seen) == SAMPLES:
                    break
        views.close()
        return seen

    async def _burst_ms(self, number: int, piece: Piece, duration_s: float) -> float:
        """Give the mean length of a burst with what it waited, without the pauses it asked for."""
        if piece.faults:
            work = _work(_LARGE_BYTES, _LARGE_SEARCHES, piece.tasks)
        else:
            work = _work(_SMALL_BYTES, max(1, round(piece.work_ms * self._searches_per_ms)), piece.tasks)
        probe = ContendProbe(
            **{**work, "seed": number + 1}, io_mean_ns=round(piece.pause_ms * 1e6), io_spread_percent=50
        )
        rows, io_asked_ns = await self._run(number, probe, duration_s)
        return (sum(rows["duration_ns"]) - io_asked_ns) / len(rows["duration_ns"]) / 1e6

    async def _run(self, number: int, probe: ContendProbe, duration_s: float) -> tuple[dict[str, list[int]], int]:
        machine = self.machines[number]
        self._trials += 1
        # All virtual CPUs of it, where it has several.
        cpus = sorted({*range(probe.tasks), *machine.measured_cpus} if probe.tasks > 1 else machine.measured_cpus)
        request = RunTrial(trial=self._trials, probe=probe, cpus=cpus, priority=0, duration_ns=round(duration_s * 1e9))
        result = await machine.connection.run_trial(
            request, self._folder / f"{number}", deadline_s=duration_s + _ANSWER_S, needs=("iterations",)
        )
        with pa.ipc.open_stream(result.tables["iterations"]) as stream:
            rows = stream.read_all().to_pydict()
        return rows, result.outcome.counters["io_asked_ns"]

    def _place(self, number: int, where: Where) -> None:
        for thread in self.machines[number].threads():
            if thread.role == "vcpu":
                pin_thread(thread.tid, self._host[where])


def _work(collection_bytes: int, searches: int, tasks: int) -> dict[str, Any]:
    return {
        "tasks": tasks, "iterations": _ITERATIONS, "collection_bytes": collection_bytes, "searches": searches,
        "lock_percent": 0, "lock_searches": 1, "seed": 1,
    }  # fmt: skip


class _hog:  # noqa: N801 - used as a function
    def __init__(self, hog: Hog, cpus: tuple[int, ...]) -> None:
        self._argv = ["taskset", "--cpu-list", ",".join(map(str, cpus)), sys.executable, "-c", _BURST]
        self._argv += [str(hog.on_ms), str(hog.off_ms)]

    def __enter__(self) -> None:
        self._process = subprocess.Popen(self._argv, start_new_session=True)
        prefer_thread(self._process.pid)

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


async def measure_all(situations: list[Situation], cpus: tuple[int, ...], data: Path, end_s: float) -> None:
    """Measure situations of one platform, number of virtual CPUs and quota, on guests that are booted once.

    Args:
        situations: Which.
        cpus: Of the host.
        data: A line is added to it for each.
        end_s: No further one is begun after this moment of the monotonic clock.
    """
    host = Host(cpus)
    first = situations[0]
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        machines = []
        # One more than are needed where the first has a quota: how long a burst takes alone is not asked under it.
        needed = max(2 if one.quota_percent is not None else len(one.guests) for one in situations)
        for number in range(needed):
            is_held = first.quota_percent is not None and number == 0
            own = folder / f"{number}"
            await asyncio.to_thread(own.mkdir)
            request = MachineRequest(
                vcpu_cpus=(host["last"],) * first.vcpus, housekeeping_cpus=host["first"], folder=own,
                memory_bytes=128 << 20, realtime=False, group=f"situation-{number}",
                share=Share(quota_percent=first.quota_percent, weight=10_000) if is_held else None,
            )  # fmt: skip
            machines.append(await stack.enter_async_context(registry.find(first.platform).boot(request)))
        for machine in machines:
            prefer(machine)
        await asyncio.sleep(_SETTLE_S)
        pool = Pool(machines, host, folder)
        await pool.calibrate()
        for situation in situations:
            if time.monotonic() > end_s:
                return
            line = await pool.measure(situation)
            with data.open("a") as file:
                file.write(f"{json.dumps(line, separators=(',', ':'))}\n")
            told = [one.get("stretch") for one in line["guests"]]
            print(f"{situation.name}: {told}", file=sys.stderr, flush=True)
