"""From a campaign to an ordered list of boots and their cells. Pure."""

import random
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stealtime.campaigns.aliases import alias_words, resolve
from stealtime.campaigns.model import USABLE, Campaign
from stealtime.campaigns.parameters import Parameters
from stealtime.campaigns.places import HostCpus, Places, SkippedScenario, find_places
from stealtime.campaigns.planned import PlannedBoot, PlannedCell
from stealtime.campaigns.registry import parameters_of, probes
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.processors import CpuSets
from stealtime.lab.scenarios.model import Scenario
from stealtime.lab.scenarios.placement import Placement
from stealtime.store.model import Cell, PlatformRecord
from stealtime.vocabulary.errors import StealtimeError, UsageError


@dataclass(frozen=True)
class Plan:
    """Everything that a run does, in order."""

    campaign: Campaign
    boots: tuple[PlannedBoot, ...]
    places: Places
    """Who runs where."""
    skipped: tuple[PlatformRecord, ...] = ()
    """Platforms that cannot be used here."""
    skipped_pairs: tuple[str, ...] = ()
    """A sentence for each platform whose machines cannot be had in a scenario: it wants too many virtual CPUs, or a
    share on another host."""
    unplaced: tuple[str, ...] = ()
    """A sentence for each platform of the campaign that can be used and is measured in none of its scenarios."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """What an alias of the campaign stands for here."""
    alias_words: tuple[str, ...] = ()
    """The same in sentences, with the reason where a better platform cannot be used."""

    @property
    def cells(self) -> list[PlannedCell]:
        return [cell for boot in self.boots for cell in boot.cells]

    @property
    def loops_ns(self) -> set[int]:
        lengths = (cell.cell.parameters.get("loop_ns") for cell in self.cells)
        return {length for length in lengths if isinstance(length, int)}

    @property
    def skipped_scenarios(self) -> tuple[SkippedScenario, ...]:
        """Those that can be had nowhere."""
        return self.places.skipped

    def placement(self, platform: str, scenario: str) -> Placement:
        """Tell who runs where when a platform is measured in a scenario of its plan.

        Raises:
            KeyError: It is not.
        """
        placement = self.places.of(platform, scenario)
        if placement is None:
            raise KeyError(f"{scenario} is not measured on {platform}")
        return placement

    @property
    def housekeeping_cpus(self) -> tuple[int, ...]:
        """The CPUs on which the control plane is out of the way of every scenario, as far as there are any."""
        placements = [self.places.own, *self.places.here.values()]
        shared = set.intersection(*(set(placement.housekeeping_cpus) for placement in placements))
        return tuple(sorted(shared)) or self.places.own.housekeeping_cpus

    @property
    def skipped_by_name(self) -> list[PlatformRecord]:
        """The skipped platforms that the campaign asked for by name or by alias."""
        meant = {self.aliases.get(name, name) for name in self.campaign.platforms}
        return [record for record in self.skipped if record.name in meant]

    @property
    def skipped_words(self) -> list[str]:
        """Give a sentence for each reason, with all platforms that it is about, then one for each scenario."""
        names: dict[str, list[str]] = {}
        for record in self.skipped:
            names.setdefault(record.reason, []).append(record.name)
        platforms = [f"skipping {', '.join(about)}: {reason}" for reason, about in names.items()]
        scenarios = [f"skipping the scenario {one.name}: {one.reason}" for one in self.skipped_scenarios]
        return [*platforms, *scenarios, *self.places.skipped_words, *self.skipped_pairs]

    def without(self, trial_ids: Collection[str]) -> "Plan":
        """Leave out what is already there; boots without a cell are left out too."""
        boots = (
            replace(boot, cells=tuple(cell for cell in boot.cells if cell.trial_id not in trial_ids))
            for boot in self.boots
        )
        return replace(self, boots=tuple(boot for boot in boots if boot.cells))


def plan(
    campaign: Campaign,
    platforms: Sequence[PlatformRecord],
    host: HostCpus,
    boards: Mapping[str, CpuSets] | None = None,
) -> Plan:
    """Lay out a campaign: one boot for each platform, scenario and repetition measures all its cells.

    Repetitions are interleaved by platform, so that what changes slowly on the host (heat, load) meets all platforms.
    The first repetition keeps the order of ``platforms``; the later ones are shuffled with the campaign's seed.

    Args:
        campaign: What is wanted.
        platforms: Those that the campaign may use, checked, in order.
        host: Its CPUs.
        boards: By platform over ssh, the CPUs of that host.

    Raises:
        UsageError: Two probes of the campaign make the same cell, a probe is measured in none of its scenarios or
            cannot be traced, a scenario names a CPU that there is not, or a probe that needs SCHED_FIFO is to be
            measured at priority 0.
        StealtimeError: No platform can be used, or no scenario can be had here.
    """
    meant, aliases = resolve(campaign.platforms, platforms)
    usable = [record.name for record in meant if record.usable]
    skipped = tuple(record for record in meant if not record.usable)
    if not usable:
        reasons = "; ".join(f"{record.name}: {record.reason}" for record in skipped) or "none is known"
        raise StealtimeError(f"no platform can be used ({reasons})", hint="see `stealtime doctor`")
    places = find_places(campaign, usable, host, boards or {})
    _refuse_ordinary_scheduling(campaign, places.named)
    shuffled = random.Random(campaign.seed)  # noqa: S311 - an order, not a secret
    boots = []
    for repetition in range(1, campaign.repetitions + 1):
        order = list(usable)
        if repetition > 1:
            shuffled.shuffle(order)
        boots += [
            PlannedBoot(platform, scenario, repetition, cells, host.name)
            for platform in order
            for scenario in campaign.scenarios
            if _is_possible(campaign, platform, places.of(platform, scenario))
            for cells in _by_driver(_cells(campaign, platform, scenario, repetition))
        ]
    impossible = tuple(
        f"{name} of {platform}: {why}"
        for platform in usable
        for name in campaign.scenarios
        if (placement := places.of(platform, name)) is not None and (why := _why_not(platform, placement)) is not None
    )
    _refuse_unmeasured(campaign, tuple(dict.fromkeys(one.scenario for one in places.named.values())))
    if not boots:
        raise StealtimeError(
            f"none of the platforms {', '.join(usable)} can be had in any scenario of {campaign.name}"
            + (f" ({'; '.join(impossible)})" if impossible else ""),
            hint="name others with -P or --scenario",
        )
    _refuse_twins(boots)
    measured = {boot.platform for boot in boots}
    return Plan(
        campaign=campaign,
        boots=tuple(boots),
        places=places,
        skipped=skipped,
        skipped_pairs=tuple(f"skipping {pair}" for pair in impossible),
        unplaced=tuple(
            f"{platform} was asked for and can be had in none of the scenarios {', '.join(campaign.scenarios)}"
            for platform in usable
            if platform not in measured
            and USABLE not in campaign.platforms
            and any(_is_impossible(platform, places.of(platform, name)) for name in campaign.scenarios)
        ),
        aliases=aliases,
        alias_words=tuple(alias_words(aliases, platforms)),
    )


def _is_possible(campaign: Campaign, platform: str, placement: Placement | None) -> bool:
    if placement is None:
        return False
    if campaign.scenario(placement.scenario).guests_only and traits_of(platform).is_native:
        return False
    return _why_not(platform, placement) is None


def _is_impossible(platform: str, placement: Placement | None) -> bool:
    """Tell whether a platform cannot take part in a scenario, though it was meant to."""
    return placement is None or _why_not(platform, placement) is not None


def _why_not(platform: str, placement: Placement) -> str | None:
    """Say why a platform's machines cannot be had so; None where they can."""
    traits = traits_of(platform)
    if traits.most_vcpus is not None and len(placement.vcpu_cpus) > traits.most_vcpus:
        return f"its machines have {traits.most_vcpus} virtual CPU, and {len(placement.vcpu_cpus)} are wanted"
    shares = [placement.share, *(neighbour.share for neighbour in placement.neighbours)]
    share = next((one for one in shares if one is not None), None)
    if traits.is_remote and share is not None:
        return f"shares ({share.words}) are made on this host, and its machines are on another"
    return None


