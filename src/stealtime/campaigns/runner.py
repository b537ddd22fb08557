"""Carrying out a plan: machines booted one after the other, their cells measured, every whole cell kept.

A machine that dies or goes silent is booted once more for the cells it still owes, the one it died in last, so that a
cell which kills its machine takes no other with it. What fails then has failed, and the run goes on. A cell that used
up its timeout has failed at once. A neighbour that dies makes the trial that it dies in invalid; for the cells after
that one everything is booted once more.
"""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from stealtime.campaigns.beside import NeighbourError, set_up_beside
from stealtime.campaigns.events import (
    Booting,
    Calibrating,
    CellFailed,
    CellMeasured,
    CellStarted,
    CellStoring,
    Event,
    MachineLost,
    Observer,
)
from stealtime.campaigns.loops import choose_loop
from stealtime.campaigns.model import Campaign
from stealtime.campaigns.planner import Plan, PlannedBoot, PlannedCell
from stealtime.campaigns.provenance import OtherMakerError, refuse_other_machine
from stealtime.campaigns.trial import Measured, TrialSettings, is_alive, measure
from stealtime.lab.platforms import below
from stealtime.lab.platforms.failure import read_tail
from stealtime.lab.platforms.model import Machine, MachineRequest, Platform
from stealtime.lab.platforms.traits import NATIVE
from stealtime.lab.scenarios.placement import Placement
from stealtime.store.model import Failure, LoopRecord, MachineRecord, TrialRecord
from stealtime.store.writer import DISK_FULL, DISK_FULL_HINT, DiskError, RunWriter
from stealtime.vocabulary.errors import StealtimeError

_BOOTS_A_MACHINE = 2
_LOGS = ("serial.log", "agent.log")


@dataclass
class Tally:
    """How a run went."""

    measured: list[str] = field(default_factory=list)
    """Trial ids."""
    invalid: list[str] = field(default_factory=list)
    """Of the measured ones, those that must not be used."""
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Lab:
    """What a run needs besides its plan."""

    platforms: Mapping[str, Platform]
    """Those of the plan, and ``native``."""
    earlier_loops: Mapping[int, LoopRecord] = field(default_factory=dict)
    """By length: the loop of an earlier run, which is taken again where a calibration finds nearly the same."""
    machines: Mapping[str, MachineRecord] = field(default_factory=dict)
    """By platform, the machine that a resumed run has cells of."""


