"""How often and how long the hypervisor was entered, in words: a line for each cell whose hypervisor counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stealtime.lab.platforms.kvm_counters import COUNTERS
from stealtime.report import notation
from stealtime.report.cells.model import CellFigures, plain_cells
from stealtime.report.cells.surroundings import HypervisorFigures
from stealtime.report.order import platform_order, scenario_order
from stealtime.report.plain_table import cell_title
from stealtime.report.summary import RunSummary

TITLE = "How often and how long the hypervisor was entered"
_KINDS_SHOWN = 3
"""Of a cell, the most frequent: what comes behind them is seldom a tenth of the first."""


@dataclass(frozen=True)
class Kind:
    """Why a guest was left, and how often."""

    words: str
    rate: str
    """In a second."""


@dataclass(frozen=True)
class HypervisorLine:
    """One cell, all its repetitions and virtual CPUs together; a dash stands where KVM did not count."""

    platform: str
    probe: str
    is_valid: bool
    exits: str
    """In a second; so are halts."""
    halts: str
    polls_won: str
    """Of the polls for the end of a halt those that saw it."""
    polled_in_vain: str
    """Of the virtual CPUs' time; so is ``waited``."""
    waited: str
    kinds: tuple[Kind, ...]
    """The most frequent first."""


def hypervisor_lines(summary: RunSummary) -> dict[str, list[HypervisorLine]]:
    """Give the lines of each scenario, ``alone`` first; nothing where no cell has counters."""
    plain = plain_cells(summary.cells)
    cells = sorted(plain, key=lambda cell: platform_order(cell.platform))
    lines: dict[str, list[HypervisorLine]] = {}
    for scenario in scenario_order(cell.scenario for cell in plain):
        for cell in cells:
            if cell.scenario == scenario and cell.hypervisor is not None:
                lines.setdefault(scenario, []).append(_line(cell, cell.hypervisor))
    return lines


def kind_meanings(lines: Mapping[str, Sequence[HypervisorLine]]) -> list[tuple[str, str]]:
    """Give each kind of exit that some line names, and what it means."""
    named = {kind.words for own in lines.values() for line in own for kind in line.kinds}
    return [(one.kind_of_exit, one.meaning) for one in COUNTERS if one.kind_of_exit in named and one.kind_of_exit]


def _line(cell: CellFigures, figures: HypervisorFigures) -> HypervisorLine:
    return HypervisorLine(
        platform=cell.platform,
        probe=cell_title(cell.probe, cell.parameters),
        is_valid=cell.valid,
        exits=_rate(figures, "exits"),
        halts=_rate(figures, "halt_exits"),
        polls_won=_share(figures.polls_won_share),
        polled_in_vain=_share(figures.time_share.get("halt_poll_fail")),
        waited=_share(figures.time_share.get("halt_wait")),
        kinds=_kinds(figures),
    )


def _kinds(figures: HypervisorFigures) -> tuple[Kind, ...]:
    rates = [(figures.per_s.get(one.name, 0.0), one.kind_of_exit) for one in COUNTERS if one.kind_of_exit is not None]
    largest = sorted((pair for pair in rates if pair[0] > 0), key=lambda pair: -pair[0])[:_KINDS_SHOWN]
    return tuple(Kind(words, notation.three_digits(rate)) for rate, words in largest)


def _rate(figures: HypervisorFigures, name: str) -> str:
    rate = figures.per_s.get(name)
    return notation.ABSENT if rate is None else notation.three_digits(rate)


def _share(share: float | None) -> str:
    return notation.ABSENT if share is None else notation.percent(share)
