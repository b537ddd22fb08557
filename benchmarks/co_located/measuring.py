"""Boots a pool's guests and lets them work, alone and together.

All of a mix work for the same time, not the same amount: so each has all others beside it all the time. How fast one
is is counted in iterations, of which those that lie only partly in the window count by the part that does. The window
begins and ends a tenth of the time within it, because machines do not begin at the same moment.
"""

import asyncio
import random
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from co_located.mixes import PIECES, SLOTS, Mix, Pool
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.host_views import between, look
from stealtime.lab.platforms.model import Machine, MachineRequest
from stealtime.lab.platforms.share import Share
from stealtime.vocabulary.readings import Absent, Reading
from stealtime.wire.message import RunTrial

_ANSWER_S = 30.0
_SETTLE_S = 1.0
_MARGIN = 0.1
"""Of the time, at its begin and its end."""


@dataclass(frozen=True)
class Effort:
    """How long and how often."""

    mix_s: float
    alone_s: float
    alone_times: int
    """In each repetition, at moments far from each other: all stretches of a pool stand on it."""
    repetitions: int


def rate_per_s(starts_ns: NDArray[np.int64], durations_ns: NDArray[np.int64], begin_ns: float, end_ns: float) -> float:
    """Count iterations between two moments, each by the part of it that lies there.

    Args:
        starts_ns: Of each iteration of all tasks.
        durations_ns: The same.
        begin_ns: Of the window.
        end_ns: Of the window.
    """
    inside = np.minimum(starts_ns + durations_ns, end_ns) - np.maximum(starts_ns, begin_ns)
    return float(np.sum(np.maximum(inside, 0) / durations_ns) / (end_ns - begin_ns) * 1e9)


class PoolMeasuring:
    """The guests of one pool, up."""

    def __init__(self, machines: list[Machine], cpus: tuple[int, ...], folder: Path) -> None:
        self._machines = machines
        self._cpus = cpus
        self._folder = folder
        self._trials = 0

    async def measure(self, pieces: Mapping[int, str], duration_s: float) -> dict[str, Any]:
        """Let pieces run at once, and give what each slot achieved and what the host's own host took meanwhile."""
        host_before = look([], self._cpus)
        done = await asyncio.gather(*(self._one(slot, piece, duration_s) for slot, piece in pieces.items()))
        stolen_ns = between(host_before, look([], self._cpus)).steal_ns
        return {
            "duration_s": duration_s,
            "host_steal_s": _seconds(stolen_ns),
            "guests": {str(slot): one for slot, one in zip(pieces, done, strict=True)},
        }

    async def _one(self, slot: int, piece: str, duration_s: float) -> dict[str, Any]:
        machine = self._machines[slot]
        self._trials += 1
        trial = self._trials
        threads = [thread.tid for thread in machine.threads() if thread.role == "vcpu"]
        request = RunTrial(
            trial=trial, probe=PIECES[piece], cpus=list(machine.measured_cpus), priority=0,
            duration_ns=round(duration_s * 1e9),
        )  # fmt: skip
        before = look(threads, ())
        result = await machine.connection.run_trial(
            request, self._folder / f"slot-{slot}", deadline_s=duration_s + _ANSWER_S, needs=("iterations",)
        )
        ran = between(before, look(threads, ()))
        with pa.ipc.open_stream(result.tables["iterations"]) as stream:
            rows = stream.read_all()
        counters = result.outcome.counters
        margin_ns = duration_s * 1e9 * _MARGIN
        rate = rate_per_s(
            rows["start_ns"].to_numpy().astype(np.int64),
            rows["duration_ns"].to_numpy().astype(np.int64),
            margin_ns,
            duration_s * 1e9 - margin_ns,
        )
        if counters["iterations"] == PIECES[piece].tasks * PIECES[piece].iterations:
            raise SystemExit(f"the piece {piece} ended before its time: give it more iterations")
        return {
            "piece": piece,
            "rate_per_s": rate,
            "iterations": counters["iterations"],
            "cpu_s": counters["cpu_ns"] / 1e9,
            "io_asked_s": counters["io_asked_ns"] / 1e9,
            "host_run_s": _seconds(ran.run_ns),
        }


async def measure_pool(pool: Pool, drawn: list[Mix], cpus: tuple[int, ...], effort: Effort) -> list[dict[str, Any]]:
    """Measure all mixes of a pool, the repetitions in turn, and each piece alone where that is the base of others.

    Args:
        pool: Whose guests are booted.
        drawn: Its mixes.
        cpus: Of the host, which all share.
        effort: How long and how often.

    Returns:
        An entry for each piece or mix and repetition.
    """
    alone = list(PIECES) if pool.base == pool else []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        machines = [await _boot(stack, pool, slot, cpus, folder) for slot in range(len(SLOTS))]
        await asyncio.sleep(_SETTLE_S)
        measuring = PoolMeasuring(machines, cpus, folder)
        lines: list[dict[str, Any]] = []
        for repetition in range(1, effort.repetitions + 1):
            todo: list[str | Mix] = [*alone * effort.alone_times, *drawn]
            random.Random(repetition).shuffle(todo)  # noqa: S311 - the order, not a secret
            for one in todo:
                what = {"pool": pool.name, "repetition": repetition}
                if isinstance(one, Mix):
                    found = await measuring.measure(one.pieces, effort.mix_s)
                    lines.append({**what, "mix": one.name, "role": one.role, **found})
                else:
                    found = await measuring.measure({0: one}, effort.alone_s)
                    lines.append({**what, "mix": None, **found})
    return lines


async def _boot(stack: AsyncExitStack, pool: Pool, slot: int, cpus: tuple[int, ...], folder: Path) -> Machine:
    own = folder / f"slot-{slot}"
    await asyncio.to_thread(own.mkdir)
    share = Share(weight=SLOTS[slot].weight, quota_percent=SLOTS[slot].quota_percent)
    request = MachineRequest(
        vcpu_cpus=(cpus,), housekeeping_cpus=cpus, folder=own, share=share, group=f"slot-{slot}", realtime=False,
        memory_bytes=192 << 20,
    )  # fmt: skip
    return await stack.enter_async_context(registry.find(pool.platform).boot(request))


def _seconds(reading: Reading) -> float | None:
    return None if isinstance(reading, Absent) else int(str(reading.value)) / 1e9
