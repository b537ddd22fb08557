"""How far the prediction was off on mixes of work that nothing was fitted on (``benchmarks/stretch_prediction.py``)."""

import tomllib
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

FILE = Path(__file__).with_name("accuracy.toml")


class Accuracy(BaseModel):
    """On one platform."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mixes: int
    guests: int
    """Of all these mixes."""
    mape_percent: float
    """The mean absolute error in percent of what was measured."""
    floor_mape_percent: float | None = None
    """What it would be of a model that is right: repetitions differ."""
    mae_of_p_points: float | None = None
    """The mean absolute error of P = ideal / actual time, in points of a hundred."""
    factor: float = Field(ge=1.0)
    """A prediction is divided and multiplied by it to get an interval that holds the truth in 90 % of cases."""
    covered_percent: float
    """How often it did, on mixes by which it was not found."""


@cache
def accuracies() -> dict[str, Accuracy]:
    return {name: Accuracy.model_validate(found) for name, found in tomllib.loads(FILE.read_text())["platform"].items()}


def interval_factor(platform: str) -> float:
    """Give the factor of a platform; of one that was never judged the largest of all.

    Args:
        platform: By its name.
    """
    known = accuracies()
    return known[platform].factor if platform in known else max(one.factor for one in known.values())
