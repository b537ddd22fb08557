"""How far the predicted stretch of virtual CPUs was off on mixes that nothing was fitted on.

Written by ``benchmarks/stretch_prediction.py --write``, from the counters of the virtual CPUs of those mixes.
"""

import tomllib
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from stealtime.capacity.guest import Kind

FILE = Path(__file__).with_name("accuracy.toml")


class LiveAccuracy(BaseModel):
    """On guests of one kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    guests: int
    """On which it was judged."""
    mape_percent: float
    """The mean absolute error in percent of the measured stretch."""
    floor_mape_percent: float | None = None
    """What it would be of a model that is right: repetitions differ."""
    mae_of_p_points: float | None = None
    """The mean absolute error of 1 / stretch, in points of a hundred."""
    factor: float = Field(ge=1.0)
    """A prediction is divided and multiplied by it to get an interval that holds the truth in 90 % of cases."""
    covered_percent: float
    """How often it did, on mixes by which it was not found."""


@cache
def live_accuracies() -> dict[str, LiveAccuracy]:
    found = tomllib.loads(FILE.read_text("utf-8"))["kind"]
    return {name: LiveAccuracy.model_validate(one) for name, one in found.items()}


def live_factor(kind: Kind) -> float:
    """Give the factor of guests of a kind; of one that was never judged the largest of all."""
    known = live_accuracies()
    return known[kind].factor if kind in known else max(one.factor for one in known.values())
