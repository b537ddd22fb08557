"""Whether virtual CPUs stay on the CPUs that they were put on while a trial runs.

A cpuset that shrinks or somebody's ``taskset`` moves their threads without a word to anybody, and the trial goes on
somewhere else, perhaps where something else runs. The agent looks after the threads that measure inside a machine
(``crates/probe/src/place_watch.rs``).
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from stealtime.campaigns.booted import TrialSetup
from stealtime.lab.platforms.affinity import HostThread
from stealtime.lab.platforms.model import Machine
from stealtime.vocabulary.cpu_lists import format_cpus, parse_cpu_list
from stealtime.vocabulary.findings import Finding

PROC = Path("/proc")
"""Where the kernel shows threads; another one in tests whose machines have none."""
_EVERY_S = 1.0
"""Each look reads a page a virtual CPU, on a CPU that is not measured."""


@dataclass(frozen=True)
class _Vcpu:
    owner: str
    name: str
    tid: int
    """As ``/proc`` shows it."""
    cpus: tuple[int, ...]
    migrations: int | None
    """How often the kernel had moved it when the trial began, where it tells."""


@dataclass
class Staying:
    """The virtual CPUs of a trial, and what became of them."""

    vcpus: list[_Vcpu]
    proc: Path = PROC
    finding: Finding | None = None
    """Of the first that did not stay."""
    _began_s: float = field(default_factory=time.monotonic)
    _seen_s: float = 0.0
    """When all were where they belong, since the beginning."""

    @classmethod
    def begin(cls, owners: Iterable[tuple[str, list[HostThread]]], proc: Path = PROC) -> Self:
        """Note where the virtual CPUs of some machines are.

        Args:
            owners: What each machine is called, and its threads as they were pinned.
            proc: Where ``/proc`` is.
        """
        vcpus = [
            _Vcpu(owner, thread.name, thread.tid, thread.cpus, _migrations(proc, thread.tid))
            for owner, threads in owners
            for thread in threads
            if thread.role == "vcpu"
        ]
        return cls(vcpus, proc)

    def look(self) -> None:
        """See whether all may still run where they did, and nowhere else."""
        now_s = time.monotonic() - self._began_s
        for vcpu in self.vcpus:
            cpus = _allowed(self.proc, vcpu.tid)
            if self.finding is None and cpus is not None and cpus != vcpu.cpus:
                self._found(
                    vcpu,
                    f"was put on CPU {format_cpus(cpus)} instead between {self._seen_s:.1f} s and {now_s:.1f} s after "
                    "the trial began",
                )
        self._seen_s = now_s

    def end(self) -> None:
        """See besides whether one that is pinned to one CPU was away and is back."""
        self.look()
        for vcpu in self.vcpus:
            after = _migrations(self.proc, vcpu.tid)
            if vcpu.migrations is None or after is None or len(vcpu.cpus) > 1:
                continue
            if self.finding is None and after > vcpu.migrations:
                times = after - vcpu.migrations
                self._found(vcpu, f"was moved {times} times by the kernel meanwhile, when is not known")

    def _found(self, vcpu: _Vcpu, what: str) -> None:
        self.finding = Finding(
            code="cpu_changed",
            level="invalidates",
            text=f"the vCPU thread {vcpu.name} of {vcpu.owner} was to run on CPU {format_cpus(vcpu.cpus)}, and {what}",
            hint="a cpuset or a taskset was changed under the trial: measure again when nobody does",
        )


@asynccontextmanager
async def staying(machine: Machine, setup: TrialSetup) -> AsyncIterator[Staying]:
    """Look after the virtual CPUs of a machine and its neighbours; the finding is there when the context is left."""
    owners = [("the machine", machine.threads())]
    owners += [(neighbour.name, neighbour.machine.threads()) for neighbour in setup.neighbours.all]
    stays = Staying.begin(owners, PROC)
    measured = {cpu for cpus in setup.placement.vcpu_cpus for cpu in cpus}
    # Where the control plane shares the measured CPU it keeps still: then the end alone tells.
    is_apart = not measured & set(setup.placement.housekeeping_cpus)
    looking = asyncio.ensure_future(_look_now_and_then(stays)) if stays.vcpus and is_apart else None
    try:
        yield stays
    finally:
        if looking is not None:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
        stays.end()


async def _look_now_and_then(stays: Staying) -> None:
    while stays.finding is None:
        await asyncio.sleep(_EVERY_S)
        stays.look()


def _allowed(proc: Path, tid: int) -> tuple[int, ...] | None:
    """Read where a thread may run; None if it is gone, which others tell."""
    return next((tuple(parse_cpu_list(value)) for value in _values(proc, tid, "status", "Cpus_allowed_list")), None)


def _migrations(proc: Path, tid: int) -> int | None:
    """Read how often the kernel has moved a thread, where it tells (``CONFIG_SCHED_DEBUG``)."""
    return next((int(value) for value in _values(proc, tid, "sched", "se.nr_migrations")), None)


def _values(proc: Path, tid: int, file: str, name: str) -> Iterable[str]:
    try:
        text = (proc / str(tid) / file).read_text()
    except OSError:
        return
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            yield value.strip()
