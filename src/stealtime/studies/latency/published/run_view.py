"""A run as a publication would see it: the cells that fit its figures, and which platform stands for which machine."""

from stealtime.studies.latency.analysis.model import CellSummary, RunSummary
from stealtime.studies.latency.published.model import NS_A_US, Published, PublishedRow, Role
from stealtime.studies.latency.published.platforms import choose_platforms


class RunView:
    """Cells by scenario, test and platform; platforms by role.

    Attributes:
        summary: Of the run.
        published: What it is compared with.
        has_fitting_cells: Whether any untraced cell is of a test in a scenario that was published.
        traced: How many cells were left out because they were traced.
        throttled: The platforms that stand for a machine and were measured under the kernel's limit.
        stand_ins: Which platform stands for which machine: bare, emulated, paravirt.
    """

    def __init__(self, summary: RunSummary, published: Published) -> None:
        self.summary = summary
        self.published = published
        self._cells: dict[tuple[str, str, str], CellSummary] = {}
        untraced = [cell for cell in summary.cells if not cell.traced]
        # Of several busy loops the one nearest to theirs is compared.
        for cell in sorted(untraced, key=self._distance_of_loop, reverse=True):
            test = published_test_of(cell)
            if test is not None:
                self._cells[cell.scenario, test, cell.platform] = cell
        fitting = [cell for (scenario, test, _), cell in self._cells.items() if self._is_theirs(scenario, test)]
        self.has_fitting_cells = bool(fitting)
        self.traced = len(summary.cells) - len(untraced)
        self.stand_ins = choose_platforms(cell.platform for cell in fitting)
        used = {one.platform for one in self.stand_ins}
        self.throttled = sorted({one.platform for one in fitting if one.platform in used and one.held_back is not None})
        self._platforms = {one.role: one.platform for one in self.stand_ins}

    def _is_theirs(self, scenario: str, test: str) -> bool:
        return scenario in self.published.scenarios and test in self.published.tests

    def _distance_of_loop(self, cell: CellSummary) -> float:
        loop_ns = cell.parameters.get("loop_ns")
        return abs(loop_ns - self.published.tick_loop_us * NS_A_US) if isinstance(loop_ns, int) else 0.0

    def platform(self, role: Role) -> str | None:
        """Give our platform that stands for one of theirs."""
        return self._platforms[role]

    def scenario_of(self, role: Role, row: PublishedRow) -> str:
        """Give the scenario to take our figure from: the bare machine stands without neighbours in every table."""
        if role != "bare":
            return row.scenario_name
        alone = [*(one.scenario_name for one in self.published.rows if not one.neighbours), "alone"]
        measured = [name for name in dict.fromkeys(alone) if self.cell(name, row.test, role) is not None]
        valid = [name for name in measured if (cell := self.cell(name, row.test, role)) is not None and cell.valid]
        return next(iter([*valid, *measured]), row.scenario_name)

    def cell(self, scenario: str, test: str, role: Role) -> CellSummary | None:
        """Give our cell, if there is one."""
        platform = self.platform(role)
        return None if platform is None else self._cells.get((scenario, test, platform))

    def is_measured(self, scenario: str, platform: str | None = None) -> bool:
        """Tell whether a guest, or the one named, was measured in a scenario with any test."""
        guests = {self.platform("emulated"), self.platform("paravirt")} if platform is None else {platform}
        return any(cell.scenario == scenario and cell.platform in guests for cell in self._cells.values())


def published_test_of(cell: CellSummary) -> str | None:
    """Name a cell's probe as the published tests are named; None where they have no such test."""
    if cell.probe == "switch":
        return f"switch-{cell.parameters.get('threads')}"
    return "tick" if cell.probe == "tick" else None
