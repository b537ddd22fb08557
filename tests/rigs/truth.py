"""What is asked in ``make test``, and what more in ``make truth``."""

import os
import time
from collections.abc import Iterable
from typing import Any

import pytest
from scipy import stats

IN_FULL = "STEALTIME_TRUTH" in os.environ
"""``tools/truth.sh`` sets it."""


def repetitions(few: int, full: int, variable: str | None = None) -> int:
    """Give how often a test marked ``longer`` asks; an environment variable, if it is set, has the last word."""
    wanted = os.environ.get(variable) if variable else None
    return int(wanted) if wanted else full if IN_FULL else few


def seed() -> int:
    """Give the seed of a campaign at random moments: that of ``STEALTIME_SEED``, or another one each time."""
    return int(os.environ.get("STEALTIME_SEED", "0")) or time.time_ns() % 1_000_000


def wrong_at_most(share: float, draws: int) -> int:
    """Give how many of ``draws`` may be wrong where ``share`` of all are: more would be so once in 250 times."""
    return int(stats.binom.ppf(1.0 - 1 / 250, draws, share))


def some_of(values: Iterable[Any], *always: Any) -> list[Any]:
    """Give the parameters of a test: all of them in ``make truth``, and only these in ``make test``.

    A tuple is what several names of parameters get.
    """
    values = list(values)
    if strangers := [one for one in always if one not in values]:
        raise ValueError(f"these are none of the parameters: {strangers}")
    return [
        value
        if value in always
        else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.truth)
        for value in values
    ]
