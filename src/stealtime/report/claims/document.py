"""A run beside published figures, as models: what ``stealtime compare RUN --published NAME --json`` prints."""

from typing import Literal

from stealtime.report import notation
from stealtime.report.cells.figures import Figures
from stealtime.report.claims.model import ClaimKind

SCHEMA_VERSION = 4
"""Of :class:`PublishedComparison`; rises when an older reader could misunderstand a newer document."""

Verdict = Literal["agrees", "disagrees", "not judged"]


class StandIn(Figures):
    """Which of our platforms stands for one of theirs."""

    role: str
    role_words: str
    platform: str | None
    """None where the run has none."""
    words: str
    """What that platform is; TCG is never called KVM."""


class TestWords(Figures):
    """How a test is called."""

    name: str
    title: str
    heading: str
    """Of the table that it stands in."""
    question: str
    """Of its column there."""


class FigurePair(Figures):
    """One figure of a table, theirs and ours, in the unit of the document."""

    role: str
    platform: str | None
    scenario: str
    """Of our cell."""
    stands_alone: bool
    """Whether it is measured without neighbours only, and stands in every table, as theirs does."""
    theirs: float
    ours: float | None
    ours_p50: float | None
    """The median of the same quantity."""
    ours_p9999: float | None
    """The 99.99th percentile of the same quantity; None where too few samples cannot tell it."""
    ours_of_repetitions: list[float]
    """Of each valid repetition alone: single maxima of equal trials differ, and this is by how much."""
    samples: int | None
    """Of which ours is the maximum, all repetitions together; None for what is no maximum."""
    scaled: str | None
    """How the scenario was made to fit a machine with fewer CPUs than the paper's."""
    unusable: str | None
    """Why it may not be judged; None where it may."""
    is_only_scaled: bool
    """Whether the scaling of the scenario is all that stands against it."""


class Judgement(Figures):
    """A figure or ratio, theirs and ours, and whether they say the same."""

    theirs: float
    ours: float | None
    ours_low: float | None
    """Where its interval begins (of a ratio at 95 %); None with too few repetitions."""
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
    """One test in one scenario: a line of the publication's tables."""

    scenario: str
    number: int | None
    """Theirs, of the scenario; None where they do not count them."""
    neighbours: str
    """What runs beside the machine under test, in words; empty for none."""
    test: str
    source: str
    """Where it stands."""
    figures: list[FigurePair]
    """Of each machine, in their order."""

    def figure(self, role: str) -> FigurePair:
        return next(one for one in self.figures if one.role == role)


class RepeatedRow(Figures):
    """A figure that the publication gives in another table as well."""

    test: str
    source: str
    heading: str
    figure: FigurePair


class JudgedClaim(Figures):
    """A figure of theirs, or the ratio of one to another as its base, and whether ours agrees."""

    kind: ClaimKind
    scenario: str
    number: int | None
    test: str
    role: str
    platform: str | None
    base_scenario: str | None
    base_number: int | None
    base_role: str | None
    base_test: str | None = None
    """Of a ratio of two tests."""
    source: str
    """Where the figure stands, and its base."""
    judgement: Judgement

    @property
    def short_name(self) -> str:
        """The scenario with its number, or both scenarios of a growth by their numbers, if they have some."""
        if self.kind == "scenarios":
            return f"{self.number or self.scenario} / {self.base_number or self.base_scenario}"
        return self.scenario if self.number is None else f"{self.number} {self.scenario}"

    @property
    def subject(self) -> str:
        if self.kind == "scenarios":
            return f"growth of scenario {self.short_name.replace(' / ', ' over ')}, {self.role}, {self.test}"
        if self.kind == "periods":
            stays = "" if self.base_scenario is None else f" as in {self.base_number or self.base_scenario}"
            period = notation.trimmed_duration(round(self.judgement.theirs))
            return f"period of {period}, {self.role}, scenario {self.short_name}{stays}, {self.test}"
        if self.kind == "tests":
            return f"{self.test} over {self.base_test}, {self.role}, scenario {self.short_name}"
        of = self.role if self.base_role is None else f"{self.role}/{self.base_role}"
        return f"{of}, scenario {self.short_name}, {self.test}"


class MeanRow(Figures):
    """The geometric mean of ratios, of one test or over all."""

    test: str
    """Its name, or ``all``."""
    of: str
    """``emulated/paravirt``."""
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
        test = "all tests" if self.test == "all" else self.test
        return f"geometric mean of {self.of} over {self.ours_count} of {self.theirs_count} ratios, {test}"


class ClaimGroup(Figures):
    """Claims of one kind."""

    kind: ClaimKind
    title: str
    claims: list[JudgedClaim]
    means_title: str | None
    means: list[MeanRow]


class PublishedComparison(Figures):
    """A run beside published figures."""

    schema_version: Literal[4] = 4
    published: str
    source: str
    """The full reference."""
    their_system: str
    their_samples: int | None
    unit: Literal["ns", "count"]
    """Of figures; ratios have none."""
    run_id: str
    campaign: str
    platforms: list[StandIn]
    tests: list[TestWords]
    rule: str
    """How every verdict is found."""
    repeated: list[RepeatedRow]
    rows: list[TableRow]
    groups: list[ClaimGroup]
    differences: list[str]
    """In what ours differs from theirs, for every reader of a verdict."""
    remarks: list[str]
    """What in the publication does not fit together."""

    def test(self, name: str) -> TestWords:
        return next(test for test in self.tests if test.name == name)

    def title_of(self, claim: JudgedClaim) -> str:
        """What is claimed: the title of its test, or of both."""
        title = self.test(claim.test).title
        return title if claim.base_test is None else f"{title} / {self.test(claim.base_test).title}"

    @property
    def judgements(self) -> list[tuple[str, Judgement]]:
        """Every verdict with what it is about: the claims, then the means."""
        claims = [(one.subject, one.judgement) for group in self.groups for one in group.claims]
        return claims + [(row.subject, row.mean) for group in self.groups for row in group.means]

    @property
    def is_judged(self) -> bool:
        """Whether there is a claim, and every one could be judged."""
        return bool(self.judgements) and all(judgement.verdict != "not judged" for _, judgement in self.judgements)

    def count(self, verdict: Verdict) -> int:
        return sum(judgement.verdict == verdict for _, judgement in self.judgements)

    def count_but_for_scaling(self, verdict: Verdict) -> int:
        """Count what the rule would say of what was not judged for the scaling of a scenario alone."""
        return sum(judgement.but_for_scaling == verdict for _, judgement in self.judgements)

    @property
    def summary_sentence(self) -> str:
        """The verdicts, counted in a sentence, or two."""
        agree, disagree, unknown = self.count("agrees"), self.count("disagrees"), self.count("not judged")
        kinds = {group.kind for group in self.groups}
        counted = "figures" if kinds == {"figures"} else "claims" if "periods" in kinds else "ratios"
        sentence = (
            f"Of {len(self.judgements)} {counted} {agree} agree with the paper's, {disagree} disagree, "
            f"{unknown} could not be judged."
        )
        would_agree, would_disagree = self.count_but_for_scaling("agrees"), self.count_but_for_scaling("disagrees")
        if would_agree + would_disagree == 0:
            return sentence
        return f"{sentence} But for scaling, {would_agree} of these would agree and {would_disagree} disagree."
