"""What a study registers for a probe: its tables in a campaign file, and its request to the agent."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from pydantic import AfterValidator, Field, JsonValue

from stealtime.store.durations import DURATIONS
from stealtime.store.result_kinds import ResultKind, Streams
from stealtime.vocabulary.quantities import NANOSECONDS, DurationNs
from stealtime.vocabulary.toml_table import Table
from stealtime.wire.message import ExtraGroup, ProbeRequest

if TYPE_CHECKING:
    from stealtime.campaigns.booted import Booted, TrialSetup
    from stealtime.campaigns.planned import PlannedBoot
    from stealtime.lab.platforms.model import Machine
    from stealtime.lab.platforms.traits import PlatformTraits
    from stealtime.lab.scenarios.placement import Placement

Tracing = Literal["off", "on", "both"]
"""Whether a cell is measured with tracing; ``both`` makes two cells that are interleaved, to see what tracing costs."""


_LONGEST_TRIAL_NS = 366 * NANOSECONDS["d"]
"""No more than a year: a mistyped unit is told before anything starts, and all sums of times stay far from 64 bits."""


def _at_most_a_year(duration_ns: int) -> int:
    if duration_ns > _LONGEST_TRIAL_NS:
        days = duration_ns // NANOSECONDS["d"]
        raise ValueError(f"a trial of {days} days is too long; one may take {_LONGEST_TRIAL_NS // NANOSECONDS['d']}")
    return duration_ns


TrialDurationNs = Annotated[DurationNs, AfterValidator(_at_most_a_year)]
"""How long one trial measures."""


class ProbeCells(Table):
    """``[[probes]]``: a few cells of one probe."""

    renamed: ClassVar[Mapping[str, str]] = {}
    """Keys that earlier versions had, and what they are called now."""

    duration_ns: TrialDurationNs = Field(alias="duration")
    """How long one trial measures."""
    max_samples: int | None = Field(default=None, alias="samples", ge=1, le=1_000_000_000)
    """Stop earlier, after this many samples."""
    tracing: Tracing | None = None
    """Default: the campaign's."""
    short: bool = True
    """Whether the short form of the campaign has these cells, too."""
    probe: str
    """The name of the probe."""

    def parameter_sets(self) -> list[dict[str, JsonValue]]:
        """Give the parameters of each cell, as ``store.model.Cell`` names them."""
        return self.combined()

    def combined(self, leave_out: Collection[str] = ()) -> list[dict[str, JsonValue]]:
        """Give every combination of the values of its own fields, of which a list gives several and None none."""
        own = [name for name in type(self).model_fields if name not in {*ProbeCells.model_fields, *leave_out}]
        given = {name: value for name in own if (value := getattr(self, name)) is not None}
        several = [value if isinstance(value, list) else [value] for value in given.values()]
        return [dict(zip(given, values, strict=True)) for values in product(*several)]


class ShortProbe(Table):
    """``[short.PROBE]``: what changes in all cells of a probe."""

    duration_ns: TrialDurationNs | None = Field(default=None, alias="duration")
    """Replaces the duration of each of its cells."""
    max_samples: int | None = Field(default=None, alias="samples", ge=1, le=1_000_000_000)
    """Stop earlier, after this many samples."""
    tracing: Tracing | None = None
    """Replaces the probe's."""

    def changes(self) -> dict[str, Any]:
        """Give the changed fields; ``max_samples`` is always one of them."""
        return {"max_samples": self.max_samples, **given(self, type(self).model_fields)}


def given(table: object, names: Iterable[str]) -> dict[str, Any]:
    """Give the fields that are not None; durations stay numbers, which ``model_dump`` would write as text."""
    return {name: value for name in names if (value := getattr(table, name)) is not None}


