"""Names the neighbours of the guests that a collector sees, for as long as somebody watches."""

import asyncio
import os
from collections.abc import Callable, Mapping

from stealtime.capacity.collector import Collector
from stealtime.capacity.watch.neighbours import follow
from stealtime.capacity.watch.state import Neighbours
from stealtime.vocabulary.readings import Absent


async def follow_neighbours(collector: Collector, tell: Callable[[Neighbours], None]) -> None:
    """Name neighbours until cancelled; whatever stops that is told, and stops nothing else."""
    await asyncio.sleep(0.5)  # the first sample tells which guests there are
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    try:
        await follow(lambda: _vcpus(collector), lambda: _members(collector), tell, cpus)
    except Exception as error:
        tell(Neighbours(absent=Absent(absent=f"tracing ended: {error}")))


def _vcpus(collector: Collector) -> dict[tuple[str, int], set[int]]:
    vcpus: dict[tuple[str, int], set[int]] = {}
    for guest, threads in collector.threads().values():
        for thread in threads:
            if thread.vcpu is not None:
                vcpus.setdefault((guest.name, thread.vcpu), set()).add(thread.tid)
    return vcpus


def _members(collector: Collector) -> Mapping[int, str]:
    return {thread.tid: guest.name for guest, threads in collector.threads().values() for thread in threads}
