"""What all benchmarks share: two sides in turn on one machine, and the spread of their ratio.

A noisy machine drifts; two programs that run one after the other, over and over, drift together. So only ratios of
neighbouring runs are compared, and they are given with their minimum, median and maximum.
"""

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any


def spread(values: list[float]) -> dict[str, float]:
    """Give minimum, median and maximum."""
    return {"min": min(values), "median": median(values), "max": max(values)}


@dataclass(frozen=True)
class Ratio:
    """Two sides of a comparison, measured in turn."""

    benchmark: str
    unit: str
    target: float
    """The ratio of the medians should be at most this."""
    pairs: tuple[Mapping[str, float], ...]
    """One entry a pair, by side; the first side is ours, and the ratio is that of the first to the second."""

    def document(self) -> dict[str, Any]:
        """Give what ``--json`` prints."""
        ours, other = self.pairs[0]
        sides = {side: spread([pair[side] for pair in self.pairs]) for side in (ours, other)}
        return {
            "benchmark": self.benchmark,
            "machine": f"{os.cpu_count()} CPUs, {platform.release()}, load {os.getloadavg()[0]:.1f}",
            "pairs": len(self.pairs),
            "unit": self.unit,
            **sides,
            "ratio": spread([pair[ours] / pair[other] for pair in self.pairs]),
            "target": self.target,
        }

    def print(self, *, as_json: bool, **more: Any) -> None:
        """Print the document, with what else belongs to it, or a table."""
        document = self.document()
        if as_json:
            print(json.dumps({**document, **more}, indent=1))
            return
        ours, other = self.pairs[0]
        print(f"{self.benchmark}: {document['pairs']} interleaved pairs; min / median / max ({document['machine']})")
        for name, unit in ((ours, self.unit), (other, self.unit), ("ratio", "")):
            values = document[name]
            row = "".join(f"{values[key]:12.3f}" for key in ("min", "median", "max"))
            print(f"{name:24}{row} {unit}")
        print(f"target: ratio <= {self.target}")


def arguments(description: str | None, pairs: int) -> argparse.ArgumentParser:
    """Give a parser with the options that all benchmarks have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=pairs, help=f"default {pairs}")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    return parser


def take_turns(count: int, sides: Mapping[str, Callable[[], float]]) -> Iterator[dict[str, float]]:
    """Measure all sides in turn; which one begins alternates from pair to pair."""
    names = list(sides)
    for number in range(count):
        order = names if number % 2 == 0 else names[::-1]
        measured = {name: sides[name]() for name in order}
        yield {name: measured[name] for name in names}