def whole(value: JsonValue) -> int:
    """Give a parameter that was a whole number when the campaign was read."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked of a probe beside its parameters."""

    duration_ns: int
    """How long to measure."""
    priority: int
    """Of SCHED_FIFO; 0 is ordinary scheduling."""
    repetition: int
    """From 1."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where trials are carried out that are not requests to an agent in a machine under test."""

    scenario: str
    """The only builtin one that its probes are measured in, and no others are."""
    takes_real_hosts: bool = False
    """Whether its probes are measured in scenarios with ``hosts``, too, on platforms over ssh."""
    boot: "Callable[[PlannedBoot, Placement, Path], AbstractAsyncContextManager[Booted]]"
    """Sets up what the trials of a boot need, with a folder for logs until they are stored; leaving it ends all of it.

    It raises ``StealtimeError`` if that cannot be had."""
    refuse: "Callable[[PlannedBoot, Placement], None]" = lambda _boot, _placement: None
    """Raises ``StealtimeError`` if what a boot needs cannot be had, as far as that is known without setting anything
    up: the platform, rights and programs. Asked before a run begins."""
    suits: "Callable[[PlatformTraits, Mapping[str, JsonValue]], bool]" = lambda _traits, _parameters: True
    """Whether a cell of these parameters can be had on a platform: a native server is not protected, for one. Others
    are left out of the plan."""


class Companion(Protocol):
    """What records on the host while a machine measures, from just before the request."""

    async def end(self) -> None:
        """Record no more: the machine has measured. Called once or not at all, before the context is left."""
        ...

    @property
    def tables(self) -> Streams:
        """What was recorded, complete when the context has been left without an error; tables of the result."""
        ...


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One way to measure."""

    name: str
    cells: type[ProbeCells]
    """Its table in ``[[probes]]``."""
    request: Callable[[Mapping[str, JsonValue], Mapping[int, int], int], ProbeRequest] | None = None
    """Makes what the agent is asked for, of a cell's parameters, of the iterations of each length of busy loop, and of
    the number of the repetition, from 1. None where a stage carries it out."""
    stage: Stage | None = None
    short: type[ShortProbe] = ShortProbe
    """Its table in ``[short]``."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of ``run`` that are about this probe alone, each with the field of its table."""
    expected_ns: Callable[[Mapping[str, JsonValue]], int] | None = None
    """How long one CPU about takes for a trial of these parameters where its duration is but a limit; None takes the
    duration."""
    beyond_s: Callable[[Mapping[str, JsonValue], float], float] | None = None
    """What a trial of these parameters and of a duration in seconds takes beyond it, where no run on this host tells;
    None takes what is usual on the platform."""
    uses_every_cpu: bool = False
    """Whether it measures on all CPUs of the machine, and not on one alone."""
    is_busy: bool = False
    """Whether it uses up its time: a limit on real-time threads then holds it back."""
    needs_fifo: bool = False
    """Whether it measures something else under ordinary scheduling."""
    bounded: str | None = None
    """What of it `run --max-overhead` judges, in words (its study's ``CellFigures.bounded`` gives it); None where no
    threshold makes sense, and is refused."""
    result: ResultKind = DURATIONS
    """What comes out of a trial, and how it is kept."""
    refuse: Callable[[Mapping[str, JsonValue], Asked], None] = lambda _parameters, _asked: None
    """Raises ``UsageError`` where the agent would refuse a trial (``Probe::validate`` and ``validate_priority`` in
    ``crates/probe``). Asked of every cell before a run begins: else it would be known after a boot only."""
    memory_bytes: Callable[[Mapping[str, JsonValue]], int] = lambda _parameters: 0
    """What a trial of these parameters works on: so much memory its machine must have, beside that for samples."""
    companion: "Callable[[Machine, TrialSetup, Path], AbstractAsyncContextManager[Companion]] | None" = None
    """Begins to record beside one trial on a machine, with a folder for its tables; it raises nothing of its own."""
    hidden_threads: str | None = None
    """Its own threads, by the beginning of their names, whose switches among each other are no events to trace."""
    extra_trace_groups: tuple[ExtraGroup, ...] = ()
    """Events that a trace of the machine's kernel records for it beside the usual ones."""
    follows_user_mode_linux: bool = True
    """Whether the host's trace follows the threads of a User-Mode Linux guest: not where each sample is an event."""

    def describe(self, parameters: Mapping[str, JsonValue]) -> str:
        """Name it with the parameters of a cell, for people."""
        return ", ".join([self.name, *(f"{key} {value}" for key, value in sorted(parameters.items()))])
