"""Tracing of the host's kernel during trials: an agent of its own on the housekeeping CPUs.

The recording may be refused (no tracefs, no right, a kernel that is locked down). Then everything is measured all the
same, and the tracer says why it is absent; what cannot be attributed without it is said where it is missing.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from stealtime.lab.platforms.model import MachineRequest, Platform
from stealtime.lab.platforms.native import NativePlatform
from stealtime.vocabulary.alignment import Alignment
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.readings import Facts
from stealtime.wire.connection import AgentConnection
from stealtime.wire.message import TraceRequest
from stealtime.wire.results import TraceResult

logger = logging.getLogger(__name__)


class HostTracer:
    """Records the host's kernel, trial by trial.

    Args:
        connection: The agent that records, or None if there is none.
        absent: Why nothing can be recorded.
    """

    def __init__(self, connection: AgentConnection | None, absent: Finding | None = None) -> None:
        self._connection = connection
        self._recording: int | None = None
        self.absent = absent
        """Why nothing is recorded, with what to do; None while it works."""
        self.groups: Facts = {}
        """Which groups of events are recorded; an absent one says why it is not."""

    async def exchange_clocks(self) -> Alignment | None:
        """Read the host's clocks back to back, through the agent; None if there is none."""
        return None if self._connection is None else await self._connection.exchange_clocks()

    async def start(self, trial: int, request: TraceRequest) -> bool:
        """Record from here on; tell whether it does. A refusal is kept in ``absent``, and is not tried again."""
        if self._connection is None or self.absent is not None:
            return False
        try:
            self.groups = (await self._connection.start_tracing(trial, request)).groups
        except StealtimeError as error:
            self.absent = _absent(error)
            logger.info("%s", self.absent.text)
            return False
        self._recording = trial
        return True

    async def stop(self, trial: int, folder: Path) -> TraceResult | None:
        """End the recording of ``trial``; give None if there is none."""
        if self._connection is None or self._recording != trial:
            return None
        self._recording = None
        try:
            return await self._connection.stop_tracing(trial, folder)
        except StealtimeError as error:
            self.absent = _absent(error)
            logger.info("%s", self.absent.text)
            return None


@asynccontextmanager
async def host_tracer(
    folder: Path, housekeeping_cpus: tuple[int, ...], native: Platform | None = None
) -> AsyncIterator[HostTracer]:
    """Start the agent that records the host.

    Args:
        folder: An existing one, for the agent's log.
        housekeeping_cpus: Where it runs: none of those that are measured, if there are others.
        native: Starts the agent; None is this host's own platform ``native``.
    """
    request = MachineRequest(vcpu_cpus=(housekeeping_cpus,), housekeeping_cpus=housekeeping_cpus, folder=folder)
    async with AsyncExitStack() as stack:
        try:
            machine = await stack.enter_async_context((native or NativePlatform()).boot(request))
        except StealtimeError as error:
            tracer = HostTracer(None, _absent(error))
        else:
            tracer = HostTracer(machine.connection)
        yield tracer


def _absent(error: StealtimeError) -> Finding:
    return Finding(
        code="host_not_traced",
        level="limits",
        text=f"the host's kernel is not recorded: {error.message}",
        hint=error.hint,
    )
