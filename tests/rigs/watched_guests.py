"""Guests whose counters are read: which they are, how they win against whatever else runs here, and what they do."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from stealtime.capacity.collector import Collector
from stealtime.lab.platforms.model import Machine
from stealtime.wire.message import ContendProbe, RunTrial

_LONGEST_S = 600
_COLLECTION_BYTES = 1 << 20


def ours(collector: Collector, *machines: Machine) -> dict[tuple[int, int], int]:
    """Give the keys of our own guests, with the number of the machine: others may run on this host."""
    threads = {thread.tid: number for number, machine in enumerate(machines) for thread in machine.threads()}
    return {key: threads[guest.pid] for key, (guest, _) in collector.threads().items() if guest.pid in threads}


def prefer(machine: Machine) -> None:
    """Let a guest win against whatever else runs here."""
    for thread in machine.threads():
        prefer_thread(thread.tid)


def prefer_thread(tid: int) -> None:
    """Let a thread win: that of a guest, or who watches guests that leave nothing to others."""
    os.setpriority(os.PRIO_PROCESS, tid, -20)
    # Where sessions are scheduled as groups (sched(7), autogroups) that counts within the group only.
    autogroup = Path(f"/proc/{tid}/autogroup")
    if autogroup.exists():
        autogroup.write_text("-20")


def move(machine: Machine, cpu: int) -> None:
    """Let all threads of a guest run on one other CPU."""
    for thread in machine.threads():
        os.sched_setaffinity(thread.tid, {cpu})


@asynccontextmanager
async def faulting(machine: Machine, folder: Path, *, sleep_ns: int = 0) -> AsyncIterator[None]:
    """Let one task in a guest map memory, fill it and give it back, as the work of the study `stretch` does.

    Args:
        machine: The guest.
        folder: For what its agent sends; it is made.
        sleep_ns: How long it sleeps after each MiB in the mean, exponentially spread.
    """
    await asyncio.to_thread(folder.mkdir)
    probe = ContendProbe(
        tasks=1,
        iterations=1_000_000,
        collection_bytes=_COLLECTION_BYTES,
        searches=3,
        io_mean_ns=sleep_ns,
        io_spread_percent=100 if sleep_ns else 0,
        lock_percent=0,
        lock_searches=1,
        seed=1,
        each_iteration=False,
    )
    request = RunTrial(trial=1, probe=probe, cpus=[0], priority=0, duration_ns=_LONGEST_S * 10**9)
    work = asyncio.create_task(machine.connection.run_trial(request, folder, deadline_s=_LONGEST_S + 60, needs=()))
    try:
        yield
    finally:
        await machine.connection.cancel()
        await work
