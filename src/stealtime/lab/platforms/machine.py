"""A booted machine of any platform, and its boot up to the agent's first message."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stealtime.lab.platforms.affinity import HostThread
from stealtime.lab.platforms.cgroup import CpuGroup, cpu_group
from stealtime.lab.platforms.failure import MachineError, log_tail, read_tail
from stealtime.lab.platforms.kvm_counters import CountersLook
from stealtime.lab.platforms.model import BootRecord, MachineRequest
from stealtime.lab.platforms.process import GuestProcess
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Absent, Facts, Reading
from stealtime.wire.connection import AgentConnection
from stealtime.wire.message import AgentHello

_END_GRACE_S = 3.0
"""What a guest gets to power off before it is killed; under TCG 0.05 s and 0.34 s were seen on a busy host."""

_EXIT_PATIENCE_S = 2.0
"""A closed channel is seen a little before the process that closed it has ended."""


NO_TSC_OFFSET = Absent(absent="no hypervisor tells by how much this machine's counter differs from the host's")


@dataclass
class BootedMachine:
    """A machine under test with its agent on the line; see ``platforms.model.Machine``."""

    platform: str
    connection: AgentConnection
    boot: BootRecord
    measured_cpus: tuple[int, ...]
    serial_log: Path | None
    agent_facts: Facts
    process: GuestProcess
    list_threads: Callable[[], list[HostThread]] = field(repr=False)
    count_exits: Callable[[], Awaitable[CountersLook | Absent]] | Absent = field(repr=False)
    """Reads the hypervisor's counters; absent where there is no hypervisor that counts."""
    cpu_group: CpuGroup | None = None
    emulator_trace: Path | None = None
    read_tsc_offset: Callable[[], Reading] | Absent = field(default=NO_TSC_OFFSET, repr=False)
    """Reads the offset of its counter; absent where nobody tells."""

    def threads(self) -> list[HostThread]:
        return self.list_threads()

    def tsc_offset(self) -> Reading:
        return self.read_tsc_offset if isinstance(self.read_tsc_offset, Absent) else self.read_tsc_offset()

    def exit_reason(self) -> str | None:
        return exit_reason(self.process, self.serial_log)

    async def hypervisor_counters(self) -> CountersLook | Absent:
        return self.count_exits if isinstance(self.count_exits, Absent) else await self.count_exits()


@asynccontextmanager
async def own_cpu_group(request: MachineRequest, *, realtime: bool = False) -> AsyncIterator[CpuGroup | None]:
    """Make the CPU group that a machine's share needs; None without a share.

    Args:
        request: Of the machine.
        realtime: Whether threads of the host's SCHED_FIFO will run in it.

    Raises:
        CpuGroupError: The kernel refuses.
    """
    if request.share is None:
        yield None
        return
    async with cpu_group(request.group, request.share, realtime=realtime) as group:
        yield group


def exit_reason(process: GuestProcess, serial_log: Path | None) -> str | None:
    """Say how a machine ended and what it said last, or None while it lives."""
    ended = process.exit_text()
    if ended is None:
        return None
    return f"{ended}; {log_tail(serial_log)}" if serial_log is not None else ended


async def describe_end(process: GuestProcess, serial_log: Path | None) -> str | None:
    """Wait a moment for the end that a closed channel announces, then say how it came."""
    await process.wait(_EXIT_PATIENCE_S)
    return exit_reason(process, serial_log)


async def await_agent(
    platform: str, connection: AgentConnection, process: GuestProcess, request: MachineRequest, logs: tuple[Path, ...]
) -> AgentHello:
    """Wait until the agent of a machine that is coming up says hello.

    Args:
        logs: Where to look for the reason of a failure, the console first.

    Raises:
        MachineError: It said nothing in time, or it ended.
        StealtimeError: The agent is of another version.
    """
    started = time.monotonic()
    hello = asyncio.create_task(connection.hello(request.boot_timeout_s))
    try:
        await _refuse_silence(platform, hello, logs[0], request.silence_timeout_s)
        try:
            return await hello
        except StealtimeError as error:
            elapsed_s = time.monotonic() - started
            log = next((log for log in logs if read_tail(log)), logs[0])
            if await process.wait(0.2 if elapsed_s >= request.boot_timeout_s else _EXIT_PATIENCE_S):
                what = f"{platform} ended {elapsed_s:.1f} s after its start ({process.exit_text()}); {log_tail(log)}"
            elif elapsed_s >= request.boot_timeout_s:
                what = f"{platform} did not reach its agent within {request.boot_timeout_s:.3g} s; {log_tail(log)}"
            else:
                raise
            hint = f"see {log.name}; another kernel can be named with --kernel"
            raise MachineError(what, hint=hint, serial_tail=read_tail(log)) from error
    finally:
        hello.cancel()


async def _refuse_silence(
    platform: str, hello: asyncio.Task[AgentHello], console: Path, timeout_s: float | None
) -> None:
    """Raise a MachineError where the kernel of a guest has not said a word by then, and need not be waited for."""
    if timeout_s is None:
        return
    await asyncio.wait({hello}, timeout=timeout_s)
    if not hello.done() and not read_tail(console):
        what = f"the kernel of {platform} did not begin to boot within {timeout_s:.3g} s; {log_tail(console)}"
        raise MachineError(what, hint=f"see {console.name}; another kernel can be named with --kernel")


async def end_machine(connection: AgentConnection, process: GuestProcess, *, graceful: bool) -> None:
    """Shut a machine down; what does not end by itself is killed."""
    if graceful:
        await connection.shutdown(_END_GRACE_S)
    else:
        connection.abandon()
    await process.end(_END_GRACE_S if graceful else 0.0)


def boot_record(argv: tuple[str, ...], started: float, facts: Mapping[str, str]) -> BootRecord:
    """Note how a machine came up; ``started`` is a ``time.monotonic()`` of just before its start."""
    return BootRecord(argv=argv, elapsed_to_hello_s=time.monotonic() - started, facts=facts)
