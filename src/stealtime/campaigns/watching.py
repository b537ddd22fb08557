"""What accompanies a trial: the neighbours' loads, the trace of the host, and its counters of lost CPU time.

What is started is stopped in any case, so that the next trial finds a quiet machine; a trial that failed only gives up
what was recorded around it.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stealtime.campaigns.booted import TrialSetup
from stealtime.campaigns.host_views import host_views
from stealtime.campaigns.moment import kept_bytes
from stealtime.campaigns.planned import PlannedCell
from stealtime.campaigns.probe import Probe
from stealtime.campaigns.registry import probes
from stealtime.campaigns.staying import staying
from stealtime.campaigns.strangers import StrangersWatch
from stealtime.campaigns.trial_setup import (
    lost_neighbour_record,
    neighbour_findings,
    neighbour_record,
    neighbour_table,
)
from stealtime.lab.platforms.host_views import HostLook, between, look
from stealtime.lab.platforms.model import Machine
from stealtime.lab.platforms.throttling import Throttling, throttling_between
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.platforms.uml import kernel_threads
from stealtime.lab.scenarios.neighbour_work import Work
from stealtime.store.model import HostViews, NeighbourRecord
from stealtime.store.neighbour_table import NeighbourTable
from stealtime.store.result_kinds import ResultKind
from stealtime.vocabulary.alignment import Alignment
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.findings import Finding
from stealtime.wire.message import RunTrial, TraceRequest
from stealtime.wire.results import TraceResult

logger = logging.getLogger(__name__)


@dataclass
class Watched:
    """What was seen around a trial; complete when :func:`watching` is left without an error."""

    findings: list[Finding] = field(default_factory=list)
    neighbours: list[NeighbourRecord] = field(default_factory=list)
    neighbour_tables: tuple[NeighbourTable, ...] = ()
    host_trace: TraceResult | None = None
    views: HostViews | None = None
    strangers: StrangersWatch | None = None
    """Begun; who has the machine measured ends it."""
    look_again: Callable[[], HostViews] | None = None
    """Gives what the host's kernel counted since the trial began."""

    def measured(self) -> None:
        """Look at the host's counters once more: the machine has measured, and what it does from now on is no work."""
        if self.look_again is not None:
            self.views = self.look_again()


@asynccontextmanager
async def watching(
    machine: Machine, setup: TrialSetup, cell: PlannedCell, work: Work, spool: Path, trace_buffer_bytes: int
) -> AsyncIterator[Watched]:
    """Start the neighbours and the host's trace, and stop them when the trial is over.

    Args:
        machine: Under test.
        setup: What is up around it.
        cell: Says whether to trace.
        work: What the machine is about to be asked for.
        spool: Where tables are put until they are Parquet.
        trace_buffer_bytes: For each CPU of the host.

    Raises:
        StealtimeError: A neighbour could not be started.
    """
    number = work.request.trial
    watched = Watched(findings=list(setup.neighbours.findings))
    clocks_before = None if setup.tracer is None else await setup.tracer.exchange_clocks()
    is_whole = False
    try:
        await setup.neighbours.start(work, spool / "neighbours")
        if cell.cell.traced:
            await _start_tracing(machine, setup, cell, work.request, trace_buffer_bytes)
        watched.strangers = StrangersWatch.begin(machine, setup.placement)
        watched.look_again = partial(_views, machine, setup, _look(machine, setup))
        # Last, because the machine's own work follows: nothing that takes time is to be between the two.
        async with staying(machine, setup) as stays:
            setup.neighbours.begin_work()
            yield watched
        watched.findings += [] if stays.finding is None else [stays.finding]
        if watched.views is None:
            watched.measured()
        is_whole = True
    finally:
        try:
            if cell.cell.traced:
                await _stop_tracing(setup, number, spool / "host", watched)
            await _stop_neighbours(setup, probes()[cell.cell.probe].result, watched, clocks_before, is_whole=is_whole)
        except StealtimeError as error:
            if is_whole:
                raise
            # The trial has failed already, and that is the error to tell.
            logger.debug("after a failed trial: %s", error.message)


