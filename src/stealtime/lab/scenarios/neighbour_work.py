"""The same work beside the machine under test: a neighbour carries out the trial's own request, once."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.platforms.model import Machine
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.placement import PlacedNeighbour
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.connection import AgentConnection
from stealtime.wire.incoming import Listener
from stealtime.wire.message import RunTrial, StreamName, TrialDone
from stealtime.wire.results import TrialResult


@dataclass(frozen=True)
class Work:
    """What a trial asks of the machine under test, and how an answer is known to be whole."""

    request: RunTrial
    uses_every_cpu: bool
    """Whether it is done on all CPUs of a machine, and not on one alone."""
    needs: tuple[StreamName, ...]
    """The tables without which it is not whole."""
    deadline_s: float
    """From the request to the first table."""


@dataclass(frozen=True)
class Worked:
    """What came of a neighbour's work; its tables are not kept, as what it took in all is in this message."""

    done: TrialDone


class WorkOn:
    """Work that is to be begun, or was and has not ended.

    Args:
        connection: To the neighbour's agent.
        work: Of the neighbour, on its own CPUs.
        folder: Where its tables are put while they come.
        on_measured: Awaited once it has measured, before it sends its tables.
    """

    def __init__(
        self, connection: AgentConnection, work: Work, folder: Path, on_measured: Callable[[], Awaitable[None]]
    ) -> None:
        self._connection, self._work, self._folder = connection, work, folder
        self._listener = Listener(on_measured=on_measured)
        self._task: asyncio.Task[TrialResult] | None = None

    def begin(self) -> None:
        """Ask for it, and do not wait."""
        work = self._work
        asked = self._connection.run_trial(
            work.request, self._folder, deadline_s=work.deadline_s, listener=self._listener, needs=work.needs
        )
        self._task = asyncio.create_task(asked)

    async def end(self, *, is_whole: bool) -> Worked:
        """Wait until it is done.

        Args:
            is_whole: Whether the machine under test has done its own; otherwise what is left here is given up.

        Raises:
            StealtimeError: It failed, or was not begun.
        """
        if self._task is None:
            raise StealtimeError("its work was not begun")
        if not is_whole and not self._task.done():
            await self._connection.cancel()
        result = await self._task
        for table in result.tables.values():
            await asyncio.to_thread(table.unlink, missing_ok=True)
        return Worked(result.outcome)


def own_work(work: Work, placed: PlacedNeighbour, machine: Machine) -> Work:
    """Give the work for a neighbour: on its own CPUs, untraced, and without a disturbance of ours.

    A process of the host leaves the limit on real-time threads to the machine under test, which has the same kernel.
    """
    lifts = work.request.lift_rt_throttling and traits_of(machine.platform).is_guest
    changes = {
        "cpus": cpus_to_use(machine, placed.vcpus, uses_every_cpu=work.uses_every_cpu),
        "lift_rt_throttling": lifts,
        "injection": None,
        "tracing": None,
        "on_threshold": None,
    }
    return Work(work.request.model_copy(update=changes), work.uses_every_cpu, work.needs, work.deadline_s)


def cpus_to_use(machine: Machine, vcpus: int, *, uses_every_cpu: bool) -> list[int]:
    """Give the CPUs of a machine to measure on, as it counts them; natively as many as a guest in its place has.

    Args:
        machine: Booted.
        vcpus: How many virtual CPUs it has, or would have.
        uses_every_cpu: Whether to use more than the measured one.
    """
    if not uses_every_cpu:
        return list(machine.measured_cpus)
    return list(range(vcpus)) if traits_of(machine.platform).is_guest else list(machine.measured_cpus[-vcpus:])
