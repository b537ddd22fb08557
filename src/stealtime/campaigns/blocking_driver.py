"""A driver whose trials block: each goes on in a thread, which runs, with all that it starts, on the guest's CPUs."""

import asyncio
import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import psutil

from stealtime.campaigns.booted import KeepPart, Measured, keep_nothing
from stealtime.campaigns.driven_result import DrivenResult
from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.campaigns.strangers import seen_record, watched_cpus
from stealtime.campaigns.trial_setup import placement_record
from stealtime.lab.scenarios.placement import Placement
from stealtime.lab.strangers.look import between, look
from stealtime.store.model import TrialRecord
from stealtime.vocabulary.errors import StealtimeError

_TRIES = 3
_LOG = "agent.log"

Entered = TypeVar("Entered")


class BlockingDriver(ABC):
    """Keeps ``campaigns.executor.Booted``.

    Args:
        boot: Whose cells are carried out.
        placement: Of the scenario.
        folder: For logs, until they are stored.
    """

    retried_errors: tuple[type[StealtimeError], ...] = ()
    """Errors after which a trial is begun anew, a few times: what was to be measured was just not there."""

    def __init__(self, boot: PlannedBoot, placement: Placement, folder: Path) -> None:
        self._boot = boot
        self._placement = placement
        self._log = folder / _LOG

    @abstractmethod
    def carry_out(self, cell: PlannedCell) -> DrivenResult:
        """Carry out a trial; how often it was begun anew is put into its result afterwards."""

    @abstractmethod
    def give_up(self) -> None:
        """End what was set up for the last trial: the next one begins from nothing."""

    @abstractmethod
    def log_tail(self) -> str:
        """Give the end of all logs, for a trial that failed."""

    def before_retry(self, _error: StealtimeError) -> None:
        """Make ready for another try."""
        self.give_up()

    async def measure(self, cell: PlannedCell, _keep: KeepPart = keep_nothing) -> Measured:
        """Carry out one trial; see ``campaigns.executor.Booted``."""
        return await asyncio.to_thread(self._measure, cell)

    async def stop(self) -> bool:
        """Its trials give their figures at their end alone; see ``campaigns.executor.Booted``."""
        return False

    async def is_alive(self) -> bool:
        """What is set up lives; that with which a trial failed was given up."""
        return True

    def end(self) -> str | None:
        """Nothing is known to have ended."""
        return None

    def _measure(self, cell: PlannedCell) -> Measured:
        started_at, begin = datetime.now(UTC), time.monotonic()
        first = look(watched_cpus(self._placement))
        with on_cpus_of(self._placement):
            try:
                result = self._result(cell)
            except (StealtimeError, subprocess.TimeoutExpired, psutil.Error, OSError) as error:
                self._log.write_text(self.log_tail())
                self.give_up()
                if isinstance(error, StealtimeError):
                    raise
                raise StealtimeError(f"{type(error).__name__}: {error}") from error
        record = TrialRecord(
            cell=cell.cell,
            repetition=cell.repetition,
            host=self._boot.host,
            state="measured",
            started_at=started_at,
            elapsed_s=time.monotonic() - begin,
            duration_ns=cell.duration_ns,
            result=result,
            placement=placement_record(self._placement),
            strangers=seen_record(between(first, look(first.cpus))),
        )
        return Measured(record, None)

    def _result(self, cell: PlannedCell) -> DrivenResult:
        retries = 0
        while True:
            try:
                return self.carry_out(cell).model_copy(update={"retries": retries})
            except self.retried_errors as error:
                retries += 1
                if retries == _TRIES:
                    raise
                self.before_retry(error)


@asynccontextmanager
async def entered_in_thread(manager: AbstractContextManager[Entered]) -> AsyncIterator[Entered]:
    """Enter and leave a context that blocks."""
    entered = await asyncio.to_thread(manager.__enter__)
    try:
        yield entered
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


async def in_thread_on(placement: Placement, act: Callable[[], Entered]) -> Entered:
    """Do what blocks where trials of a placement are carried out."""

    def do() -> Entered:
        with on_cpus_of(placement):
            return act()

    return await asyncio.to_thread(do)


@contextmanager
def on_cpus_of(placement: Placement) -> Iterator[None]:
    """Let this thread, and what it starts, run on other CPUs than the control plane is kept on."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu for cpus in (*placement.vcpu_cpus, placement.emulator_cpus) for cpu in cpus})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
