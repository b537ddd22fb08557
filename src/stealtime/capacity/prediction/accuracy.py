"""How far predicted stretches were off on mixes that nothing was fitted on.

Written by ``benchmarks/stretch_prediction.py --write``: here from the counters of the virtual CPUs of those mixes, for
the study ``stretch`` from the work that was timed inside.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from stealtime.capacity.guest import Kind

FILE = Path(__file__).with_name("accuracy.toml")


class Accuracy(BaseModel):
    """On guests of one kind, or of one platform."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mixes: int | None = None
    """Of work, in which these guests were."""
    guests: int
    """On which it was judged."""
    mape_percent: float
    """The mean absolute error in percent of the measured stretch."""
    floor_mape_percent: float | None = None
    """What it would be of a model that is right: repetitions differ."""
    mae_of_p_points: float | None = None
    """The mean absolute error of P = 1 / stretch, in points of a hundred."""
    factor: float = Field(ge=1.0)
    """A prediction is divided and multiplied by it to get an interval that holds the truth in 90 % of cases."""
    covered_percent: float
    """How often it did, on mixes by which it was not found."""


def read_accuracies(file: Path, table: str) -> dict[str, Accuracy]:
    """Read the tables below one of a file, by their names."""
    return {name: Accuracy.model_validate(one) for name, one in tomllib.loads(file.read_text("utf-8"))[table].items()}


def factor_of(name: str, known: Mapping[str, Accuracy]) -> float:
    """Give the factor of a name; of one that was never judged the largest of all."""
    return known[name].factor if name in known else max(one.factor for one in known.values())


@cache
def live_accuracies() -> dict[str, Accuracy]:
    return read_accuracies(FILE, "kind")


def live_factor(kind: Kind) -> float:
    """Give the factor of guests of a kind."""
    return factor_of(kind, live_accuracies())
