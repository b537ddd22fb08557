"""How long a plan will take: what earlier runs on this host took, stated defaults where there were none."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.campaigns.planner import Plan
from stealtime.campaigns.registry import parameters_of, probes
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.placement import SAME_WORK
from stealtime.store.model import Cell, TrialRecord
from stealtime.store.run import Run, runs_in
from stealtime.vocabulary.errors import StealtimeError

_RUNS_LOOKED_AT = 5


@dataclass(frozen=True)
class History:
    """What earlier runs took, in seconds."""

    boot_s: dict[str, float] = field(default_factory=dict)
    """By platform: from the start of the machine to the agent's hello."""
    overhead_s: dict[tuple[str, str, bool], float] = field(default_factory=dict)
    """By platform, probe and whether it was traced: what a trial took beyond its duration."""

    def boot(self, platform: str) -> float:
        """Give the seconds that a boot of ``platform`` is expected to take."""
        if platform in self.boot_s:
            return self.boot_s[platform]
        return traits_of(platform).boot_s

    def knows(self, boot: PlannedBoot) -> bool:
        """Tell whether earlier runs have had such a boot; one of a driver is part of its trials."""
        if not _has_driver(boot):
            return boot.platform in self.boot_s
        return all(self.has_seen(planned.cell) for planned in boot.cells)

    def has_seen(self, cell: Cell) -> bool:
        """Tell whether earlier runs say what trials of such a cell take."""
        return (cell.platform, cell.probe, cell.traced) in self.overhead_s

    def overhead(self, cell: Cell, duration_s: float) -> float:
        """Give the seconds that a trial of ``cell`` is expected to take beyond its duration."""
        seen = self.overhead_s.get((cell.platform, cell.probe, cell.traced))
        if seen is not None:
            return seen
        beyond_s = parameters_of(cell).beyond_s(duration_s)
        return traits_of(cell.platform).overhead_s[cell.traced] if beyond_s is None else beyond_s


@dataclass(frozen=True)
class Estimate:
    """The parts of the time that a plan will take."""

    measuring_s: float
    booting_s: float
    overhead_s: float
    guessed: tuple[str, ...]
    """Platforms that no earlier run has booted or, for a driver, carried the same probe out on: defaults are used."""

    @property
    def total_s(self) -> float:
        return self.measuring_s + self.booting_s + self.overhead_s


def estimate(plan: Plan, history: History) -> Estimate:
    return Estimate(
        measuring_s=sum(_planned_ns(plan, one) for one in plan.cells) / 1e9,
        booting_s=sum(_boot_s(boot, plan, history) for boot in plan.boots),
        overhead_s=sum(_overhead_s(boot, history) for boot in plan.boots),
        guessed=tuple(dict.fromkeys(boot.platform for boot in plan.boots if not history.knows(boot))),
    )


def lasts_s(plan: Plan, planned: PlannedCell) -> float:
    """Give how long a cell is expected to take, in seconds, without the boot of its machine."""
    return _planned_ns(plan, planned) / 1e9 + History().overhead(planned.cell, planned.duration_ns / 1e9)


def _overhead_s(boot: PlannedBoot, history: History) -> float:
    """Give what the trials of a boot take beyond their durations, with what a driver sets up for the first of them."""
    total_s = 0.0
    there: set[Hashable] = set()
    for one in boot.cells:
        total_s += history.overhead(one.cell, one.duration_ns / 1e9)
        parameters = parameters_of(one.cell)
        if parameters.set_up not in there and not history.has_seen(one.cell):
            there.add(parameters.set_up)
            total_s += parameters.set_up_s
    return total_s


def _has_driver(boot: PlannedBoot) -> bool:
    return probes()[boot.cells[0].cell.probe].driver is not None


def _planned_ns(plan: Plan, planned: PlannedCell) -> float:
    placement = plan.placement(planned.cell.platform, planned.cell.scenario)
    alike = [each.each_vcpu for each in placement.neighbours if each.load == SAME_WORK]
    return _expected_ns(planned.cell, planned.duration_ns, [placement.vcpu_cpus, *alike])


def _measured_ns(record: TrialRecord, duration_ns: int) -> float:
    """Give how long a trial was expected to measure."""
    if record.placement is None:
        return duration_ns
    alike = [[each.cpus] * each.vcpus for each in record.neighbours if each.load is None]
    return _expected_ns(record.cell, duration_ns, [record.placement.vcpu_cpus, *alike])


def _expected_ns(cell: Cell, duration_ns: int, guests: Sequence[Sequence[Sequence[int]]]) -> float:
    """Give how long a trial measures; a probe that this version does not know takes its duration.

    Args:
        cell: Which.
        duration_ns: What it may take.
        guests: Of each that does the work, where each virtual CPU may run.
    """
    expected_ns = parameters_of(cell).expected_ns if cell.probe in probes() else None
    if expected_ns is None:
        return duration_ns
    vcpus = [cpus for each_vcpu in guests for cpus in each_vcpu]
    cpus_used = min(len(vcpus), len({cpu for cpus in vcpus for cpu in cpus}))
    return min(duration_ns, expected_ns * len(guests) / cpus_used)


def _boot_s(boot: PlannedBoot, plan: Plan, history: History) -> float:
    """Neighbours boot at once, before the machine: so many boots longer as there are neighbours on each CPU.

    What a driver boots is part of its trials.
    """
    if _has_driver(boot):
        return 0.0
    neighbours = plan.placement(boot.platform, boot.scenario).neighbours
    machines = [each for each in neighbours if each.kind == "machine"]
    cpus = {cpu for each in machines for cpu in each.cpus}
    rounds = -(-len(machines) // len(cpus)) if machines else 0
    return history.boot(boot.platform) * (1 + rounds)


def read_history(runs_folder: Path) -> History:
    """Read what the last few runs took; a damaged run only has nothing to tell."""
    boots: dict[str, list[float]] = defaultdict(list)
    overheads: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
    for run in _last_runs(runs_folder):
        for trial in run.whole:
            record = trial.record
            cell = record.cell
            if record.machine is not None:
                boots[cell.platform].append(record.machine.boot.elapsed_to_hello_s)
            duration_ns = record.duration_ns if record.outcome is None else record.outcome.request.duration_ns
            if duration_ns is not None:
                over_s = record.elapsed_s - _measured_ns(record, duration_ns) / 1e9
                overheads[cell.platform, cell.probe, cell.traced].append(max(0.0, over_s))
    # A driver boots a guest in some of its trials and not in others: the mean, and not the median, adds up.
    return History(
        {platform: median(values) for platform, values in boots.items()},
        {key: fmean(values) for key, values in overheads.items()},
    )


def _last_runs(runs_folder: Path) -> Iterable[Run]:
    for folder in runs_in(runs_folder)[-_RUNS_LOOKED_AT:]:
        try:
            run = Run.open(folder)
            run.trials  # noqa: B018 - read here, so that a damaged trial is met here
        except StealtimeError:
            continue
        yield run
