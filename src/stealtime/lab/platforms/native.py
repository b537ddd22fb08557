"""The machine that the control plane runs on: the agent as a child process, frames on its standard streams."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from stealtime.lab.platforms.affinity import list_threads
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.cgroup import CpuGroup
from stealtime.lab.platforms.leftovers import clear_leftovers
from stealtime.lab.platforms.machine import (
    BootedMachine,
    await_agent,
    boot_record,
    describe_end,
    end_machine,
    own_cpu_group,
)
from stealtime.lab.platforms.model import Availability, Machine, MachineRequest
from stealtime.lab.platforms.process import GuestProcess, guarded
from stealtime.lab.platforms.traits import NATIVE
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Absent
from stealtime.wire.connection import AgentConnection


class NativePlatform:
    """No virtual machine of ours: what all others are compared with."""

    name = NATIVE

    async def check(self) -> Availability:
        """Usable where the agent is installed."""
        try:
            return Availability(usable=True, reason=f"the agent is {find_agent()}")
        except StealtimeError as error:
            return Availability(usable=False, reason=error.message, hint=error.hint)

    @asynccontextmanager
    async def boot(self, request: MachineRequest) -> AsyncIterator[Machine]:
        clear_leftovers()
        # The measuring threads are threads of this host, and in the group with the agent.
        async with own_cpu_group(request, realtime=request.realtime) as group, self._boot_in(request, group) as machine:
            yield machine

    @asynccontextmanager
    async def _boot_in(self, request: MachineRequest, group: CpuGroup | None) -> AsyncIterator[Machine]:
        groups = [] if group is None else [group.path]
        argv = guarded([str(find_agent()), "serve"], cpus=request.housekeeping_cpus, cgroups=groups)
        log = request.folder / "agent.log"
        started = time.monotonic()
        # The agent starts on the housekeeping CPUs and puts only its measuring thread on the measured one.
        pipe = asyncio.subprocess.PIPE
        process = await GuestProcess.start(argv, name="the agent", log=log, stdin=pipe, stdout=pipe)
        reader, writer = process.streams
        connection = AgentConnection(reader, writer, peer=self.name, describe_end=lambda: describe_end(process, log))
        graceful = False
        try:
            hello = await await_agent(self.name, connection, process, request, (log,))
            yield BootedMachine(
                platform=self.name,
                connection=connection,
                boot=boot_record(process.argv, started, {"agent": str(find_agent())}),
                measured_cpus=request.vcpu_cpus[-1],
                cpu_group=group,
                serial_log=None,
                agent_facts=hello.facts,
                process=process,
                list_threads=partial(list_threads, process.pid, default="agent"),
                count_exits=Absent(absent="natively there is no hypervisor of ours"),
            )
            graceful = True
        finally:
            await end_machine(connection, process, graceful=graceful)
