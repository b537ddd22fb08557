"""What a report says, as plain data: gathered by ``gather``, put into words by ``wording``, drawn by the templates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stealtime.report.circumstances.limits import Limits, Remark
from stealtime.report.neighbours import Surroundings
from stealtime.report.palette import Look
from stealtime.store.model import Manifest, TrialRecord
from stealtime.studies.latency.analysis.model import RunSummary, Stats
from stealtime.studies.latency.rows import Row


@dataclass(frozen=True)
class DrawnRow(Row):
    """One line of the summary table: a cell with all its repetitions."""

    statistics: Stats
    """Of all repetitions that may be used, together."""
    repetitions: int
    remarks: tuple[Remark, ...]
    periods: tuple[str, ...]
    """What repeats in it, in words; of ``tick`` only."""


@dataclass(frozen=True)
class FigureSeries:
    """The figures' data of one trial."""

    identity: str
    """Unique in the page, fit for an HTML id."""
    platform: str
    repetition: int
    data: Mapping[str, Any]
    """What the page's scripts read (``templates/page.js``)."""
    envelope: str
    """The packed envelope."""


@dataclass(frozen=True)
class Group:
    """One probe with its parameters in one scenario: what is drawn into one set of figures."""

    identity: str
    scenario: str
    probe: str
    title: str
    """Of the probe with its parameters: the same in every scenario."""
    parameter: str
    """The probe's parameters, as part of the title."""
    question: str
    """What the probe finds out, in one sentence."""
    measured: str
    """What a sample is, for the axes: ``duration of one loop``."""
    rows: tuple[DrawnRow, ...]
    series: tuple[FigureSeries, ...]

    def row_of(self, platform: str) -> DrawnRow | None:
        return next((row for row in self.rows if row.cell.platform == platform), None)


@dataclass(frozen=True)
class ScenarioGroups:
    """All that was measured in one scenario."""

    identity: str
    name: str
    groups: tuple[Group, ...]

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that were measured in it, in the order of its first group."""
        return tuple(dict.fromkeys(row.cell.platform for group in self.groups for row in group.rows))

    def group_of(self, title: str) -> Group | None:
        return next((group for group in self.groups if group.title == title), None)


@dataclass(frozen=True)
class ReportContent:
    """All of a report."""

    manifest: Manifest
    groups: tuple[Group, ...]
    limits: Limits
    trials: tuple[TrialRecord, ...]
    platforms: tuple[str, ...]
    """Those with figures, native first."""
    buckets: int
    """Of each envelope, at most."""
    worst_a_trial: int
    """How many of the longest samples of each trial are embedded exactly."""
    surroundings: Mapping[str, Surroundings]
    """Of each scenario that says something of itself: where it was placed and what ran beside."""
    summary: RunSummary
    """Of the cells that are shown, also of those that failed."""
    looks: Mapping[str, Look]
    """Of each of ``platforms``."""

    @property
    def scenarios(self) -> tuple[ScenarioGroups, ...]:
        names = dict.fromkeys(group.scenario for group in self.groups)
        return tuple(
            ScenarioGroups(f"scenario-{number}", name, tuple(one for one in self.groups if one.scenario == name))
            for number, name in enumerate(names)
        )

    @property
    def probe_titles(self) -> tuple[str, ...]:
        """Every probe with its parameters, once; what is the same in several scenarios is one column."""
        return tuple(dict.fromkeys(group.title for group in self.groups))
