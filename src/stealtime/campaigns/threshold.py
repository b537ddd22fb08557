"""A threshold as people write it: ``100us`` for the longest value, ``p99.9=100us`` for a percentile."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from stealtime.vocabulary.quantities import format_duration, parse_duration_ns

LONGEST = "max"
FORMS = "100us bounds the longest value, p99.9=100us the 99.9th percentile"
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Threshold:
    """The most that one statistic of a cell may be."""

    statistic: str
    """``max``, or a percentile such as ``p99.9``."""
    at_most_ns: int

    @property
    def percentile(self) -> str | None:
        """The number of the percentile: ``99.9``; None for the longest value."""
        return None if self.statistic == LONGEST else self.statistic.removeprefix("p")

    @property
    def text(self) -> str:
        """Write it so that :func:`parse_threshold` reads the same again."""
        duration = format_duration(self.at_most_ns)
        return duration if self.statistic == LONGEST else f"{self.statistic}={duration}"


def parse_threshold(text: str) -> Threshold:
    """Read a threshold.

    Raises:
        ValueError: It is none; the message holds it and what was expected.
    """
    statistic, is_named, duration = text.strip().rpartition("=")
    if not is_named:
        return Threshold(LONGEST, parse_duration_ns(text))
    statistic = _statistic(statistic.strip(), text)
    if not duration.strip():
        raise ValueError(f"{text!r} has no duration; expected one such as {statistic}=100us")
    return Threshold(statistic, parse_duration_ns(duration))


def parse_thresholds(texts: Sequence[str]) -> tuple[Threshold, ...]:
    """Read several thresholds, at most one of each statistic.

    Raises:
        ValueError: One is none, or two are of the same statistic.
    """
    found: dict[str, Threshold] = {}
    for text in texts:
        one = parse_threshold(text)
        if (other := found.setdefault(one.statistic, one)) != one:
            what = "the longest value" if one.statistic == LONGEST else one.statistic
            raise ValueError(f"two thresholds are given for {what}: {other.text} and {one.text}")
    return tuple(found.values())


def _statistic(name: str, text: str) -> str:
    if name == LONGEST:
        return name
    found = _PERCENTILE.fullmatch(name)
    if found is None:
        raise ValueError(f"{text!r} has {name!r} for a percentile; expected one such as p99.9")
    number = found[1].lstrip("0") or "0"
    number = number.rstrip("0").rstrip(".") if "." in number else number
    if not 0.0 < float(number or "0") < 100.0:
        raise ValueError(f"{text!r}: there is no {name}; a percentile lies between 0 and 100")
    return f"p{number if not number.startswith('.') else f'0{number}'}"


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _checked(texts: list[str]) -> list[str]:
    return [one.text for one in parse_thresholds(texts)]


ThresholdTexts = Annotated[
    list[str],
    BeforeValidator(_listed),
    AfterValidator(_checked),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "examples": ["100us", "p99.9=50us"]},
                {"type": "array", "items": {"type": "string"}, "examples": [["100us", "p99.9=50us"]]},
            ]
        }
    ),
]
"""A field that a file writes as one threshold or a list of them."""
