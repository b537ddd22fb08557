"""What this study knows of its probes beyond what the laboratory does: how they are put into words."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from stealtime.campaigns.probe import Percentiles, Probe

PERCENTILES = Percentiles("the overhead", ("50", "90", "99", "99.9", "99.99", "99.999"))
"""Those that a cell's statistics have."""


@dataclass(frozen=True, kw_only=True)
class LatencyProbe(Probe):
    """A probe whose samples are durations."""

    title: str
    """``Thread switch``."""
    question: str
    """What it does and what its samples are; ``{policy}`` stands for the scheduling policy of its threads."""
    sample: str
    """What one sample is: ``duration of one switch``."""
    answer: str
    """How the sentence begins that ends with the 99.9th percentile over the floor."""
    is_tiled: bool = False
    """Whether its samples lie end to end over all of its time: only there can a period be told from what was missed,
    and only there does the kernel count when the measuring thread was put off its CPU."""

    def parameter(self, parameters: Mapping[str, JsonValue]) -> str:
        """Put a cell's parameters into words: ``1000 threads``."""
        return self.cells.parameters.words_of(parameters)

    def describe(self, parameters: Mapping[str, JsonValue]) -> str:
        """Name it with the parameters of a cell: ``Thread switch, 1000 threads``."""
        return f"{self.title}, {self.parameter(parameters)}"
