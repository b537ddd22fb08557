"""How often the verdicts on known mixes of real guests are wrong, or are not given.

Guests of User-Mode Linux, one virtual CPU each. Each mix is watched once, and judged by stretches of ten samples, a
second apart, which have none in common. What else runs on the host belongs to its provisioning, so it is told how much
that was; busy guests win against it, an idle host cannot be had beside it. A false alarm is a verdict that asks for a
change where none is due. It fails where the counts contradict the rates that are claimed: below that, a single wrong
verdict is a count and no proof.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/rigs"))

from scipy.stats import binomtest
from watched_guests import faulting, ours, prefer, prefer_thread

from stealtime.capacity.collector import Collector
from stealtime.capacity.gather import uses_beside
from stealtime.capacity.guests.view import GuestViews
from stealtime.capacity.judgement import judge
from stealtime.capacity.rules import load_rules
from stealtime.capacity.use import Use
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.model import Machine, MachineRequest
from stealtime.vocabulary.readings import Absent
from stealtime.wire.load import CpuLoad, LoadRequest

CPUS = sorted(os.sched_getaffinity(0))
FIRST, LAST = (CPUS[0],), (CPUS[-1],)
BOTH = (CPUS[0], CPUS[-1])

QUIET = ("efficiently provisioned", "not judged")
"""Verdicts that ask for nothing."""

MOST_ALARMS = 0.05
FEWEST_FOUND = 0.95
"""The rates that docs/capacity.md claims."""


@dataclass(frozen=True)
class Busy:
    """What a guest does, and where it may."""

    cpus: tuple[int, ...]
    threads: int = 0
    """How many of it compute."""
    faults: bool = False
    """Whether a task of it has pages mapped without end: its processes hand its virtual CPU to each other ..."""
    sleep_ns: int = 0
    """... and how long it sleeps now and then."""


@dataclass(frozen=True)
class Mix:
    """Guests, and what must be said of the host and of each of them."""

    name: str
    guests: tuple[Busy, ...]
    host: str
    each: str


OVER_COMMITTED, FITTING = ("over-committed host",) * 2, ("efficiently provisioned",) * 2
FAULTING = Busy(LAST, faults=True)
NAPPING = Busy(LAST, faults=True, sleep_ns=5_000_000)
ROAMING = Busy(BOTH, faults=True)
MIXES = (
    Mix("two guests that idle", (Busy(FIRST), Busy(LAST)), "over-provisioned host", "efficiently provisioned"),
    Mix("two busy guests on one CPU", (Busy(LAST, threads=1),) * 2, *OVER_COMMITTED),
    Mix("a busy guest with six threads", (Busy(LAST, 6),), "efficiently provisioned", "under-provisioned guest"),
    Mix("a busy guest with one thread", (Busy(LAST, 1),), *FITTING),
    Mix("two guests that fault on one CPU", (FAULTING,) * 2, *OVER_COMMITTED),
    Mix("two guests that fault and sleep on one CPU", (NAPPING,) * 2, *OVER_COMMITTED),
    Mix("four guests that fault and roam over two CPUs", (ROAMING,) * 4, *OVER_COMMITTED),
    Mix("a guest that faults", (FAULTING,), *FITTING),
    Mix("a guest that faults and sleeps", (NAPPING,), *FITTING),
    Mix("a guest that faults and roams over two CPUs", (ROAMING,), *FITTING),
    Mix("two guests that fault and roam over two CPUs", (ROAMING,) * 2, *FITTING),
)


async def boot(stack: AsyncExitStack, folder: Path, cpus: tuple[int, ...]) -> Machine:
    await asyncio.to_thread(folder.mkdir)
    request = MachineRequest(vcpu_cpus=(cpus,), housekeeping_cpus=FIRST, folder=folder, memory_bytes=128 << 20)
    return await stack.enter_async_context(registry.find("uml").boot(request))


async def begin(stack: AsyncExitStack, machine: Machine, busy: Busy, folder: Path) -> None:
    if busy.threads or busy.faults:
        prefer(machine)
    if busy.threads:
        await machine.connection.start_load(0, LoadRequest(kind=CpuLoad(), threads=busy.threads))
    if busy.faults:
        await stack.enter_async_context(faulting(machine, folder, sleep_ns=busy.sleep_ns))


@dataclass
class Tally:
    """What came of all verdicts."""

    verdicts: int = 0
    right: int = 0
    due: int = 0
    """Verdicts that should have asked for a change ..."""
    found: int = 0
    """... and did, for the right one."""
    quiet: int = 0
    """Verdicts that should have asked for nothing ..."""
    alarms: int = 0
    """... and did not."""

    def add(self, expected: str, given: Counter[str]) -> None:
        self.verdicts += given.total()
        self.right += given[expected]
        if expected in QUIET:
            self.quiet += given.total()
            self.alarms += given.total() - sum(given[one] for one in QUIET)
        else:
            self.due += given.total()
            self.found += given[expected]


def taken_by_others_percent(use: Use) -> float:
    """Give what no guest used of the host's CPUs, in percent of one."""
    assert not isinstance(use.cpus, Absent)
    busy = sum(one.busy_percent for one in use.cpus.values() if not isinstance(one.busy_percent, Absent))
    guests = sum(vcpu.run_percent for guest in use.guests.values() for vcpu in guest.vcpus.values())
    return max(0.0, busy - guests)


