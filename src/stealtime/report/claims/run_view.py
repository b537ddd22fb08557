"""A run as a publication would see it: the cells that fit its figures, and which platform stands for which machine."""

from collections.abc import Callable

from stealtime.report.cells.model import CellFigures
from stealtime.report.claims.measurement import Measurement, SeenPeriods
from stealtime.report.claims.model import Published, PublishedRow, PublishedTest
from stealtime.report.claims.platforms import choose_platforms
from stealtime.report.studies import study_of
from stealtime.report.summary import RunSummary


class RunView:
    """Cells by scenario, test and platform; platforms by role.

    Attributes:
        summary: Of the run.
        published: What it is compared with.
        has_fitting_cells: Whether any untraced cell is of a test in a scenario that was published.
        traced: How many cells were left out because they were traced.
        limits: What limited cells of platforms that stand for a machine, in words.
        stand_ins: Which platform stands for which machine.
    """

    def __init__(self, summary: RunSummary, published: Published) -> None:
        self.summary = summary
        self.published = published
        self._cells: dict[tuple[str, str, str], CellFigures] = {}
        self._measurements: dict[tuple[str, str, str], Measurement] = {}
        untraced = [cell for cell in summary.cells if not cell.traced]
        for test in published.tests:
            # Of several the one nearest to theirs is compared, of those the one of which least else is unusual.
            for cell in sorted((cell for cell in untraced if _fits(cell, test)), key=_distance_to(test), reverse=True):
                self._cells[cell.scenario, test.name, cell.platform] = cell
        for key, cell in self._cells.items():
            self._measurements[key] = study_of(cell.probe).measurement(cell, published.test(key[1]).figure)
        fitting = {key: cell for key, cell in self._cells.items() if cell.scenario in published.scenarios}
        self.has_fitting_cells = bool(fitting)
        self.traced = len(summary.cells) - len(untraced)
        self.stand_ins = choose_platforms(published.machines, (cell.platform for cell in fitting.values()))
        self._platforms = {one.role: one.platform for one in self.stand_ins}
        limited: dict[str, set[str]] = {}
        for key, cell in fitting.items():
            limit = self._measurements[key].limit
            if limit is not None and cell.platform in self._platforms.values():
                limited.setdefault(limit, set()).add(cell.platform)
        self.limits = [limit.format(platforms=", ".join(sorted(names))) for limit, names in limited.items()]

    def platform(self, role: str) -> str | None:
        """Give our platform that stands for one of theirs."""
        return self._platforms[role]

    def scenario_of(self, role: str, row: PublishedRow) -> str:
        """Give the scenario to take our figure from: who stands alone has none but that without neighbours."""
        if not self.published.machine(role).stands_alone:
            return row.scenario
        alone = [*(one.scenario for one in self.published.rows if not one.neighbours), "alone"]
        measured = [name for name in dict.fromkeys(alone) if self.cell(name, row.test, role) is not None]
        valid = [name for name in measured if (cell := self.cell(name, row.test, role)) is not None and cell.valid]
        return next(iter([*valid, *measured]), row.scenario)

    def cell(self, scenario: str, test: str, role: str) -> CellFigures | None:
        platform = self.platform(role)
        return None if platform is None else self._cells.get((scenario, test, platform))

    def measurement(self, scenario: str, test: str, role: str) -> Measurement | None:
        platform = self.platform(role)
        return None if platform is None else self._measurements.get((scenario, test, platform))

    def periods(self, scenario: str, test: str, role: str) -> SeenPeriods | None:
        """Give what comes again in a cell; None where its study does not look, or the cell has no samples."""
        cell = self.cell(scenario, test, role)
        return None if cell is None else study_of(cell.probe).periods(cell)

    def is_measured(self, scenario: str, platform: str | None = None) -> bool:
        """Tell whether any machine that does not stand alone, or the one named, was measured in a scenario."""
        beside = {self.platform(one.role) for one in self.published.machines if not one.stands_alone}
        wanted = beside if platform is None else {platform}
        return any(cell.scenario == scenario and cell.platform in wanted for cell in self._cells.values())


def _fits(cell: CellFigures, test: PublishedTest) -> bool:
    return cell.probe == test.probe and test.parameters.items() <= cell.parameters.items()


def _distance_to(test: PublishedTest) -> Callable[[CellFigures], tuple[float, int]]:
    def distance(cell: CellFigures) -> tuple[float, int]:
        nearest = test.nearest
        own = None if nearest is None else cell.parameters.get(nearest.parameter)
        away = abs(own - nearest.value_ns) if nearest is not None and isinstance(own, int) else 0.0
        # A parameter that has its usual value is not stored.
        return away, len(cell.parameters)

    return distance
