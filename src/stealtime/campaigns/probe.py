"""What a study registers for a probe: its tables in a campaign file, and its request to the agent."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from pydantic import AfterValidator, Field, JsonValue

from stealtime.campaigns.parameters import Parameters
from stealtime.store.durations import DURATIONS
from stealtime.store.result_kinds import ResultKind, Streams
from stealtime.vocabulary.quantities import NANOSECONDS, DurationNs
from stealtime.vocabulary.toml_table import Table
from stealtime.wire.message import ExtraGroup

if TYPE_CHECKING:
    from stealtime.campaigns.booted import Booted, TrialSetup
    from stealtime.campaigns.planned import PlannedBoot
    from stealtime.lab.platforms.model import Machine
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

    parameters: ClassVar[type[Parameters]]
    """Of its cells."""
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

    def parameter_sets(self) -> Sequence[Parameters]:
        """Give the parameters of each cell."""
        return [self.parameters(**one) for one in self.combined()]

    def combined(self, leave_out: Collection[str] = ()) -> list[dict[str, Any]]:
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


@dataclass(frozen=True, kw_only=True)
class Driver:
    """Where trials are carried out that are not requests to an agent in a machine under test."""

    scenario: str
    """The only builtin one that its probes are measured in, and no others are."""
    takes_real_hosts: bool = False
    """Whether its probes are measured in scenarios with ``hosts``, too, on platforms over ssh."""
    module: str
    """Has its ``set_up`` and ``refuse``, and is loaded once one of them is asked for."""

    def boot(self, boot: "PlannedBoot", placement: "Placement", folder: Path) -> "AbstractAsyncContextManager[Booted]":
        """Set up what the trials of a boot need, with a folder for logs until they are stored; leaving it ends it all.

        It raises ``StealtimeError`` if that cannot be had."""
        made: AbstractAsyncContextManager[Booted] = import_module(self.module).set_up(boot, placement, folder)
        return made

    def refuse(self, boot: "PlannedBoot", placement: "Placement") -> None:
        """Raise ``StealtimeError`` if what a boot needs cannot be had, as far as that is known without setting anything
        up: the platform, rights and programs. Asked before a run begins."""
        import_module(self.module).refuse(boot, placement)


class Companion(Protocol):
    """What records on the host while a machine measures, from just before the request."""

    async def end(self) -> None:
        """Record no more: the machine has measured. Called once or not at all, before the context is left."""
        ...

    @property
    def tables(self) -> Streams:
        """What was recorded, complete when the context has been left without an error; tables of the result."""
        ...


@dataclass(frozen=True)
class Percentiles:
    """Of what a probe's study keeps which percentiles."""

    words: str
    known: tuple[str, ...]
    """``99.9`` ..."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One way to measure."""

    name: str
    cells: type[ProbeCells]
    """Its table in ``[[probes]]``."""
    driver: Driver | None = None
    """What carries its trials out; None for an agent, by the ``request`` of their parameters."""
    short: tuple[str, ...] = ()
    """The fields of its table that ``[short]`` may replace, too."""
    uses_every_cpu: bool = False
    """Whether it measures on all CPUs of the machine, and not on one alone."""
    is_busy: bool = False
    """Whether it uses up its time: a limit on real-time threads then holds it back."""
    needs_fifo: bool = False
    """Whether it measures something else under ordinary scheduling."""
    bounded: str | None = None
    """What of it `run --max-overhead` judges, in words (its study's ``CellFigures.bounded`` gives it); None where no
    threshold makes sense, and is refused."""
    percentiles: Percentiles | None = None
    """What percentiles of it `run --max-overhead p99.9=100us` judges (``CellFigures.at_percentile`` gives them)."""
    result: ResultKind = DURATIONS
    """What comes out of a trial, and how it is kept."""
    companion: "Callable[[Machine, TrialSetup, Path], AbstractAsyncContextManager[Companion]] | None" = None
    """Begins to record beside one trial on a machine, with a folder for its tables; it raises nothing of its own."""
    hidden_threads: str | None = None
    """Its own threads, by the beginning of their names, whose switches among each other are no events to trace."""
    extra_trace_groups: tuple[ExtraGroup, ...] = ()
    """Events that a trace of the machine's kernel records for it beside the usual ones."""
    extra_host_trace_groups: tuple[ExtraGroup, ...] = ()
    """Events that a trace of the host records for it beside the usual ones, of the machine's own threads alone: the
    other threads of the host are then seen where they take a CPU from these."""
    follows_user_mode_linux: bool = True
    """Whether the host's trace follows the threads of a User-Mode Linux guest: not where each sample is an event."""

    def describe(self, parameters: Mapping[str, JsonValue]) -> str:
        """Name it with the parameters of a cell, for people."""
        return ", ".join(one for one in (self.name, self.cells.parameters.words_of(parameters)) if one)
