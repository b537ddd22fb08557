"""What a study registers for a probe: its tables in a campaign file, and its request to the agent."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, JsonValue

from stealtime.store.durations import DURATIONS
from stealtime.store.results import ResultKind
from stealtime.vocabulary.quantities import DurationNs
from stealtime.vocabulary.toml_table import Table
from stealtime.wire.message import ProbeRequest

Tracing = Literal["off", "on", "both"]
"""Whether a cell is measured with tracing; ``both`` makes two cells that are interleaved, to see what tracing costs."""


class ProbeCells(Table):
    """``[[probes]]``: a few cells of one probe."""

    duration_ns: DurationNs = Field(alias="duration")
    """How long one trial measures."""
    max_samples: int | None = Field(default=None, alias="samples", ge=1, le=1_000_000_000)
    """Stop earlier, after this many samples."""
    tracing: Tracing | None = None
    """Default: the campaign's."""
    probe: str
    """The name of the probe."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """Give the parameters of each cell, as ``store.model.Cell`` names them."""
        raise NotImplementedError


class ShortProbe(Table):
    """``[short.PROBE]``: what changes in all cells of a probe."""

    duration_ns: DurationNs | None = Field(default=None, alias="duration")
    """Replaces the duration of each of its cells."""
    max_samples: int | None = Field(default=None, alias="samples", ge=1, le=1_000_000_000)
    """Stop earlier, after this many samples."""
    tracing: Tracing | None = None
    """Replaces the probe's."""

    def changes(self) -> dict[str, Any]:
        """Give the changed fields; ``max_samples`` is always one of them."""
        return {"max_samples": self.max_samples, **given(self, type(self).model_fields)}


def given(table: Table, names: Iterable[str]) -> dict[str, Any]:
    """Give the fields that are not None; durations stay numbers, which ``model_dump`` would write as text."""
    return {name: value for name in names if (value := getattr(table, name)) is not None}


def whole(value: JsonValue) -> int:
    """Give a parameter that was a whole number when the campaign was read."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One way to measure."""

    name: str
    cells: type[ProbeCells]
    """Its table in ``[[probes]]``."""
    request: Callable[[Mapping[str, JsonValue], Mapping[int, int]], ProbeRequest]
    """Makes what the agent is asked for, of a cell's parameters and of the iterations of each length of busy loop."""
    short: type[ShortProbe] = ShortProbe
    """Its table in ``[short]``."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of ``run`` that are about this probe alone, each with the field of its table."""
    expected_ns: Callable[[Mapping[str, JsonValue]], int] | None = None
    """How long a trial of these parameters about takes where its duration is but a limit; None takes the duration."""
    uses_every_cpu: bool = False
    """Whether it measures on all CPUs of the machine, and not on one alone."""
    is_busy: bool = False
    """Whether it uses up its time: a limit on real-time threads then holds it back."""
    needs_fifo: bool = False
    """Whether it measures something else under ordinary scheduling."""
    result: ResultKind = DURATIONS
    """What comes out of a trial, and how it is kept."""
    hidden_threads: str | None = None
    """Its own threads, by the beginning of their names, whose switches among each other are no events to trace."""
    follows_user_mode_linux: bool = True
    """Whether the host's trace follows the threads of a User-Mode Linux guest: not where each sample is an event."""
