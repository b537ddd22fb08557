"""Bars of acceptance as a file: which quantity may be how large, and how long it must have been watched."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from stealtime.vocabulary.quantities import DurationNs
from stealtime.vocabulary.toml_table import Table

Words = Annotated[str, Field(min_length=1)]


class Bar(Table):
    """One quantity."""

    quantity: Words
    """What is held against it, as a study calls it: `wakeup-latency`, `interruption`."""
    at_most: DurationNs
    """The longest value that is accepted."""
    watched: DurationNs
    """How long the longest value must have been looked for; all valid repetitions of a cell count together."""
    peer: Words | None = None
    """The program that the bar was set for."""


class BarFile(Table):
    """``BARS.toml`` of ``stealtime show --accept``."""

    title: Words
    """Whose bars they are."""
    source: Words | None = None
    """Where they are published."""
    conditions: Words | None = None
    """Under what they hold, as their source says it. It is printed; a run is not checked for it."""
    bars: Annotated[list[Bar], Field(min_length=1)]
    """At most one of each quantity."""

    @model_validator(mode="after")
    def _quantities_once(self) -> Self:
        names = [bar.quantity for bar in self.bars]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two bars are of {twice!r}")
        return self
