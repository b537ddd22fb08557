"""How often the verdicts on known mixes of real guests are wrong, or are not given.

Guests of User-Mode Linux, one virtual CPU each. Each mix is watched once, and judged by stretches of ten samples, a
second apart, which have none in common. The host must be quiet: what else runs on it belongs to its provisioning.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from stealtime.capacity.collector import Collector
from stealtime.capacity.gather import uses_beside
from stealtime.capacity.guests.view import GuestViews
from stealtime.capacity.judgement import judge
from stealtime.capacity.rules import load_rules
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.model import Machine, MachineRequest
from stealtime.wire.message import CpuLoad, LoadRequest

CPUS = sorted(os.sched_getaffinity(0))
FIRST, LAST = CPUS[0], CPUS[-1]


@dataclass(frozen=True)
class Mix:
    """Guests, each with its CPU and its busy threads, and what must be said of the host and of each of them."""

    name: str
    guests: tuple[tuple[int, int], ...]
    host: str
    each: str


MIXES = (
    Mix("two guests that idle", ((FIRST, 0), (LAST, 0)), "over-provisioned host", "efficiently provisioned"),
    Mix("two busy guests on one CPU", ((LAST, 1), (LAST, 1)), "over-committed host", "over-committed host"),
    Mix("a busy guest with six threads", ((LAST, 6),), "efficiently provisioned", "under-provisioned guest"),
    Mix("a busy guest with one thread", ((LAST, 1),), "efficiently provisioned", "efficiently provisioned"),
)


async def boot(stack: AsyncExitStack, folder: Path, cpu: int, threads: int) -> Machine:
    await asyncio.to_thread(folder.mkdir)
    request = MachineRequest(vcpu_cpus=((cpu,),), housekeeping_cpus=(FIRST,), folder=folder, memory_bytes=128 << 20)
    machine = await stack.enter_async_context(registry.find("uml").boot(request))
    if threads:
        await machine.connection.start_load(0, LoadRequest(kind=CpuLoad(), threads=threads))
    return machine


async def watch(mix: Mix, stretches: int, folder: Path) -> tuple[Counter[str], Counter[str]]:
    rules = load_rules()
    hosts: Counter[str] = Counter()
    guests: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        for number, (cpu, threads) in enumerate(mix.guests):
            await boot(stack, folder / f"{mix.name}-{number}", cpu, threads)
        await asyncio.sleep(2)  # what the boots left behind
        views = GuestViews({})
        stack.callback(views.close)
        collector = stack.enter_context(Collector(guest_view=views.of))
        seen = []
        async for use in uses_beside(collector, 1.0):
            seen.append(use)
            if len(seen) % rules.minimum_samples == 0:
                host, each = judge(seen[-rules.minimum_samples :], rules)
                hosts[host.verdict] += 1
                guests.update(one.verdict for one in each)
                if sum(hosts.values()) == stretches:
                    break
    return hosts, guests


def told(expected: str, found: Counter[str]) -> tuple[str, bool]:
    total = found.total()
    wrong = total - found[expected] - found["not judged"]
    others = ", ".join(f"{verdict} {count}" for verdict, count in found.items() if verdict != expected)
    return f"{found[expected]} of {total} {expected}{f'; {others}' if others else ''}", wrong == 0


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stretches", type=int, default=10)
    options = parser.parse_args()
    is_right = True
    with tempfile.TemporaryDirectory() as folder:
        for mix in MIXES:
            hosts, guests = await watch(mix, options.stretches, Path(folder))
            (host_line, host_right), (guest_line, guests_right) = told(mix.host, hosts), told(mix.each, guests)
            is_right &= host_right and guests_right
            print(f"{mix.name}\n  host:   {host_line}\n  guests: {guest_line}")
    print(f"wrong verdicts: {'none' if is_right else 'some'}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
