"""A program under watch: where it runs, its kernel's trace, and its threads as they come and go."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stealtime.extraction.host_view import HostView, watched_from_host
from stealtime.lab.platforms import registry
from stealtime.lab.platforms.failure import read_tail
from stealtime.lab.platforms.leftovers import temporary_folder
from stealtime.lab.platforms.model import Machine, MachineRequest
from stealtime.lab.platforms.traits import NATIVE, traits_of
from stealtime.lab.processors import read_cpu_sets
from stealtime.store.columns import columns_of_stream
from stealtime.store.surroundings import TRACE_SCHEMA
from stealtime.store.traces import events_of
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.wire.message import TraceRequest, TracingOutcome
from stealtime.wire.program import ProgramThread

if TYPE_CHECKING:
    from stealtime._core import EventsDict

_TRIAL = 1
_LOOK_EVERY_S = 0.5
_CANNOT_BE_RUN = " cannot be run: "
"""As the agent says of a program that is not there, or may not be executed."""
_SHORTEST_NS, _LONGEST_NS = 100_000_000, 3_600_000_000_000
_BUFFER_BYTES = 16 << 20
"""For each CPU. In a machine with one CPU nothing reads them while the program's threads, of a higher priority, run."""


@dataclass(frozen=True)
class Order:
    """What is watched."""

    machine: str
    """A platform: ``native``, ``ssh:root@vm``, ``qemu-tcg-paravirt`` ..."""
    program: tuple[str, ...]
    """A process id, or a command."""
    duration_ns: int
    kernel: str = "rt"
    """Of a guest that is booted for it."""

    def __post_init__(self) -> None:
        registry.find(self.machine)
        if not _SHORTEST_NS <= self.duration_ns <= _LONGEST_NS:
            raise UsageError(
                f"--for {self.duration_ns / 1e9:g}s is not possible: a program is watched for 100ms to 1h",
                hint="thirty of its longest periods show a task well: --for 1m",
            )
        if not self.program:
            raise UsageError("no program was named", hint="give a process id, or a command and its arguments")
        if self.process == 0:
            raise UsageError("there is no process 0", hint="`pgrep NAME` tells a program's process id")
        if self.process is not None and self.is_booted:
            raise UsageError(
                f"{self.machine} is booted for this: no process {self.process} runs in it",
                hint="give a command, such as `stealtime-agent rtload 1ms/10ms`, or watch a machine of yours over ssh",
            )

    @property
    def process(self) -> int | None:
        """The process, where one was named."""
        first = self.program[0]
        return int(first) if len(self.program) == 1 and first.isascii() and first.isdecimal() else None

    @property
    def is_booted(self) -> bool:
        """Whether the machine is a guest of ours."""
        return self.machine != NATIVE and not self.machine.startswith("ssh:")

    @property
    def words(self) -> str:
        return f"process {self.process}" if self.process is not None else " ".join(self.program)


@dataclass
class Watched:
    """All that was seen."""

    order: Order
    elapsed_ns: int
    events: "EventsDict"
    """As :func:`stealtime._core.extract_tasks` takes it."""
    tracing: TracingOutcome
    threads: dict[int, ProgramThread]
    """All that were ever listed, as last seen, by id."""
    ran_ns: dict[int, int]
    """Of threads that lived all the while: by how much the kernel's own count rose."""
    host: HostView
    ended_early: bool
    """The program ended before the time was over."""


async def watch(order: Order, on_progress: Callable[[str], None]) -> Watched:
    """Watch a program for as long as is asked, or until it ends.

    Raises:
        UsageError: There is no such machine or process.
        StealtimeError: The machine cannot be booted, the program not be started, or its kernel not be traced.
    """
    platform = registry.find(order.machine)
    traits = traits_of(order.machine)
    if traits.is_guest and not traits.has_own_kernel_trace:
        raise StealtimeError(
            f"{order.machine} has no trace of its own: a User-Mode Linux kernel has no tracefs, and its host sees one "
            "process, not its tasks",
            hint="watch the same program natively, or in qemu-tcg-paravirt",
        )
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        on_progress("booting" if order.is_booted else "going there")
        machine = await stack.enter_async_context(platform.boot(_machine_request(order, folder)))
        process = await _begin(order, machine, folder)
        async with watched_from_host(machine, order.is_booted, folder) as host:
            return await _watch(order, machine, process, host, folder, on_progress)


def _machine_request(order: Order, folder: Path) -> MachineRequest:
    cpus = read_cpu_sets().usable
    if not order.is_booted:
        # The command inherits where the agent may run: everywhere.
        return MachineRequest(vcpu_cpus=(cpus,), housekeeping_cpus=cpus, folder=folder)
    others = cpus[:-1] or cpus
    return MachineRequest(
        vcpu_cpus=((cpus[-1],),), housekeeping_cpus=others, folder=folder, kernel=order.kernel, memory_bytes=512 << 20
    )


async def _begin(order: Order, machine: Machine, folder: Path) -> int:
    connection = machine.connection
    if order.process is not None:
        if not await connection.list_threads(order.process):
            where = "here" if order.machine == NATIVE else f"on {order.machine}"
            raise UsageError(
                f"there is no process {order.process} {where}", hint="`pgrep NAME` tells a program's process id"
            )
        return order.process
    process = await connection.start_program(order.program)
    await asyncio.sleep(_LOOK_EVERY_S)
    if not await connection.list_threads(process):
        said = read_tail(folder / "agent.log") or "it said nothing"
        last = said.strip().splitlines()[-1].removeprefix("error: ")
        if _CANNOT_BE_RUN in last:
            raise UsageError(last, hint="check its name, and that it may be executed")
        raise StealtimeError(
            f"{order.words} ended at once: {last}",
            hint="does it run by itself? give its whole command",
        )
    return process


async def _watch(
    order: Order,
    machine: Machine,
    process: int,
    host: HostView,
    folder: Path,
    on_progress: Callable[[str], None],
) -> Watched:
    connection = machine.connection
    request = TraceRequest(
        buffer_bytes_per_cpu=_BUFFER_BYTES, extra_groups=["timer_starts", "calls"], processes=[process]
    )
    await host.begin()
    await connection.start_tracing(_TRIAL, request)
    first = {one.id: one for one in await connection.list_threads(process)}
    threads, last, began = dict(first), first, time.monotonic()
    ended_early = False
    while (elapsed_s := time.monotonic() - began) < order.duration_ns / 1e9:
        on_progress(f"watching {order.words}: {elapsed_s:.0f} of {order.duration_ns / 1e9:.0f} s")
        await asyncio.sleep(min(_LOOK_EVERY_S, max(0.0, order.duration_ns / 1e9 - elapsed_s)))
        now = {one.id: one for one in await connection.list_threads(process)}
        if not now:
            ended_early = True
            break
        last = now
        threads |= now
    on_progress("reading the trace")
    traced = await connection.stop_tracing(_TRIAL, folder)
    await host.end()
    outcome = traced.outcome
    ran = {
        number: after - before
        for number, one in last.items()
        if not ended_early
        and number in first
        and (before := first[number].ran_ns) is not None
        and (after := one.ran_ns) is not None
    }
    columns = columns_of_stream(traced.trace, TRACE_SCHEMA)
    return Watched(
        order=order,
        elapsed_ns=outcome.end.monotonic_ns - outcome.start.monotonic_ns,
        events=events_of(columns, outcome),
        tracing=outcome,
        threads=threads,
        ran_ns=ran,
        host=host,
        ended_early=ended_early,
    )
