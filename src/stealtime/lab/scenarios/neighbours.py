"""The neighbours of a machine under test: booted beside it, loaded during each trial, watched all the time.

A neighbour is a machine of the same platform, or a process of the host. Natively both are a process: an agent of its
own. It has a load of its own, or does the same work as the machine under test. What a load achieves and when it was on
comes back in the counter of its own machine, with an alignment from before and after, so that it can be put on the
host's time line.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from stealtime.lab.platforms.affinity import HostThread
from stealtime.lab.platforms.host_views import HostDelays, HostLook, between, look
from stealtime.lab.platforms.model import Machine, MachineRequest, Platform
from stealtime.lab.platforms.native import NativePlatform
from stealtime.lab.platforms.share import Share
from stealtime.lab.platforms.throttling import Throttling, throttling_between
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.neighbour_load import (
    Loaded,
    LoadOn,
    guest_memory_bytes,
    load_request,
    refuse_too_much_memory,
)
from stealtime.lab.scenarios.neighbour_work import Work, Worked, WorkOn, own_work
from stealtime.lab.scenarios.placement import SAME_WORK, PlacedNeighbour, Placement
from stealtime.vocabulary.alignment import Alignment
from stealtime.vocabulary.cpu_lists import format_cpus
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.findings import Finding

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class NeighbourResult:
    """What one neighbour did during one trial."""

    name: str
    number: int
    """From 1."""
    kind: Literal["machine", "process"]
    platform: str
    """Of the neighbour itself; ``native`` for a process of this host."""
    cpus: tuple[int, ...]
    """Of the host."""
    share: Share | None
    vcpus: int
    did: Loaded | Worked
    before: Alignment
    """Of its clock with the host's, just before the load was started."""
    after: Alignment
    threads: tuple[HostThread, ...]
    """Of the host, read back while the load was on."""
    throttling: Throttling | None
    """What its quota held back during the trial; None without a share."""
    delays: HostDelays
    """What the host's kernel counted for its virtual CPUs meanwhile."""


@dataclass(frozen=True)
class _Counts:
    """What the host's kernel has counted for a neighbour."""

    look: HostLook
    throttling: Throttling | None


@dataclass(frozen=True)
class _Running:
    """What was begun and not yet ended."""

    doing: LoadOn | WorkOn
    before: Alignment
    threads: tuple[HostThread, ...]
    began: _Counts


class Neighbour:
    """One neighbour that is up."""

    def __init__(self, number: int, placed: PlacedNeighbour, machine: Machine, kind: Literal["machine", "process"]):
        self.number = number
        self.placed = placed
        self.machine = machine
        self.kind = kind
        self._running: _Running | None = None
        self._measured: _Counts | None = None
        """When it had done the work; None before, and where it has a load."""

    @property
    def name(self) -> str:
        return self.placed.name

    @property
    def words(self) -> str:
        return f"{self.name} ({'a process' if self.kind == 'process' else self.machine.platform})"

    def threads(self) -> list[HostThread]:
        return [replace(thread, role="neighbour") for thread in self.machine.threads()]

    async def start(self, work: Work, folder: Path) -> None:
        """Start its load, or get ready for the work."""
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        before = await self.machine.connection.exchange_clocks()
        began = self._count([thread.tid for thread in self.machine.threads() if thread.role == "vcpu"])
        doing = await self._start(work, folder)
        self._measured = None
        self._running = _Running(doing, before, tuple(self.threads()), began)

    async def _start(self, work: Work, folder: Path) -> LoadOn | WorkOn:
        connection = self.machine.connection
        if self.placed.load == SAME_WORK:
            return WorkOn(connection, own_work(work, self.placed, self.machine), folder, self._on_measured)
        trial, load = work.request.trial, load_request(self.placed, self.machine.measured_cpus)
        await connection.start_load(trial, load)
        return LoadOn(connection, load, trial, folder)

    async def _on_measured(self) -> None:
        if self._running is not None:
            self._measured = self._count(self._running.began.look.run_ns)

    def begin_work(self) -> None:
        if self._running is not None and isinstance(self._running.doing, WorkOn):
            self._running.doing.begin()

    async def stop(self, *, is_whole: bool) -> NeighbourResult:
        """Stop its load and take what it recorded, or wait until its work is done.

        Args:
            is_whole: Whether the machine under test has done its own.
        """
        running = self._running
        if running is None:
            raise StealtimeError(f"{self.words} has nothing to stop")
        try:
            did = await running.doing.end(is_whole=is_whole)
        finally:
            self._running = None
        began, ended = running.began, self._measured or self._count(running.began.look.run_ns)
        throttling = None
        if began.throttling is not None and ended.throttling is not None:
            throttling = throttling_between(began.throttling, ended.throttling)
        return NeighbourResult(
            name=self.name,
            number=self.number,
            kind=self.kind,
            platform=self.machine.platform,
            cpus=self.placed.cpus,
            share=self.placed.share,
            vcpus=self.placed.vcpus,
            did=did,
            before=running.before,
            after=await self.machine.connection.exchange_clocks(),
            threads=running.threads,
            throttling=throttling,
            delays=between(began.look, ended.look),
        )

    def _count(self, threads: Iterable[int]) -> _Counts:
        group = self.machine.cpu_group
        return _Counts(look(threads, self.placed.cpus), None if group is None else group.read_throttling())


