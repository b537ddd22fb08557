"""Published figures, as models: maxima of a test in a scenario on three kinds of machine, and where they stand."""

import math
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Role = Literal["bare", "emulated", "paravirt"]
"""What a machine is in a comparison, whatever makes it: Hyper-V calls the paravirtual one *enlightened*."""
ROLES: tuple[Role, ...] = ("bare", "emulated", "paravirt")
NS_A_US = 1000.0

Microseconds = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
TestName = Annotated[str, Field(pattern=r"^(tick|switch-[1-9]\d*)$")]
"""``tick``, or ``switch-N`` between N threads."""
TableName = Annotated[str, Field(pattern=r"^Table [1-9]\d*$")]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)


class PublishedRow(_Document):
    """One line of the CSV file: the maxima of one test in one scenario."""

    scenario: int = Field(ge=1)
    """The paper's number."""
    scenario_name: str = Field(min_length=1)
    """Ours, as in ``scenarios/builtin.toml``."""
    neighbours: str
    """What runs beside the machine under test, in words; empty for none."""
    test: TestName
    bare_us: Microseconds
    emulated_us: Microseconds
    enlightened_us: Microseconds
    table: TableName

    def maximum_ns(self, role: Role) -> float:
        """Give the largest overhead (``tick``) or latency (``switch``) of a machine."""
        microseconds = {"bare": self.bare_us, "emulated": self.emulated_us, "paravirt": self.enlightened_us}[role]
        return microseconds * NS_A_US

    @property
    def emulated_over_paravirt(self) -> float:
        """How many times the paravirtual maximum the emulated one is."""
        return self.emulated_us / self.enlightened_us


class BareFigure(_Document):
    """A maximum of the bare machine in a table of its own."""

    test: TestName
    maximum_us: Microseconds
    table: TableName


class GrowthPair(_Document):
    """Two scenarios whose maxima are compared: what the second one's neighbours cost."""

    base: str = Field(alias="from")
    contended: str = Field(alias="to")


class Published(_Document):
    """All figures of one publication, with its source."""

    name: str
    title: str
    authors: list[str] = Field(min_length=1)
    journal: str
    volume: str
    year: int
    issn: str
    licence: str
    hypervisor: str
    guest: str
    hardware: str
    samples: int = Field(ge=1)
    """Of which each figure is the maximum."""
    tick_loop_us: Microseconds
    """The busy loop of ``tick``, alone."""
    remarks: list[str]
    """What in the publication does not fit together, or must be known to read it."""
    bare: list[BareFigure]
    growth: list[GrowthPair]
    rows: list[PublishedRow] = Field(min_length=1)

    @property
    def citation(self) -> str:
        """The full reference, in one line."""
        authors = " and ".join([", ".join(self.authors[:-1]), self.authors[-1]] if self.authors[1:] else self.authors)
        return f"{authors}: {self.title}. {self.journal}, {self.volume}, {self.year}, ISSN {self.issn}"

    @property
    def scenarios(self) -> list[str]:
        """The scenarios' names in the paper's order."""
        return list(dict.fromkeys(row.scenario_name for row in self.rows))

    @property
    def tests(self) -> list[str]:
        """The tests in the order of the tables."""
        return list(dict.fromkeys(row.test for row in self.rows))

    def row(self, scenario_name: str, test: str) -> PublishedRow:
        """Give the figures of a test in a scenario.

        Raises:
            KeyError: There are none.
        """
        for row in self.rows:
            if (row.scenario_name, row.test) == (scenario_name, test):
                return row
        raise KeyError(scenario_name, test)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        keys = [(row.scenario_name, row.test) for row in self.rows]
        for key in keys:
            if keys.count(key) > 1:
                raise ValueError(f"{key[0]} {key[1]} is there {keys.count(key)} times")
        for scenario in self.scenarios:
            absent = [test for test in self.tests if (scenario, test) not in keys]
            if absent:
                raise ValueError(f"{scenario} has no figure of {absent[0]}")
            numbers = {row.scenario for row in self.rows if row.scenario_name == scenario}
            if len(numbers) > 1:
                raise ValueError(f"{scenario} has the numbers {sorted(numbers)}")
        for bare in self.bare:
            if bare.test not in self.tests:
                raise ValueError(f"{bare.table} has the test {bare.test!r}, of which there are no other figures")
            for row in self.rows:
                if row.test == bare.test and row.bare_us != bare.maximum_us:
                    raise ValueError(
                        f"{row.table} gives {row.bare_us} us for the bare machine, {bare.table} {bare.maximum_us}"
                    )
        for pair in self.growth:
            for scenario in (pair.base, pair.contended):
                if scenario not in self.scenarios:
                    raise ValueError(f"growth names the scenario {scenario!r}, of which there are no figures")
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
