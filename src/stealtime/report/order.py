"""In which order platforms, scenarios and probes stand, the same in every table and figure."""

from collections.abc import Iterable

from stealtime.campaigns.registry import probes
from stealtime.lab.platforms.traits import TRAITS
from stealtime.store.model import Cell


def platform_order(platform: str) -> int:
    """Give the place of a platform; those that are not known stand behind all others, as they came."""
    return [*TRAITS, platform].index(platform)


def scenario_order(scenarios: Iterable[str]) -> list[str]:
    """Give each scenario once: ``alone`` first, then as the campaign has them; a builtin one follows its paper."""
    return list(dict.fromkeys(["alone", *scenarios]))


def probe_rank(probe: str) -> int:
    """Give the place of a probe among all that are registered."""
    return list(probes()).index(probe)


def probe_order(cell: Cell) -> tuple[object, ...]:
    """Give the place of a probe with its parameters: numbers by their size, not by their digits."""
    parameters = [f"{key}={value}" for key, value in sorted(cell.parameters.items())]
    numbers = tuple(int(value) if (value := text.partition("=")[2]).isdigit() else 0 for text in parameters)
    return (probe_rank(cell.probe), numbers, tuple(parameters))
