"""Published figures, as models: what was found on which machine, which of it is judged by what rule, where it stands.

A publication is two files in its study's folder: ``NAME.csv`` holds a figure for each machine, ``NAME.toml`` the rest.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

RuleName = Literal["ratio", "figure_ratio", "equal_ratio", "figure"]
"""``ratio``: of two maxima, whose machines may differ from ours; ``figure_ratio``: the same of two figures that are no
maxima; ``equal_ratio``: of two such figures, and ours is to be the same; ``figure``: itself."""
ClaimKind = Literal["machines", "scenarios", "tests", "figures", "periods"]

_NS_A_UNIT = {"us": 1000.0, "count": 1.0}
PositiveFigure = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
Words = Annotated[str, Field(min_length=1)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedMachine(_Document):
    """One of the machines that figures are of, and which of our platforms stands for it."""

    role: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    """Its column in the CSV file."""
    words: Words
    platform: str | None = None
    """Ours, by name ..."""
    ending: str | None = None
    """... or by the end of the name; those that are chosen so are of one family: ``qemu-kvm``, ``qemu-tcg``."""
    stands_alone: bool = False
    """Measured without neighbours only: its figures stand beside those of every scenario."""

    @model_validator(mode="after")
    def _stands_for_one(self) -> Self:
        if (self.platform is None) == (self.ending is None):
            raise ValueError(f"{self.role} needs a platform, or the ending of one")
        return self


class NearestDuration(_Document):
    """Of several cells of ours the one whose parameter is nearest is taken; another value than theirs is told."""

    parameter: str
    value_ns: int = Field(gt=0)
    words: Words


class PublishedTest(_Document):
    """What was measured, and which of our probes does the same."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    probe: str
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """Those that our cells must have."""
    nearest: NearestDuration | None = None
    figure: str
    """By the name that ``Study.measurement`` knows it by."""
    title: Words
    """Of a row: ``switch, 2 threads``."""
    heading: Words
    """Of the table that it stands in."""
    question: Words
    """Of a column: ``maximum overhead``."""


class PublishedRow(_Document):
    """One line of the CSV file: the figures of one test in one scenario."""

    number: int | None = Field(default=None, ge=1)
    """Of the scenario, where the publication counts them."""
    scenario: Words
    """Ours, as in ``scenarios/builtin.toml``."""
    neighbours: str = ""
    """What runs beside the machine under test, in words; empty for none."""
    test: str
    figures: dict[str, PositiveFigure]
    """By role, in the publication's unit."""
    source: Words
    """Where they stand: ``Table 2``."""


class RepeatedFigure(_Document):
    """A figure that the publication gives in another table as well."""

    test: str
    machine: str
    figure: PositiveFigure
    source: Words
    heading: Words


class ClaimSet(_Document):
    """Which figures are judged, by which rule, and against what other figure as their base."""

    title: Words
    rule: RuleName
    of: list[str] = Field(min_length=1)
    """Roles."""
    base: str | None = None
    """The ratio is to this machine, in the same scenario ..."""
    scenarios: list[tuple[str, str]] = Field(default_factory=list)
    """... or to the same machine: of the second scenario to the first one ..."""
    tests: list[tuple[str, str]] = Field(default_factory=list)
    """... or of the second test to the first one, in the same scenario. Their rows may hold that ratio and 1, where the
    publication tells no more: so they are judged by no other rule."""
    means: Words | None = None
    """The title of the ratios' geometric means; without it there are none."""

    @property
    def kind(self) -> ClaimKind:
        if self.rule == "figure":
            return "figures"
        return "machines" if self.base is not None else "tests" if self.tests else "scenarios"

    @model_validator(mode="after")
    def _has_its_base(self) -> Self:
        bases = (self.base is not None) + bool(self.scenarios) + bool(self.tests)
        if bases != (self.rule != "figure"):
            raise ValueError(f"{self.title!r} is of the rule {self.rule!r} and has {bases} kinds of base")
        if self.means is not None and self.base is None:
            raise ValueError(f"{self.title!r} has means, which are of ratios between two machines")
        return self


class PeriodClaims(_Document):
    """High values that come again after a time: where they were seen, and where they stayed."""

    title: Words
    test: str
    period_s: PositiveFigure
    of: list[str] = Field(min_length=1)
    """Roles."""
    scenarios: dict[str, Words] = Field(min_length=1)
    """In which they were seen, and where that stands: ``Figure 6``."""
    stays: list[tuple[str, str]] = Field(default_factory=list)
    """Two scenarios of which the second one might have removed them, and did not."""

    @model_validator(mode="after")
    def _stays_where_it_is(self) -> Self:
        for name in (name for pair in self.stays for name in pair):
            if name not in self.scenarios:
                raise ValueError(f"{self.title!r} stays in {name!r}, where it was not seen")
        return self


@dataclass(frozen=True)
class Claim:
    """One published figure, or the ratio of two, that ours is judged against."""

    row: PublishedRow
    machine: str
    base_row: PublishedRow | None
    base_machine: str
    figure: float


