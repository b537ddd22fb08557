"""A run beside published figures, as models: what ``stealtime compare RUN --published NAME --json`` prints."""

from typing import Literal

from stealtime.report.summary import Figures
from stealtime.studies.latency.published.model import Role

SCHEMA_VERSION = 2
"""Of :class:`PublishedComparison`; rises when an older reader could misunderstand a newer document."""

Verdict = Literal["agrees", "disagrees", "not judged"]


class StandIn(Figures):
    """Which of our platforms stands for one of theirs."""

    role: Role
    platform: str | None
    """None where the run has none."""
    words: str
    """What that platform is; TCG is never called KVM."""


class Maximum(Figures):
    """One figure of a table, theirs and ours: of ``tick`` the largest overhead, of ``switch`` the longest latency."""

    role: Role
    platform: str | None
    scenario: str
    """Of our cell: the bare machine is measured without neighbours and stands in every table, as theirs does."""
    theirs_ns: float
    ours_ns: float | None
    ours_p50_ns: float | None
    """The median of the same quantity."""
    ours_p9999_ns: float | None
    """The 99.99th percentile of the same quantity; None where too few samples cannot tell it."""
    ours_of_repetitions_ns: list[float]
    """Of each valid repetition alone: single maxima of equal trials differ, and this is by how much."""
    samples: int | None
    """Of which ours is the maximum, all repetitions together."""
    scaled: str | None
    """How the scenario was made to fit a machine with fewer CPUs than the paper's."""
    unusable: str | None
    """Why it may not be judged; None where it may."""
    is_only_scaled: bool
    """Whether the scaling of the scenario is all that stands against it."""


class Judgement(Figures):
    """A ratio of two maxima, theirs and ours, and whether they say the same."""

    theirs: float
    ours: float | None
    ours_low: float | None
    """Where its 95 % interval begins; None with too few repetitions."""
    ours_high: float | None
    ours_p9999: float | None
    """The same ratio of 99.99th percentiles: it does not hang on two single samples."""
    verdict: Verdict
    words: str
    """The verdict with its rule and the values it used, or why there is none."""
    because: str | None
    """Why it was not judged, alone."""
    but_for_scaling: Verdict | None
    """What the rule would say if nothing but the scaling of a scenario stood against a verdict."""


class TableRow(Figures):
    """One test in one scenario: a line of the paper's tables."""

    scenario: str
    number: int
    """The paper's, of the scenario."""
    neighbours: str
    """What runs beside the machine under test, in words; empty for none."""
    test: str
    """``tick`` or ``switch-N``."""
    table: str
    """Where it stands in the paper."""
    maxima: list[Maximum]
    """Bare, emulated, paravirt."""
    emulated_over_paravirt: Judgement

    def maximum(self, role: Role) -> Maximum:
        """Give the figure of one machine."""
        return next(one for one in self.maxima if one.role == role)

    @property
    def subject(self) -> str:
        """What its ratio is of."""
        return f"emulated/paravirt, scenario {self.number} {self.scenario}, {self.test}"


class BareRow(Figures):
    """The bare machine's maximum of a test, where the paper has a table of it alone."""

    test: str
    table: str
    maximum: Maximum


class GrowthRow(Figures):
    """What neighbours cost: the maximum of one scenario as a multiple of that of another."""

    base: str
    base_number: int
    contended: str
    contended_number: int
    test: str
    role: Role
    platform: str | None
    growth: Judgement

    @property
    def subject(self) -> str:
        """What its ratio is of."""
        return f"growth of scenario {self.contended_number} over {self.base_number}, {self.role}, {self.test}"


class MeanRow(Figures):
    """The geometric mean of emulated/paravirt ratios, of one test or over all."""

    test: str
    """``tick``, ``switch-N`` or ``all``."""
    theirs: float
    theirs_count: int
    """Of how many ratios."""
    theirs_of_the_same: float | None
    """Of their ratios in just those scenarios and tests where ours could be judged: what ours is compared with."""
    mean: Judgement
    """``theirs`` in it is ``theirs_of_the_same`` where there is one."""
    ours_count: int

    @property
    def subject(self) -> str:
        """What its ratio is of."""
        test = "all tests" if self.test == "all" else self.test
        return f"geometric mean of emulated/paravirt over {self.ours_count} of {self.theirs_count} ratios, {test}"


class PublishedComparison(Figures):
    """A run beside published figures."""

    schema_version: Literal[2] = 2
    published: str
    source: str
    """The full reference."""
    their_system: str
    their_samples: int
    run_id: str
    campaign: str
    platforms: list[StandIn]
    rule: str
    """How every verdict is found."""
    bare: list[BareRow]
    rows: list[TableRow]
    growth: list[GrowthRow]
    means: list[MeanRow]
    differences: list[str]
    """In what ours differs from theirs, for every reader of a verdict."""
    remarks: list[str]
    """What in the publication does not fit together."""

    @property
    def judgements(self) -> list[tuple[str, Judgement]]:
        """Every verdict with what it is about, in the order of the document."""
        return [
            *((row.subject, row.emulated_over_paravirt) for row in self.rows),
            *((row.subject, row.growth) for row in self.growth),
            *((row.subject, row.mean) for row in self.means),
        ]

    @property
    def is_judged(self) -> bool:
        """Whether every ratio could be judged."""
        return all(judgement.verdict != "not judged" for _, judgement in self.judgements)

    def count(self, verdict: Verdict) -> int:
        """Count the verdicts of a kind."""
        return sum(judgement.verdict == verdict for _, judgement in self.judgements)

    def count_but_for_scaling(self, verdict: Verdict) -> int:
        """Count what the rule would say of ratios that were not judged for the scaling of a scenario alone."""
        return sum(judgement.but_for_scaling == verdict for _, judgement in self.judgements)
