"""How far the prediction was off on mixes of work that nothing was fitted on (``benchmarks/stretch_prediction.py``)."""

from functools import cache
from pathlib import Path

from stealtime.capacity.prediction.accuracy import Accuracy, factor_of, read_accuracies

FILE = Path(__file__).with_name("accuracy.toml")


@cache
def accuracies() -> dict[str, Accuracy]:
    return read_accuracies(FILE, "platform")


def interval_factor(platform: str) -> float:
    """Give the factor of a platform, by its name."""
    return factor_of(platform, accuracies())