class Published(_Document):
    """All figures of one publication, with its source."""

    name: str
    citation: Words
    """The full reference, in one line."""
    licence: Words
    system: Words
    """What it was measured on."""
    unit: Literal["us", "count"]
    """Of the figures in the file; durations are given on in ns."""
    samples: int | None = Field(default=None, ge=1)
    """Of which each figure is the maximum."""
    machines: list[PublishedMachine] = Field(min_length=1)
    tests: list[PublishedTest] = Field(min_length=1)
    claims: list[ClaimSet] = Field(min_length=1)
    periods: list[PeriodClaims] = Field(default_factory=list)
    differences: list[str] = Field(default_factory=list)
    """In what any measurement of ours differs from theirs."""
    remarks: list[str] = Field(default_factory=list)
    """What in the publication does not fit together, or must be known to read it."""
    repeated: list[RepeatedFigure] = Field(default_factory=list)
    rows: list[PublishedRow] = Field(min_length=1)

    @property
    def roles(self) -> list[str]:
        """The machines, in the order of the tables."""
        return [machine.role for machine in self.machines]

    @property
    def paired(self) -> frozenset[str]:
        """The tests of which only ratios to each other are judged."""
        return frozenset(name for claims in self.claims for pair in claims.tests for name in pair)

    @property
    def scenarios(self) -> list[str]:
        """The scenarios' names in the publication's order."""
        return list(dict.fromkeys(row.scenario for row in self.rows))

    def machine(self, role: str) -> PublishedMachine:
        return next(machine for machine in self.machines if machine.role == role)

    def test(self, name: str) -> PublishedTest:
        """Give a test by its name, which was checked."""
        return next(test for test in self.tests if test.name == name)

    def row(self, scenario: str, test: str) -> PublishedRow:
        """Give the figures of a test in a scenario.

        Raises:
            KeyError: There are none.
        """
        for row in self.rows:
            if (row.scenario, row.test) == (scenario, test):
                return row
        raise KeyError(scenario, test)

    def figure(self, row: PublishedRow, role: str) -> float:
        """Give a figure, a duration in ns."""
        return row.figures[role] * _NS_A_UNIT[self.unit]

    def claims_of(self, claims: ClaimSet) -> Iterator[Claim]:
        """Give each claim of a set, in the order in which they are told."""
        if claims.kind == "scenarios":
            for before, after in claims.scenarios:
                for test in self.tests:
                    base, row = self.row(before, test.name), self.row(after, test.name)
                    for role in claims.of:
                        yield Claim(row, role, base, role, self.figure(row, role) / self.figure(base, role))
            return
        if claims.kind == "tests":
            for scenario in self.scenarios:
                for first, second in claims.tests:
                    base, row = self.row(scenario, first), self.row(scenario, second)
                    for role in claims.of:
                        yield Claim(row, role, base, role, self.figure(row, role) / self.figure(base, role))
            return
        for row in (row for row in self.rows if row.test not in self.paired):
            for role in claims.of:
                figure = self.figure(row, role)
                if claims.base is None:
                    yield Claim(row, role, None, role, figure)
                else:
                    yield Claim(row, role, row, claims.base, figure / self.figure(row, claims.base))

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        keys = [(row.scenario, row.test) for row in self.rows]
        tests, roles = [test.name for test in self.tests], set(self.roles)
        for row in self.rows:
            if row.test not in tests:
                raise ValueError(f"{row.source} has the test {row.test!r}, which is not described")
            if missing := roles - row.figures.keys():
                raise ValueError(f"{row.source} has no figure of {', '.join(sorted(missing))}")
        for key in keys:
            if keys.count(key) > 1:
                raise ValueError(f"{key[0]} {key[1]} is there {keys.count(key)} times")
        for scenario in self.scenarios:
            absent = [test for test in tests if (scenario, test) not in keys]
            if absent:
                raise ValueError(f"{scenario} has no figure of {absent[0]}")
            numbers = {row.number for row in self.rows if row.scenario == scenario}
            if len(numbers) > 1:
                raise ValueError(f"{scenario} has the numbers {sorted(number or 0 for number in numbers)}")
        for one in self.repeated:
            if one.test not in tests:
                raise ValueError(f"{one.source} has the test {one.test!r}, of which there are no other figures")
            for row in self.rows:
                figure = row.figures.get(one.machine)
                if row.test == one.test and figure != one.figure:
                    raise ValueError(f"{row.source} gives {figure} for {one.machine}, {one.source} {one.figure}")
        for claims in self.claims:
            for role in (*claims.of, *([] if claims.base is None else [claims.base])):
                if role not in roles:
                    raise ValueError(f"{claims.title!r} names the machine {role!r}, of which there are no figures")
            for name in (name for pair in claims.tests for name in pair):
                if name not in tests:
                    raise ValueError(f"{claims.title!r} names the test {name!r}, of which there are no figures")
            for name in (name for pair in claims.scenarios for name in pair):
                if name not in self.scenarios:
                    raise ValueError(f"{claims.title!r} names the scenario {name!r}, of which there are no figures")
        for periods in self.periods:
            for role in set(periods.of) - roles:
                raise ValueError(f"{periods.title!r} names the machine {role!r}, of which there are no figures")
            for name in periods.scenarios:
                if (name, periods.test) not in keys:
                    raise ValueError(f"{periods.title!r} names {name!r} and {periods.test!r}, which are in no table")
        return self


def geometric_mean(ratios: Sequence[float]) -> float:
    """Give the geometric mean of one or more positive ratios.

    Of ratios it is the mean to take: it is the same whichever side is the base (Fleming and Wallace, "How not to lie
    with statistics", CACM 29(3), 1986).

    Raises:
        ValueError: There is no ratio, or one is not positive.
    """
    if not ratios or min(ratios) <= 0.0:
        raise ValueError(f"a geometric mean needs positive values, got {list(ratios)}")
    return math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))