class Neighbours:
    """All neighbours of a machine under test, in order; none where the scenario has none."""

    def __init__(self, neighbours: list[Neighbour], findings: tuple[Finding, ...] = ()) -> None:
        self.all = tuple(neighbours)
        self.findings = findings
        """What a reader of every result beside these neighbours must know."""

    async def start(self, work: Work, folder: Path) -> None:
        """Start all loads, which run until :meth:`stop`, and get ready for the work.

        Args:
            work: Of the machine under test, for those that do the same.
            folder: Where tables are put, in one folder for each neighbour.

        Raises:
            StealtimeError: One did not start; the message names it.
        """
        starting = [(each, each.start(work, folder / f"neighbour-{each.number}")) for each in self.all]
        await _for_each(starting, "did not start")

    def begin_work(self) -> None:
        """Begin the work of all that do the same as the machine under test, at once, after :meth:`start`."""
        for each in self.all:
            each.begin_work()

    async def stop(self, *, is_whole: bool) -> list[NeighbourResult]:
        """Stop all loads and take what they recorded; wait for those that do the same work.

        Args:
            is_whole: Whether the machine under test has done its own; otherwise nobody is waited for.

        Raises:
            StealtimeError: One is gone or did not answer; the message names it.
        """
        return await _for_each([(each, each.stop(is_whole=is_whole)) for each in self.all], "gave no result")

    def failure(self) -> str | None:
        ends = [(each, each.machine.exit_reason()) for each in self.all]
        return "; ".join(f"{each.words} died: {why}" for each, why in ends if why is not None) or None

    def threads(self) -> list[HostThread]:
        return [thread for each in self.all for thread in each.threads()]


@asynccontextmanager
async def neighbours(placement: Placement, platform: Platform, under_test: MachineRequest) -> AsyncIterator[Neighbours]:
    """Boot all neighbours of a placement at once; leaving the context ends them.

    Args:
        placement: Says how many, of which kind, and where.
        platform: Of the machine under test.
        under_test: Each neighbour is like it, with a folder in its folder for the logs; a guest that copies blocks gets
            more memory if they would not fit.

    Raises:
        StealtimeError: One did not boot; the message names it.
    """
    if not traits_of(platform.name).is_remote:
        refuse_too_much_memory(placement, under_test.memory_bytes if traits_of(platform.name).is_guest else None)
    async with AsyncExitStack() as machines:

        async def boot(number: int, placed: PlacedNeighbour) -> Neighbour:
            own = under_test.folder / f"neighbour-{number}"
            await asyncio.to_thread(own.mkdir, parents=True, exist_ok=True)
            # Over ssh the processes run where the machine under test is.
            is_guest = placed.kind == "machine" and traits_of(platform.name).is_guest
            where = platform if is_guest or traits_of(platform.name).is_remote else NativePlatform()
            memory_bytes = under_test.memory_bytes
            request = replace(
                under_test,
                vcpu_cpus=placed.each_vcpu,
                folder=own,
                emulator_cpus=placed.cpus,
                share=placed.share,
                group=f"neighbour-{number}",
                realtime=under_test.realtime if placed.load == SAME_WORK else placed.priority > 0,
                memory_bytes=guest_memory_bytes(placed, memory_bytes) if is_guest else memory_bytes,
            )
            try:
                machine = await machines.enter_async_context(where.boot(request))
            except StealtimeError as error:
                raise StealtimeError(
                    f"{placed.name} did not boot beside {platform.name}: {error.message}", hint=error.hint
                ) from error
            return Neighbour(number, placed, machine, "machine" if is_guest else "process")

        booting = [boot(number, placed) for number, placed in enumerate(placement.neighbours, start=1)]
        booted = _all_or_first_error(await asyncio.gather(*booting, return_exceptions=True))
        groups = [each.machine.cpu_group for each in booted]
        given = [finding for group in groups if group is not None for finding in group.findings]
        yield Neighbours(booted, (*given, *real_time_findings(placement, platform)))


def real_time_findings(placement: Placement, platform: Platform) -> list[Finding]:
    """Say it if a neighbour shares a CPU with a real-time thread of the same kernel, which does not take turns."""
    if traits_of(platform.name).is_guest or placement.priority == 0 or len(placement.vcpu_cpus[-1]) > 1:
        return []
    sharing = [one for one in placement.neighbours if set(one.cpus) & set(placement.vcpu_cpus[-1])]
    equal = [one.name for one in sharing if one.load == SAME_WORK]
    below = [one.name for one in sharing if one.load != SAME_WORK and not one.priority]
    hint = "a scenario with priority = 0 lets them take turns"
    where = f"on CPU {format_cpus(placement.vcpu_cpus[-1])}"
    findings = []
    if below:
        text = (
            f"on {platform.name} the measuring threads are real-time threads and {', '.join(below)} an ordinary one of "
            f"the same kernel: {where} it runs only while they are held back"
        )
        findings.append(Finding(code="neighbour_below_realtime", level="limits", text=text, hint=hint))
    if equal:
        text = (
            f"on {platform.name} the measuring threads and {', '.join(equal)} are real-time threads of one priority: "
            f"{where} they do not take turns"
        )
        findings.append(Finding(code="neighbour_takes_no_turns", level="limits", text=text, hint=hint))
    return findings


async def _for_each(doing: list[tuple[Neighbour, Coroutine[Any, Any, _Result]]], failure: str) -> list[_Result]:
    """Wait for what all neighbours do at once; the first error is raised, with the neighbour's name and its end."""
    outcomes = await asyncio.gather(*(what for _, what in doing), return_exceptions=True)
    results: list[_Result] = []
    for (neighbour, _), outcome in zip(doing, outcomes, strict=True):
        if isinstance(outcome, StealtimeError):
            raise StealtimeError(f"{neighbour.words} {failure}: {outcome.message}", hint=outcome.hint) from outcome
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results


def _all_or_first_error(outcomes: list[Neighbour | BaseException]) -> list[Neighbour]:
    results: list[Neighbour] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results