def _refuse_ordinary_scheduling(campaign: Campaign, placements: Mapping[str, Placement]) -> None:
    """See that no probe is measured at priority 0 that measures something else there."""
    needing = [cells.probe for cells in campaign.probes if probes()[cells.probe].needs_fifo]
    if not needing:
        return
    others = ",".join(probe.name for probe in probes().values() if not probe.needs_fifo)
    for name, placement in placements.items():
        if (campaign.priority if placement.priority is None else placement.priority) == 0:
            of = "the campaign" if placement.priority is None else f"the scenario {name}"
            raise UsageError(
                f"the probe {needing[0]} needs SCHED_FIFO, and {of} has priority 0",
                hint=f"leave it out with --probe {others}, or give a priority from 1 to 99",
            )


def _cells(campaign: Campaign, platform: str, scenario: str, repetition: int) -> tuple[PlannedCell, ...]:
    planned: list[PlannedCell] = []
    pairs = 0
    for cells in campaign.probes:
        if not _is_measured_in(cells.probe, campaign.scenario(scenario)):
            continue
        tracing = campaign.tracing_of(cells)
        driver = probes()[cells.probe].driver
        for own in cells.parameter_sets():
            if driver is not None and not _suits(platform, campaign.scenario(scenario), own):
                continue
            if any(one.model.name not in traits_of(platform).device_models for one in own.devices):
                continue
            variants = [tracing == "on"]
            if tracing == "both":
                # Whichever of a pair comes second finds warmer caches: the order alternates, also between repetitions.
                variants = [False, True] if (pairs + repetition) % 2 else [True, False]
                pairs += 1
            for traced in variants:
                cell = Cell(
                    platform=platform, scenario=scenario, probe=cells.probe, parameters=own.stored, traced=traced
                )
                planned.append(PlannedCell(cell, repetition, cells.duration_ns, cells.max_samples))
    return tuple(planned)