class Runner:
    """Carries out one plan."""

    def __init__(self, plan: Plan, lab: Lab, writer: RunWriter, observer: Observer) -> None:
        self._plan = plan
        self._lab = lab
        self._writer = writer
        self._observer = observer
        self.tally = Tally()
        """What came of it, also when it ended with an error."""
        self._booted: set[str] = set()
        self._unbootable: dict[str, Failure] = {}

    async def run(self) -> Tally:
        """Measure every cell of the plan.

        Returns:
            What was measured and what failed.

        Raises:
            DiskError: The run cannot be written further.
            OtherMakerError: A machine is not the one that a resumed run was measured on.
            StealtimeError: The busy loop could not be calibrated.
            asyncio.CancelledError: Interrupted; the current cell is dropped, what is whole is kept.
        """
        state = "interrupted"
        try:
            await self._calibrate()
            for boot in self._plan.boots:
                await self._carry_out(boot)
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

    @property
    def _campaign(self) -> Campaign:
        return self._plan.campaign

    def _request(self, placement: Placement, folder: Path) -> MachineRequest:
        return MachineRequest(
            vcpu_cpus=placement.vcpu_cpus,
            housekeeping_cpus=placement.housekeeping_cpus,
            folder=folder,
            emulator_cpus=placement.emulator_cpus,
            share=placement.share,
            realtime=self._priority(placement) > 0,
            memory_bytes=self._campaign.memory_bytes,
            kernel=self._campaign.kernel,
            boot_timeout_s=self._campaign.boot_timeout_ns / 1e9,
        )

    def _priority(self, placement: Placement) -> int:
        return self._campaign.priority if placement.priority is None else placement.priority

    async def _calibrate(self) -> None:
        """Find the loops that the plan needs and the manifest has not yet: natively, then the same everywhere."""
        known = {loop.loop_ns for loop in self._writer.manifest.loops}
        wanted = self._plan.loops_ns - known
        if not wanted:
            return
        self._tell(Calibrating())
        # On the whole of one CPU: a share would stretch the loop that everything is measured with.
        placement = replace(self._plan.first_placement, share=None)
        loops = list(self._writer.manifest.loops)
        with self._writer.scratch("calibration") as folder:
            async with self._lab.platforms[NATIVE].boot(self._request(placement, folder)) as machine:
                for loop_ns in sorted(wanted):
                    found = await machine.connection.calibrate(
                        loop_ns=loop_ns, cpu=machine.measured_cpus[-1], priority=self._campaign.priority
                    )
                    own = LoopRecord(loop_ns=loop_ns, iterations=found.iterations, floor_ns=found.floor_ns)
                    loops.append(choose_loop(own, self._lab.earlier_loops))
        self._writer.update(loops=loops)

    async def _carry_out(self, boot: PlannedBoot) -> None:
        queue = deque(boot.cells)
        if boot.platform in self._unbootable:
            self._fail_all(queue, self._unbootable[boot.platform], folder=None)
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
                    if boot.platform not in self._booted and not isinstance(error, NeighbourError):
                        self._unbootable[boot.platform] = failure.model_copy(
                            update={"message": f"not tried again, because the first boot failed: {failure.message}"}
                        )
                    self._fail_all(queue, failure, folder)
                    return
                if lost is None:
                    return
                if is_last:
                    self._fail_all(queue, lost, folder)
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
        placement = self._plan.placements[boot.scenario]
        platform = self._lab.platforms[boot.platform]
        request = self._request(placement, folder)
        lost: Failure | None = None
        async with (
            set_up_beside(
                placement,
                platform,
                folder,
                native=self._lab.platforms[NATIVE],
                cells=boot.cells,
                kernel=request.kernel,
                memory_bytes=request.memory_bytes,
                boot_timeout_s=request.boot_timeout_s,
            ) as beside,
            platform.boot(request) as machine,
        ):
            self._booted.add(boot.platform)
            refuse_other_machine(self._writer.manifest.run_id, self._lab.machines, machine)
            settings = self._settings(placement, machine, folder)
            number = 0
            while queue and lost is None:
                if (died := beside.neighbours.failure()) is not None:
                    lost = Failure(message=died, log_tail=_log_tail(folder))
                    break
                cell = queue.popleft()
                self._tell(CellStarted(cell))
                started_at, begin = datetime.now(UTC), time.monotonic()
                try:
                    measured = await measure(machine, beside, cell, number := number + 1, settings, self._observer)
                    self._tell(CellStoring(cell))
                    await self._store(measured, folder)
                except DiskError:
                    raise
                except StealtimeError as error:
                    _raise_if_disk_full(error)
                    failure = _failure(error, folder)
                    if await is_alive(machine) and beside.neighbours.failure() is None:
                        self._fail(cell, failure, folder, started_at, time.monotonic() - begin)
                        continue
                    reason = machine.exit_reason() or beside.neighbours.failure()
                    lost = (
                        failure
                        if reason is None
                        else failure.model_copy(update={"message": f"{error.message} ({reason})"})
                    )
                else:
                    self._count(measured.record)
                    self._tell(CellMeasured(cell, measured.record))
                    continue
                limit_s = (cell.duration_ns + self._campaign.cell_timeout_ns) / 1e9
                if is_last or time.monotonic() - begin >= limit_s:
                    # What used up all its time would only do so again.
                    self._fail(cell, lost, folder, started_at, time.monotonic() - begin)
                else:
                    queue.append(cell)
        return lost if queue else None

    async def _store(self, measured: Measured, folder: Path) -> None:
        """Write a trial; an interruption waits for it, since what is measured should not be lost."""
        writing = asyncio.create_task(
            asyncio.to_thread(self._writer.write_trial, measured.record, measured.tables, _logs(folder))
        )
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await writing
            raise
        for stream in measured.tables.streams:
            stream.unlink(missing_ok=True)

    def _settings(self, placement: Placement, machine: Machine, folder: Path) -> TrialSettings:
        group = machine.cpu_group
        lifts = self._campaign.lifts_rt_throttling(machine.platform)
        return TrialSettings(
            priority=self._campaign.priority,
            lift_rt_throttling=lifts,
            iterations={loop.loop_ns: loop.iterations for loop in self._writer.manifest.loops},
            findings=(
                *below.findings(),
                *placement.findings,
                *(() if group is None else group.findings_for(lift_rt_throttling=lifts)),
            ),
            spool=folder,
            timeout_s=self._campaign.cell_timeout_ns / 1e9,
            trace_buffer_bytes=self._campaign.trace_buffer_bytes,
            injection=self._campaign.injection,
        )

    def _count(self, record: TrialRecord) -> None:
        self.tally.measured.append(record.trial_id)
        if record.outcome is not None and not record.outcome.is_valid:
            self.tally.invalid.append(record.trial_id)

    def _fail_all(self, queue: deque[PlannedCell], failure: Failure, folder: Path | None) -> None:
        while queue:
            self._fail(queue.popleft(), failure, folder, datetime.now(UTC), 0.0)

    def _fail(
        self, cell: PlannedCell, failure: Failure, folder: Path | None, started_at: datetime, elapsed_s: float
    ) -> None:
        record = TrialRecord(
            cell=cell.cell,
            repetition=cell.repetition,
            state="failed",
            started_at=started_at,
            elapsed_s=elapsed_s,
            failure=failure,
        )
        self._writer.write_trial(record, None, _logs(folder) if folder is not None else {})
        self.tally.failed.append(record.trial_id)
        self._tell(CellFailed(cell, failure))


def _raise_if_disk_full(error: StealtimeError) -> None:
    """Nothing can be measured without room for the samples: the run ends here, and no other cell is tried."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno in DISK_FULL:
        raise DiskError(error.message, hint=DISK_FULL_HINT) from error


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
