"""Where the machines of each platform are placed in each scenario: on this host, or on one over ssh. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stealtime.campaigns.model import Campaign
from stealtime.lab.processors import CpuSets
from stealtime.lab.scenarios.model import SCENARIOS
from stealtime.lab.scenarios.placement import Placement, ScenarioSkipped
from stealtime.lab.scenarios.placing import place
from stealtime.vocabulary.errors import StealtimeError, UsageError


@dataclass(frozen=True)
class HostCpus:
    """The CPUs of a host that a run may use."""

    allowed: tuple[int, ...]
    measured: int | None = None
    """As the user asked; None lets each scenario choose."""
    name: str = "local"
    """Of the host."""
    sets: CpuSets | None = None
    """Which may be named, and which the kernel keeps free; None where ``allowed`` is all that is known."""


@dataclass(frozen=True)
class SkippedScenario:
    """A scenario that cannot be honest on this host."""

    name: str
    reason: str
    hint: str | None


@dataclass(frozen=True)
class Places:
    """Who runs where."""

    here: Mapping[str, Placement]
    """By scenario, on this host; empty where nothing is measured here."""
    own: Placement
    """On this host, whatever is measured: the loop is calibrated and the host's facts are read there."""
    there: Mapping[str, Mapping[str, Placement]] = field(default_factory=dict)
    """By platform over ssh and by scenario, on that host."""
    skipped: tuple[SkippedScenario, ...] = ()
    """Those that can be had nowhere."""
    skipped_words: tuple[str, ...] = ()
    """A sentence for each scenario that one host over ssh cannot have, where another can."""
    remarks: tuple[str, ...] = ()
    """That a process was started on fewer CPUs than it may have; where the CPU was named, not that the kernel keeps one
    free."""

    def of(self, platform: str, scenario: str) -> Placement | None:
        """Give the placement of a platform's machines; None where it cannot be had."""
        there = self.there.get(platform)
        here = self.here.get(scenario)
        is_lent = here is not None and here.hosts is not None
        return here if there is None or is_lent else there.get(scenario)

    @property
    def named(self) -> dict[str, Placement]:
        """All of them by the scenario's name, and the platform's where that is on another host."""
        elsewhere = {f"{name} on {at}": one for at, placed in self.there.items() for name, one in placed.items()}
        return {**self.here, **elsewhere}


def find_places(campaign: Campaign, usable: Sequence[str], host: HostCpus, boards: Mapping[str, CpuSets]) -> Places:
    """Place all scenarios of a campaign.

    Args:
        campaign: Names them.
        usable: The platforms that take part.
        host: This host. A CPU that is named is one of each host that is measured.
        boards: By platform over ssh, the CPUs of that host.

    Raises:
        UsageError: A scenario or the user names a CPU that there is not.
        StealtimeError: No scenario can be had.
    """
    over_ssh = {name: sets for name, sets in boards.items() if name in usable}
    # A scenario with lent hosts is measured from here, whatever its platform is.
    is_lent = any(campaign.scenario(name).hosts is not None for name in campaign.scenarios)
    is_here = is_lent or any(name not in over_ssh for name in usable)
    here, missing = _place(campaign, host) if is_here else ({}, [])
    there: dict[str, dict[str, Placement]] = {}
    missing_there: list[tuple[str, SkippedScenario]] = []
    for platform, sets in over_ssh.items():
        try:
            placed, skipped = _place(campaign, replace(host, allowed=sets.usable, sets=sets))
        except UsageError as error:
            raise UsageError(f"{error.message} on {platform}", hint=error.hint) from None
        there[platform] = {name: one for name, one in placed.items() if one.hosts is None}
        missing_there += [(platform, one) for one in skipped]
    possible = {*here, *(name for placed in there.values() for name in placed)}
    nowhere = {one.name: one for one in [*missing, *(one for _, one in missing_there)] if one.name not in possible}
    if not possible:
        reasons = "; ".join(one.reason for one in nowhere.values())
        hint = next(iter(nowhere.values())).hint
        raise StealtimeError(f"no scenario of {campaign.name} is possible here: {reasons}", hint=hint)
    started = [*([("this host", host.sets)] if is_here else []), *over_ssh.items()]
    return Places(
        here=here,
        own=next(iter(here.values()), None) or place(SCENARIOS["alone"], host.allowed, None, host.sets),
        there=there,
        skipped=tuple(nowhere.values()),
        skipped_words=tuple(
            f"skipping the scenario {one.name} of {platform}: {one.reason}"
            for platform, one in missing_there
            if one.name in possible
        ),
        remarks=tuple(
            f"{at}: {sets.remark}"
            for at, sets in started
            if sets is not None
            and sets.remark
            # "All" means what was inherited, whichever CPU is measured; the isolated one is measured by default alone.
            and (host.measured is None or not sets.is_confined_by_the_kernel)
        ),
    )


def _place(campaign: Campaign, host: HostCpus) -> tuple[dict[str, Placement], list[SkippedScenario]]:
    placements: dict[str, Placement] = {}
    skipped: list[SkippedScenario] = []
    for name in campaign.scenarios:
        try:
            placements[name] = place(campaign.scenario(name), host.allowed, host.measured, host.sets)
        except ScenarioSkipped as reason:
            skipped.append(SkippedScenario(name, reason.reason, reason.hint))
    return placements, skipped
