"""What a run is about to do, as the checks before it see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stealtime.campaigns.planned import PlannedBoot
from stealtime.campaigns.planner import Plan
from stealtime.campaigns.probe import Driver
from stealtime.campaigns.registry import probes
from stealtime.lab.host import LocalHost
from stealtime.lab.platforms.model import Platform
from stealtime.store.run import Run


@dataclass(frozen=True)
class Intention:
    """A plan that nothing was done for yet."""

    plan: Plan
    """What is left to measure; a resumed run's plan may be empty."""
    platforms: Mapping[str, Platform]
    """Those of the plan, and ``native``, which calibrates."""
    host: LocalHost
    runs_folder: Path
    is_kernel_named: bool = False
    """Whether the kernel stands on the command line: the default one is a choice then, too."""
    resume: Run | None = None
    """The run that is to go on."""

    @property
    def boots(self) -> tuple[PlannedBoot, ...]:
        """All machines that are to be booted, in their order."""
        return self.plan.boots

    def priority_of(self, boot: PlannedBoot) -> int:
        """Give the priority of the measuring threads: a scenario's own goes before the campaign's."""
        own = self.plan.placement(boot.platform, boot.scenario).priority
        return self.plan.campaign.priority if own is None else own

    @property
    def on_machines(self) -> list[PlannedBoot]:
        """The boots whose trials an agent in the machine carries out."""
        return [boot for boot in self.boots if driver_of(boot) is None]

    @property
    def driven(self) -> list[tuple[PlannedBoot, Driver]]:
        """The boots whose trials a driver carries out, each with it."""
        return [(boot, driver) for boot in self.boots if (driver := driver_of(boot)) is not None]


def driver_of(boot: PlannedBoot) -> Driver | None:
    """Give the driver that carries out the cells of a boot; None where an agent in the machine does."""
    return probes()[boot.cells[0].cell.probe].driver