def _by_driver(cells: Sequence[PlannedCell]) -> list[tuple[PlannedCell, ...]]:
    """Part the cells of a platform in a scenario by what carries them out: each driver borrows real hosts by itself."""
    drivers = dict.fromkeys(probes()[one.cell.probe].driver for one in cells)
    return [_by_set_up([one for one in cells if probes()[one.cell.probe].driver is driver]) for driver in drivers]


def _by_set_up(cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
    """Put cells behind the first one for which the driver sets up the same, so that nothing is set up twice.

    What is set up first, and the order of the cells that share it, stay those of the campaign. A cell for which nothing
    is kept is alone.
    """
    alike: dict[Hashable, list[PlannedCell]] = {}
    for one in cells:
        set_up = parameters_of(one.cell).set_up
        alike.setdefault(one.trial_id if set_up is None else set_up, []).append(one)
    return tuple(one for group in alike.values() for one in group)


def _is_measured_in(probe: str, scenario: Scenario) -> bool:
    """Tell whether a probe and a scenario belong together: those of a driver do with no others."""
    driver = probes()[probe].driver
    if driver is not None:
        return scenario.name == driver.scenario or (scenario.hosts is not None and driver.takes_real_hosts)
    if scenario.hosts is not None:
        return False
    return all(other.driver is None or scenario.name != other.driver.scenario for other in probes().values())


def _suits(platform: str, scenario: Scenario, parameters: Parameters) -> bool:
    """Tell whether a driver has this cell on a platform: those over ssh are hosts, and only there."""
    traits = traits_of(platform)
    return traits.is_remote == (scenario.hosts is not None) and parameters.suits(traits)


def _refuse_unmeasured(campaign: Campaign, measured: Collection[str]) -> None:
    """See that each probe has a scenario, and that none is to be traced that no agent measures."""
    for cells in campaign.probes:
        driver = probes()[cells.probe].driver
        if driver is not None and campaign.tracing_of(cells) != "off":
            raise UsageError(f"the probe {cells.probe} cannot be traced", hint="leave --tracing out")
        if not any(_is_measured_in(cells.probe, campaign.scenario(name)) for name in measured):
            needed = f"only in the scenario {driver.scenario}" if driver is not None else "in none of its scenarios"
            raise UsageError(
                f"the probe {cells.probe} of {campaign.name} is measured {needed}, and it has {', '.join(measured)}",
                hint="leave one of the two out, with --probe or --scenario",
            )


def _refuse_twins(boots: Sequence[PlannedBoot]) -> None:
    seen: set[str] = set()
    for boot in boots:
        for cell in boot.cells:
            if cell.trial_id in seen:
                raise UsageError(
                    f"the campaign asks for the cell {cell.cell.name} twice",
                    hint="use `repetitions`, or give the two different parameters",
                )
            seen.add(cell.trial_id)
