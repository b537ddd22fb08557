"""Carrying out a plan: machines booted one after the other, their cells measured, every whole cell kept.

An interruption asks the trial that runs to end and keeps what it measured, marked as cut short; a second one does not
wait for that.

A machine that dies or goes silent is booted once more for the cells it still owes, the one it died in last, so that a
cell which kills its machine takes no other with it. What fails then has failed, and the run goes on. A cell that used
up its timeout has failed at once. A neighbour that dies makes the trial that it dies in invalid; for the cells after
that one everything is booted once more.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from stealtime.campaigns.booted import Booted, Measured
from stealtime.campaigns.events import (
    Booting,
    Calibrating,
    CellCutShort,
    CellDropped,
    CellFailed,
    CellMeasured,
    CellPreparing,
    CellStarted,
    CellStopping,
    CellStoring,
    Event,
    MachineLost,
    Observer,
)
from stealtime.campaigns.executor import Executor
from stealtime.campaigns.moment import OnHit, ends_run
from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.campaigns.planner import Plan
from stealtime.campaigns.provenance import OtherMakerError
from stealtime.campaigns.telling import told_to
from stealtime.campaigns.trial_setup import NeighbourError
from stealtime.campaigns.validity import is_usable
from stealtime.lab.platforms.failure import read_tail
from stealtime.store.cutting import INTERRUPTED, is_empty, marked_if_cancelled
from stealtime.store.model import Failure, TrialRecord
from stealtime.store.result_kinds import ResultKind, Streams
from stealtime.store.writer import DISK_FULL, DISK_FULL_HINT, DiskError, RunWriter
from stealtime.vocabulary.errors import StealtimeError

_BOOTS_A_MACHINE = 2
LAST_WORDS_S = 20.0
"""What an interrupted trial may take to give what it measured: its neighbours stop, and a minute of samples comes, over
a slow channel perhaps."""
_Written = TypeVar("_Written")
_LOGS = ("serial.log", "agent.log")


@dataclass
class Tally:
    """How a run went."""

    measured: list[str] = field(default_factory=list)
    """Trial ids."""
    invalid: list[str] = field(default_factory=list)
    """Of the measured ones, those that must not be used."""
    failed: list[str] = field(default_factory=list)
    cut_short: list[str] = field(default_factory=list)
    """Those of which a part was kept: none of the measured ones."""

    hits: list[str] = field(default_factory=list)
    """Of the measured ones, those with a sample over the threshold of ``--on-threshold``."""

    @property
    def has_figures(self) -> bool:
        """Whether anything was measured, if only a part of a cell."""
        return bool(self.measured or self.cut_short)


class _Start:
    """The moment at which a trial was begun."""

    def __init__(self) -> None:
        self.at, self._begin = datetime.now(UTC), time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begin


class Runner:
    """Carries out one plan.

    Args:
        plan: What to measure.
        executors: By the name of its host.
        writer: Of the run.
        observer: Is told of the progress.
        on_hit: Is called for each trial with a sample over the threshold, once that is on the disk.
    """

    def __init__(
        self,
        plan: Plan,
        executors: Mapping[str, Executor],
        writer: RunWriter,
        observer: Observer,
        on_hit: OnHit | None = None,
    ) -> None:
        self._on_hit = on_hit
        self._is_stopped = False
        self._plan = plan
        self._executors = executors
        self._writer = writer
        self._observer = observer
        self.tally = Tally()
        """What came of it, also when it ended with an error."""
        self._booted: set[tuple[str, str]] = set()
        """Host and platform of each machine that came up."""
        self._unbootable: dict[tuple[str, str], Failure] = {}

    async def run(self) -> Tally:
        """Measure every cell of the plan.

        Returns:
            What was measured and what failed.

        Raises:
            DiskError: The run cannot be written further.
            OtherMakerError: A machine is not the one that a resumed run was measured on.
            StealtimeError: The busy loop could not be calibrated.
            asyncio.CancelledError: Interrupted; what the current cell has measured is kept, marked as cut short.
        """
        state = "interrupted"
        try:
            await self._calibrate()
            for boot in self._plan.boots:
                if not self._is_stopped:
                    await self._carry_out(boot)
            if len(self.tally.measured) + len(self.tally.failed) >= len(self._plan.cells) or not self._is_stopped:
                state = "finished"
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            raise DiskError(
                f"{self._writer.folder} cannot be written: {error.strerror}", hint=DISK_FULL_HINT
            ) from error
        finally:
            self._writer.update(state=state, finished_at=datetime.now(UTC))
        return self.tally

    def _tell(self, event: Event) -> None:
        self._observer.on_event(event)

    async def _calibrate(self) -> None:
        """Find the loops that the plan needs and the manifest has not yet; they are then the same everywhere."""
        known = {loop.loop_ns for loop in self._writer.manifest.loops}
        wanted = sorted(self._plan.loops_ns - known)
        if not wanted:
            return
        self._tell(Calibrating())
        with self._writer.scratch("calibration") as folder:
            found = await self._executors[self._plan.boots[0].host].calibrate(wanted, folder)
        self._writer.update(loops=[*self._writer.manifest.loops, *found])

    async def _carry_out(self, boot: PlannedBoot) -> None:
        queue, kind = deque(boot.cells), (boot.host, boot.platform)
        if kind in self._unbootable:
            self._fail_all(boot, queue, self._unbootable[kind], folder=None)
            return
        for attempt in range(_BOOTS_A_MACHINE):
            is_last = attempt == _BOOTS_A_MACHINE - 1
            with self._writer.scratch(
                f"{boot.platform}.{boot.scenario}.r{boot.repetition}".replace("/", "-")
            ) as folder:
                self._tell(Booting(boot, again=attempt > 0))
                try:
                    lost = await self._boot_and_measure(boot, queue, folder, is_last)
                except (DiskError, OtherMakerError):
                    raise
                except StealtimeError as error:
                    failure = _failure(error, folder)
                    if kind not in self._booted and not isinstance(error, NeighbourError):
                        self._unbootable[kind] = failure.model_copy(
                            update={"message": f"not tried again, because the first boot failed: {failure.message}"}
                        )
                    self._fail_all(boot, queue, failure, folder)
                    return
                if lost is None:
                    return
                if is_last:
                    self._fail_all(boot, queue, lost, folder)
                else:
                    self._tell(MachineLost(boot, lost.message))

    async def _boot_and_measure(
        self, boot: PlannedBoot, queue: deque[PlannedCell], folder: Path, is_last: bool
    ) -> Failure | None:
        """Measure what is in ``queue``.

        Returns:
            Why the machine was lost, with the cells that it still owes in ``queue``; None when all is done.

        Raises:
            StealtimeError: The machine or a neighbour did not boot.
        """
        lost: Failure | None = None
        executor = self._executors[boot.host]
        async with executor.boot(boot, folder, self._writer.manifest.loops) as machine:
            self._booted.add((boot.host, boot.platform))
            while queue and lost is None:
                if (ended := machine.end()) is not None:
                    lost = Failure(message=ended, log_tail=_log_tail(folder))
                    break
                cell = queue.popleft()
                self._tell(CellStarted(cell))
                started = _Start()
                try:
                    measured = await self._measure(machine, cell, folder)
                    self._tell(CellStoring(cell))
                    await self._store(measured, folder)
                except StealtimeError as error:
                    failure = _failure(error, folder)
                    if (full := _as_disk_error(error)) is not None:
                        with contextlib.suppress(DiskError):
                            await self._keep_parts(cell, error.message, failure, folder)
                        raise full from error.__cause__
                    await self._keep_parts(cell, failure.message, failure, folder)
                    if await machine.is_alive():
                        self._fail(boot, cell, failure, folder, started)
                        continue
                    reason = machine.end()
                    # Where its channel closed, the error tells already how it ended.
                    lost = (
                        failure
                        if reason is None or reason in error.message
                        else failure.model_copy(update={"message": f"{error.message} ({reason})"})
                    )
                else:
                    self._count(measured.record)
                    self._tell(CellMeasured(cell, measured.record))
                    await self._at_threshold(measured.record, queue)
                    continue
                limit_s = (cell.duration_ns + self._plan.campaign.cell_timeout_ns) / 1e9
                if is_last or started.elapsed_s >= limit_s:
                    # What used up all its time would only do so again.
                    self._fail(boot, cell, lost, folder, started)
                else:
                    queue.append(cell)
        return lost if queue else None

    async def _measure(self, machine: Booted, cell: PlannedCell, folder: Path) -> Measured:
        """Carry out one trial.

        Raises:
            StealtimeError: There is no outcome.
            asyncio.CancelledError: Interrupted; what it had measured is on the disk.
        """
        with told_to(lambda words: self._tell(CellPreparing(cell, words))):
            measuring = asyncio.create_task(machine.measure(cell, self._keep_part))
        try:
            return await asyncio.shield(measuring)
        except asyncio.CancelledError:
            is_kept = False
            try:
                is_kept = await self._cut_short(machine, cell, measuring, folder)
            finally:
                measuring.cancel()
                await asyncio.gather(measuring, return_exceptions=True)
                if not is_kept and not await self._keep_parts(cell, INTERRUPTED, None, folder):
                    self._tell(CellDropped(cell))
            raise

    async def _cut_short(
        self, machine: Booted, cell: PlannedCell, measuring: "asyncio.Task[Measured]", folder: Path
    ) -> bool:
        """Take what an interrupted trial has measured, if that comes in time; tells whether it did."""
        if not await machine.stop():
            return False
        self._tell(CellStopping(cell))
        await asyncio.wait({measuring}, timeout=LAST_WORDS_S)
        if not measuring.done() or measuring.cancelled() or measuring.exception() is not None:
            return False
        measured = measuring.result()
        record = marked_if_cancelled(measured.record, INTERRUPTED)
        if is_empty(record):
            return False
        await self._store(replace(measured, record=record), folder)
        if record.state == "cut_short":
            self.tally.cut_short.append(record.trial_id)
            self._tell(CellCutShort(cell, record))
        else:
            self._count(record)
            self._tell(CellMeasured(cell, record))
        return True

    async def _at_threshold(self, record: TrialRecord, queue: deque[PlannedCell]) -> None:
        """Tell of a sample over the threshold, and end the run where it is to stop there."""
        if record.outcome is None or record.outcome.threshold is None:
            return
        self.tally.hits.append(record.trial_id)
        if self._on_hit is not None:
            await _to_its_end(asyncio.to_thread(self._on_hit, self._writer.folder, record))
        if ends_run(record):
            self._is_stopped = True
            queue.clear()

    async def _keep_part(self, record: TrialRecord, kind: ResultKind, streams: Streams) -> None:
        """Have a part of a trial that goes on on the disk; an interruption waits for it."""
        await _to_its_end(asyncio.to_thread(self._writer.append_part, record, kind, streams))

    async def _keep_parts(self, cell: PlannedCell, why: str, failure: Failure | None, folder: Path | None) -> bool:
        """Keep the parts of a trial that gives nothing more; tells whether there were any.

        Raises:
            DiskError: They cannot be joined. They are there all the same, and count.
        """
        logs = _logs(folder) if folder is not None else {}
        kept = await _to_its_end(asyncio.to_thread(self._writer.adopt_part, cell.trial_id, why, failure, logs))
        if kept is None:
            return False
        self.tally.cut_short.append(kept.record.trial_id)
        self._tell(CellCutShort(cell, kept.record))
        if kept.unjoined is not None:
            raise kept.unjoined
        return True

    async def _store(self, measured: Measured, folder: Path) -> None:
        """Write a trial; an interruption waits for it, since what is measured should not be lost."""
        await _to_its_end(asyncio.to_thread(self._writer.write_trial, measured.record, measured.tables, _logs(folder)))
        for stream in () if measured.tables is None else measured.tables.streams:
            stream.unlink(missing_ok=True)

    def _count(self, record: TrialRecord) -> None:
        # A part that was kept before a second attempt has made way.
        self.tally.cut_short = [one for one in self.tally.cut_short if one != record.trial_id]
        self.tally.measured.append(record.trial_id)
        if not is_usable(record):
            self.tally.invalid.append(record.trial_id)

    def _fail_all(self, boot: PlannedBoot, queue: deque[PlannedCell], failure: Failure, folder: Path | None) -> None:
        while queue:
            self._fail(boot, queue.popleft(), failure, folder, _Start())

    def _fail(
        self, boot: PlannedBoot, cell: PlannedCell, failure: Failure, folder: Path | None, started: _Start
    ) -> None:
        record = TrialRecord(
            cell=cell.cell,
            repetition=cell.repetition,
            host=boot.host,
            state="failed",
            started_at=started.at,
            elapsed_s=started.elapsed_s,
            failure=failure,
        )
        self._writer.write_trial(record, None, _logs(folder) if folder is not None else {})
        self.tally.failed.append(record.trial_id)
        self._tell(CellFailed(cell, failure))


async def _to_its_end(writing: Coroutine[Any, Any, _Written]) -> _Written:
    """Wait for what writes also when interrupted, however often, since what is measured should not be lost."""
    task = asyncio.create_task(writing)
    interruption: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            interruption = error
    written = task.result()
    if interruption is not None:
        raise interruption
    return written


def _as_disk_error(error: StealtimeError) -> DiskError | None:
    """Give it as a full disk, if it is one: without room for samples the run ends, and no other cell is tried."""
    if isinstance(error, DiskError):
        return error
    cause = error.__cause__
    is_full = isinstance(cause, OSError) and cause.errno in DISK_FULL
    return DiskError(error.message, hint=DISK_FULL_HINT) if is_full else None


def _logs(folder: Path) -> dict[str, Path]:
    """Give the logs that a cell keeps, by the names that they get: a neighbour's as ``neighbour-1.serial.log``."""
    own = {name: folder / name for name in _LOGS}
    neighbours = sorted(folder.glob("neighbour-*"))
    return own | {f"{each.name}.{name}": each / name for each in neighbours for name in _LOGS}


def _log_tail(folder: Path) -> list[str]:
    """Give the last lines of the serial log, or of the agent's where there is none."""
    return next((tail.splitlines() for name in _LOGS if (tail := read_tail(folder / name))), [])


def _failure(error: StealtimeError, folder: Path) -> Failure:
    return Failure(message=error.message, hint=error.hint, log_tail=_log_tail(folder))