async def _start_tracing(
    machine: Machine, setup: TrialSetup, cell: PlannedCell, asked: RunTrial, buffer_bytes: int
) -> None:
    """Record the host where the machine may run."""
    if setup.tracer is None:
        return
    probe = probes()[cell.cell.probe]
    request = TraceRequest(
        # All: a wake-up is an event of the waker's CPU, and without it a thread that waits looks asleep.
        cpus=[],
        buffer_bytes_per_cpu=buffer_bytes,
        hidden_threads=probe.hidden_threads,
        user_mode_linux=_user_mode_linux(machine, probe),
        # Natively the host's kernel is the machine's.
        extra_groups=list(
            probe.extra_trace_groups if traits_of(machine.platform).is_native else probe.extra_host_trace_groups
        ),
        processes=_own_processes(machine, probe),
        keep_bytes_per_cpu=kept_bytes(asked.on_threshold),
    )
    await setup.tracer.start(asked.trial, request)


async def _stop_tracing(setup: TrialSetup, number: int, folder: Path, watched: Watched) -> None:
    """Take the host's trace; where there is none, say why."""
    if setup.tracer is None:
        watched.findings.append(
            Finding(code="host_not_traced", level="limits", text="the host of a machine over ssh is not traced")
        )
        return
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    watched.host_trace = await setup.tracer.stop(number, folder)
    if watched.host_trace is None and setup.tracer.absent is not None:
        watched.findings.append(setup.tracer.absent)


@dataclass(frozen=True)
class _Before:
    """What the kernel had counted when the trial began."""

    at_monotonic_raw_ns: int
    host: HostLook
    throttling: Throttling | None


def _look(machine: Machine, setup: TrialSetup) -> _Before:
    threads = [thread.tid for thread in machine.threads() if thread.role == "vcpu"]
    group = machine.cpu_group
    throttling = group.read_throttling() if group is not None else None
    return _Before(_host_now_ns(), look(threads, _measured_cpus(machine, setup)), throttling)


def _views(machine: Machine, setup: TrialSetup, before: _Before) -> HostViews:
    """Give what the kernel counted since ``before``; of the same threads, also if the machine has others now."""
    gained = between(before.host, look(before.host.run_delay_ns, _measured_cpus(machine, setup)))
    end_ns = _host_now_ns()
    throttling = None
    if machine.cpu_group is not None and before.throttling is not None:
        throttling = throttling_between(before.throttling, machine.cpu_group.read_throttling())
    times = {"begin_monotonic_raw_ns": before.at_monotonic_raw_ns, "end_monotonic_raw_ns": end_ns}
    return host_views(machine.platform, gained, throttling).model_copy(update=times)


def _host_now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def _measured_cpus(machine: Machine, setup: TrialSetup) -> list[int]:
    """Give the CPUs of this host that the machine's vCPUs may run on; over ssh they are of another one."""
    if traits_of(machine.platform).is_remote:
        return []
    return sorted({cpu for cpus in setup.placement.vcpu_cpus for cpu in cpus})


def _user_mode_linux(machine: Machine, probe: Probe) -> list[int]:
    """Give the threads by which the host sees into a guest."""
    is_followed = traits_of(machine.platform).is_seen_from_host and probe.follows_user_mode_linux
    return kernel_threads(machine.threads()) if is_followed else []


def _own_processes(machine: Machine, probe: Probe) -> list[int]:
    """Give the threads of a guest's emulator, where the trace follows these alone; none means that it follows all."""
    if not probe.extra_host_trace_groups or not traits_of(machine.platform).is_guest:
        return []
    return [thread.tid for thread in machine.threads()]


async def _stop_neighbours(
    setup: TrialSetup, kind: ResultKind, watched: Watched, clocks_before: Alignment | None, *, is_whole: bool
) -> None:
    """Take what the neighbours did; one that is gone, or whose work has no result, makes the trial invalid."""
    if not setup.neighbours.all:
        return
    died = setup.neighbours.failure()
    try:
        results = await setup.neighbours.stop(is_whole=is_whole)
    except StealtimeError as error:
        died = died or setup.neighbours.failure() or error.message
        results = []
        watched.neighbours = [lost_neighbour_record(each) for each in setup.neighbours.all]
    if died is not None:
        watched.findings.append(
            Finding(
                code="neighbour_died",
                level="invalidates",
                text=f"not all neighbours ran beside the machine: {died}",
                hint="see the neighbour's log beside this cell's, such as neighbour-1.serial.log",
            )
        )
    clocks_after = None if setup.tracer is None else await setup.tracer.exchange_clocks()
    watched.findings += [finding for result in results for finding in neighbour_findings(result)]
    watched.neighbours += [neighbour_record(result, kind) for result in results]
    tables = [neighbour_table(result, clocks_before, clocks_after) for result in results]
    watched.neighbour_tables = tuple(table for table in tables if table is not None)