def host_busy_percent(use: Use) -> float:
    """Give how busy the host's CPUs are on average."""
    assert not isinstance(use.cpus, Absent)
    return fmean(one.busy_percent for one in use.cpus.values() if not isinstance(one.busy_percent, Absent))


def interval(count: int, of: int) -> tuple[float, float]:
    """Give the exact interval of 95 % of a share (C. Clopper and E. Pearson, Biometrika 26, 1934); all, of nothing."""
    if of == 0:
        return 0.0, 1.0
    found = binomtest(count, of).proportion_ci(0.95, method="exact")
    return float(found.low), float(found.high)


def rate(count: int, of: int) -> str:
    if of == 0:
        return "not looked at"
    low, high = interval(count, of)
    return f"{count} of {of} ({100 * count / of:.1f} %, interval {100 * low:.1f} to {100 * high:.1f} %)"


async def watch(mix: Mix, stretches: int, folder: Path) -> tuple[Counter[str], Counter[str], list[Use]]:
    rules = load_rules()
    hosts: Counter[str] = Counter()
    guests: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        prefix = f"{MIXES.index(mix)}-"
        # All have booted before one is preferred: it leaves nothing to do so with.
        machines = [
            await boot(stack, folder / f"{prefix}{number}", busy.cpus) for number, busy in enumerate(mix.guests)
        ]
        for number, (machine, busy) in enumerate(zip(machines, mix.guests, strict=True)):
            await begin(stack, machine, busy, folder / f"{prefix}{number}-work")
        await asyncio.sleep(2)  # what the boots left behind
        views = GuestViews({})
        stack.callback(views.close)
        collector = stack.enter_context(Collector(guest_view=views.of))
        seen: list[Use] = []
        async for use in uses_beside(collector, 1.0):
            keys = ours(collector, *machines)
            seen.append(replace(use, guests={key: one for key, one in use.guests.items() if key in keys}))
            if len(seen) % rules.minimum_samples == 0:
                host, each = judge(seen[-rules.minimum_samples :], rules)
                hosts[host.verdict] += 1
                guests.update(one.verdict for one in each)
                if sum(hosts.values()) == stretches:
                    break
    return hosts, guests, seen


def told(expected: str, found: Counter[str]) -> str:
    others = ", ".join(f"{verdict} {count}" for verdict, count in found.items() if verdict != expected)
    return f"{found[expected]} of {found.total()} {expected}{f'; {others}' if others else ''}"


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stretches", type=int, default=10)
    parser.add_argument("--mix", choices=[mix.name for mix in MIXES], action="append", help="only these")
    options = parser.parse_args()
    tally = Tally()
    prefer_thread(os.getpid())  # guests that take all CPUs would leave nothing to who watches them
    with tempfile.TemporaryDirectory() as folder:
        for mix in (one for one in MIXES if not options.mix or one.name in options.mix):
            hosts, guests, seen = await watch(mix, options.stretches, Path(folder))
            tally.add(mix.host, hosts)
            tally.add(mix.each, guests)
            print(f"{mix.name}\n  host:   {told(mix.host, hosts)}\n  guests: {told(mix.each, guests)}")
            others = [taken_by_others_percent(one) for one in seen]
            busy = fmean(host_busy_percent(one) for one in seen)
            print(f"  the host's CPUs: {busy:.0f} % busy in the mean of {len(seen)} s")
            busiest = f"{max(others):.0f} % in the busiest second"
            print(f"  no guest: {fmean(others):.1f} % of a CPU in the mean, {busiest}", flush=True)
    print(f"false alarms where none is due: {rate(tally.alarms, tally.quiet)}")
    print(f"changes that are due and were asked for: {rate(tally.found, tally.due)}")
    print(f"right: {rate(tally.right, tally.verdicts)}")
    # All mixes together have verdicts of both kinds: without them nothing was shown.
    is_empty = not options.mix and not (tally.quiet and tally.due)
    too_many = is_empty or interval(tally.alarms, tally.quiet)[0] > MOST_ALARMS
    too_few = is_empty or interval(tally.found, tally.due)[1] < FEWEST_FOUND
    print(f"target: at most {MOST_ALARMS:.0%} false alarms: {'missed' if too_many else 'not contradicted'}")
    print(f"target: at least {FEWEST_FOUND:.0%} found: {'missed' if too_few else 'not contradicted'}")
    return 1 if too_many or too_few else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
