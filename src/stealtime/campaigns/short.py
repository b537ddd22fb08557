"""The short form of a campaign: what ``--short`` changes, so that a long campaign can be tried in minutes.

A full form that measures for an hour a cell also bounds its samples; a short one is bounded by its durations, so the
``samples`` of a probe are left out unless its short table gives some.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field

from stealtime.campaigns.probes import ThreadCounts, Tracing
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import DurationNs
from stealtime.vocabulary.toml_table import Table

if TYPE_CHECKING:
    from stealtime.campaigns.model import Campaign


class ShortProbe(Table):
    """``[short.tick]``, ``[short.wakeup]``: what changes in all cells of a probe."""

    duration_ns: DurationNs | None = Field(default=None, alias="duration")
    """Instead of the duration of each of its cells."""
    max_samples: int | None = Field(default=None, alias="samples", ge=1, le=1_000_000_000)
    """Stop earlier, after this many samples."""
    tracing: Tracing | None = None
    """Instead of the probe's."""

    def changes(self) -> dict[str, Any]:
        """Give the changed fields; ``max_samples`` is always one of them."""
        return {"max_samples": self.max_samples, **_given(self, type(self).model_fields)}


class ShortSwitch(ShortProbe):
    """``[short.switch]``."""

    threads: ThreadCounts | None = None
    """Instead of its numbers of threads."""


class Short(Table):
    """``[short]``."""

    platforms: list[str] | None = Field(default=None, min_length=1)
    """Instead of the campaign's."""
    scenarios: list[str] | None = Field(default=None, min_length=1)
    """Instead of the campaign's."""
    repetitions: int | None = Field(default=None, ge=1, le=1000)
    """Instead of the campaign's."""
    tracing: Tracing | None = None
    """Instead of the campaign's."""
    tick: ShortProbe | None = None
    """What changes in cells of ``tick``."""
    switch: ShortSwitch | None = None
    """What changes in cells of ``switch``."""
    wakeup: ShortProbe | None = None
    """What changes in cells of ``wakeup``."""

    def of(self, probe: str) -> ShortProbe:
        """Give the table of a probe; an empty one where the file has none."""
        tables: dict[str, ShortProbe | None] = {"tick": self.tick, "switch": self.switch, "wakeup": self.wakeup}
        return tables[probe] or ShortProbe()


def shorten(campaign: "Campaign") -> "Campaign":
    """Give the short form of ``campaign``, as a campaign that has no shorter one.

    Raises:
        UsageError: It has none.
    """
    short = campaign.short
    if short is None:
        raise UsageError(
            f"the campaign {campaign.name} has no short form",
            hint="shorten it with options such as -D 1s --repetitions 1, or give it a table [short]",
        )
    own = _given(short, ("platforms", "scenarios", "repetitions", "tracing"))
    probes = [cells.model_copy(update=short.of(cells.probe).changes()) for cells in campaign.probes]
    return campaign.model_copy(update={**own, "probes": probes, "short": None})


def _given(table: Table, names: Iterable[str]) -> dict[str, Any]:
    """Give the fields that are not None; durations stay numbers, which ``model_dump`` would write as text."""
    return {name: value for name in names if (value := getattr(table, name)) is not None}
