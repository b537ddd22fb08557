"""The short form of a campaign: what ``--short`` changes, so that a long campaign can be tried in minutes.

A full form that measures for an hour a cell also bounds its samples; a short one is bounded by its durations, so the
``samples`` of a probe are left out unless its short table gives some.
"""

from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field, create_model

from stealtime.campaigns.probe import ProbeCells, ShortProbe, Tracing
from stealtime.campaigns.registry import probes
from stealtime.vocabulary.toml_table import Table


class Short(Table):
    """``[short]``."""

    platforms: list[str] | None = Field(default=None, min_length=1)
    """Replaces the campaign's."""
    scenarios: list[str] | None = Field(default=None, min_length=1)
    """Replaces the campaign's."""
    repetitions: int | None = Field(default=None, ge=1, le=1000)
    """Replaces the campaign's."""
    tracing: Tracing | None = None
    """Replaces the campaign's."""

    def of(self, probe: str) -> ShortProbe:
        """Give the table of a probe; an empty one where the file has none."""
        return getattr(self, _field(probe)) or ShortProbe()


def short_model() -> type[Short]:
    """Give ``[short]`` with a table for each probe that there is."""
    return _short_model(tuple((probe.name, probe.cells, probe.short) for probe in probes().values()))


@lru_cache
def _short_model(tables: tuple[tuple[str, type[ProbeCells], tuple[str, ...]], ...]) -> type[Short]:
    fields: dict[str, Any] = {
        _field(name): (
            _table(name, cells, replaced) | None,
            Field(default=None, alias=name, description=f"What changes in cells of ``{name}``."),
        )
        for name, cells, replaced in tables
    }
    return create_model("Short", __base__=Short, __doc__=Short.__doc__, **fields)


def _table(probe: str, cells: type[ProbeCells], replaced: tuple[str, ...]) -> type[ShortProbe]:
    """Give ``[short.PROBE]``: with each field that it may replace as it is in the probe's own table."""
    fields: dict[str, Any] = {}
    for name in replaced:
        own = cells.model_fields[name]
        kind: Any = Annotated[(own.annotation, *own.metadata)] if own.metadata else own.annotation
        fields[name] = (kind | None, Field(default=None, alias=own.alias, description=own.description))
    return create_model("Short", __base__=ShortProbe, __doc__=f"``[short.{probe}]``.", **fields)


def _field(probe: str) -> str:
    # A model has attributes of its own, as ``register``.
    return f"of_{probe}"
