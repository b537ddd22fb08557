"""Who carries out the trials of a plan on one host: the runner knows machines, neighbours and traces by this alone."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from stealtime.campaigns.booted import Booted, KeepPart, Measured, TrialSetup, keep_nothing
from stealtime.campaigns.events import Observer
from stealtime.campaigns.intention import driver_of
from stealtime.campaigns.loops import choose_loop
from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.campaigns.planner import Plan
from stealtime.campaigns.provenance import refuse_other_machine
from stealtime.campaigns.registry import parameters_of
from stealtime.campaigns.trial import Around, TrialSettings, is_alive, measure
from stealtime.campaigns.trial_setup import set_up_trials
from stealtime.lab.host import LocalHost
from stealtime.lab.platforms import below
from stealtime.lab.platforms.model import Machine, MachineRequest, Platform
from stealtime.lab.platforms.quotas import machine_quotas
from stealtime.lab.platforms.traits import NATIVE
from stealtime.lab.scenarios.placement import Placement
from stealtime.store.model import LoopRecord, MachineRecord
from stealtime.vocabulary.errors import StealtimeError


class Executor(Protocol):
    """Runs cells on one host."""

    async def calibrate(self, loops_ns: Sequence[int], folder: Path) -> list[LoopRecord]:
        """Find busy loops of these lengths, natively.

        Raises:
            StealtimeError: The host cannot be measured on.
        """
        ...

    def boot(self, boot: PlannedBoot, folder: Path, loops: Sequence[LoopRecord]) -> AbstractAsyncContextManager[Booted]:
        """Boot a machine and what its trials need around it; leaving the context ends all of it.

        Args:
            boot: What is wanted.
            folder: Where logs, sockets and tables are put until they are stored.
            loops: The busy loops of the run.

        Raises:
            NeighbourError: What is around the machine did not come up.
            OtherMakerError: It is not the machine that a resumed run was measured on.
            StealtimeError: The machine did not boot.
        """
        ...


@dataclass(frozen=True)
class LocalExecutor:
    """Runs cells on the host of this process."""

    plan: Plan
    platforms: Mapping[str, Platform]
    """Those of the plan, and ``native``."""
    observer: Observer
    run_id: str
    host: LocalHost = field(default_factory=LocalHost)
    earlier_loops: Mapping[int, LoopRecord] = field(default_factory=dict)
    """By length: the loop of an earlier run, which is taken again where a calibration finds nearly the same."""
    machines: Mapping[str, MachineRecord] = field(default_factory=dict)
    """By platform, the machine that a resumed run has cells of."""

    async def calibrate(self, loops_ns: Sequence[int], folder: Path) -> list[LoopRecord]:
        """Find busy loops of these lengths; see :class:`Executor`."""
        # On the whole of one CPU: a share would stretch the loop that everything is measured with.
        placement = replace(self.plan.places.own, share=None)
        loops = []
        async with self.platforms[NATIVE].boot(self._request(placement, folder)) as machine:
            for loop_ns in loops_ns:
                found = await machine.connection.calibrate(
                    loop_ns=loop_ns, cpu=machine.measured_cpus[-1], priority=self.plan.campaign.priority
                )
                own = LoopRecord(loop_ns=loop_ns, iterations=found.iterations, floor_ns=found.floor_ns)
                loops.append(choose_loop(own, self.earlier_loops))
        return loops

    @asynccontextmanager
    async def boot(self, boot: PlannedBoot, folder: Path, loops: Sequence[LoopRecord]) -> AsyncIterator[Booted]:
        """Boot a machine and what its trials need around it; see :class:`Executor`."""
        placement = self.plan.placement(boot.platform, boot.scenario)
        driver = driver_of(boot)
        if driver is not None:
            async with driver.boot(boot, placement, folder) as booted:
                yield booted
            return
        platform = self.platforms[boot.platform]
        request = _with_devices(self._request(placement, folder), boot.cells)
        async with (
            set_up_trials(self.host, placement, platform, request, boot.cells) as setup,
            platform.boot(request) as machine,
        ):
            refuse_other_machine(self.run_id, self.machines, machine)
            yield _LocalMachine(machine, setup, self._settings(placement, machine, folder, loops), self.observer)

    def _request(self, placement: Placement, folder: Path) -> MachineRequest:
        campaign = self.plan.campaign
        return MachineRequest(
            vcpu_cpus=placement.vcpu_cpus,
            housekeeping_cpus=placement.housekeeping_cpus,
            folder=folder,
            emulator_cpus=placement.emulator_cpus,
            share=placement.share,
            realtime=(campaign.priority if placement.priority is None else placement.priority) > 0,
            memory_bytes=campaign.memory_bytes,
            kernel=campaign.kernel,
            boot_timeout_s=campaign.boot_timeout_ns / 1e9,
            lost_after_s=campaign.cell_timeout_ns / 1e9,
        )

    def _settings(
        self, placement: Placement, machine: Machine, folder: Path, loops: Sequence[LoopRecord]
    ) -> TrialSettings:
        campaign, group = self.plan.campaign, machine.cpu_group
        lifts = campaign.lifts_rt_throttling(machine.platform)
        return TrialSettings(
            priority=campaign.priority,
            lift_rt_throttling=lifts,
            iterations={loop.loop_ns: loop.iterations for loop in loops},
            findings=(
                *below.findings(),
                *placement.findings,
                *(() if group is None else group.findings_for(lift_rt_throttling=lifts)),
                *machine_quotas(machine.threads()),
            ),
            spool=folder,
            timeout_s=campaign.cell_timeout_ns / 1e9,
            checkpoint_ns=campaign.checkpoint_ns,
            trace_buffer_bytes=campaign.trace_buffer_bytes,
            injection=campaign.injection,
            on_threshold=campaign.on_threshold,
        )


def _with_devices(request: MachineRequest, cells: Sequence[PlannedCell]) -> MachineRequest:
    """Ask for all devices that the cells of a boot measure, so that one boot does for all of them."""
    devices = dict.fromkeys(device for cell in cells for device in parameters_of(cell.cell).devices)
    return replace(request, devices=tuple(devices), is_emulator_traced=any(cell.cell.traced for cell in cells))


@dataclass
class _LocalMachine:
    """A machine of this host."""

    machine: Machine
    setup: TrialSetup
    settings: TrialSettings
    observer: Observer
    trials: int = 0

    async def measure(self, cell: PlannedCell, keep: KeepPart = keep_nothing) -> Measured:
        self.trials += 1
        around = Around(self.machine, self.setup, self.settings)
        return await measure(around, cell, self.trials, self.observer, keep)

    async def stop(self) -> bool:
        try:
            await self.machine.connection.cancel()
        except StealtimeError:
            return False
        return True

    async def is_alive(self) -> bool:
        return await is_alive(self.machine) and self.setup.neighbours.failure() is None

    def end(self) -> str | None:
        return self.machine.exit_reason() or self.setup.neighbours.failure()
