"""From the samples of a run to overheads against the number of tasks: what a study that measures them gives."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stealtime.schedulability.kernel_limits import KernelLimits
from stealtime.schedulability.overhead_seen import Uncharged, together
from stealtime.schedulability.overheads import (
    COLUMNS,
    DEFAULT_TICK_PERIOD_NS,
    NOT_EVERYWHERE,
    OverheadModel,
    Provenance,
)
from stealtime.vocabulary.errors import StealtimeError, UsageError

if TYPE_CHECKING:
    from stealtime.store.run import Run
    from stealtime.vocabulary.service import ObservedService

Statistic = Literal["average", "p99", "p99.9", "worst"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
_NEEDED = ("event_latency", "release", "scheduling", "context_switch")
"""What every release takes: a model without one of these would call task sets schedulable that are not."""
_SHARES: dict[Statistic, Fraction] = {"p99": Fraction(99, 100), "p99.9": Fraction(999, 1000)}
"""Of the samples that do not exceed it."""


@dataclass(frozen=True)
class Samples:
    """Durations, and what disturbed each; all arrays are equally long."""

    ns: NDArray[np.float64]
    interrupted: NDArray[np.bool_]
    """An interrupt began inside, other than the one that the sample is about."""
    taken: NDArray[np.bool_]
    """The host took the CPU meanwhile."""

    @classmethod
    def together(cls, parts: Sequence["Samples"]) -> "Samples":
        return cls(
            np.concatenate([one.ns for one in parts]),
            np.concatenate([one.interrupted for one in parts]),
            np.concatenate([one.taken for one in parts]),
        )

    def series(self) -> dict[str, NDArray[np.float64]]:
        """Give those that nothing disturbed apart from those that something did."""
        return {
            "clean": self.ns[~self.interrupted & ~self.taken],
            "interrupted": self.ns[self.interrupted & ~self.taken],
            "host took the CPU": self.ns[self.taken],
        }


@dataclass(frozen=True)
class MeasuredCondition:
    """The samples of one machine under one number of tasks, of all repetitions together."""

    machine: str
    """The platform, and where it is not ``alone`` the scenario."""
    tasks: int
    """On the CPU."""
    samples: Mapping[str, Samples]
    """By overhead, as ``overheads.COLUMNS`` names them, and by names of their own what no model takes."""
    boundaries: Mapping[str, str] = field(default_factory=dict)
    """Where an overhead begins and ends otherwise than its name says: the name of what it is instead."""
    discards: Mapping[str, int] = field(default_factory=dict)
    """What could not be measured, by reason."""
    tick_period_ns: int | None = None
    remarks: Sequence[str] = ()
    """What a reader of the figures must know."""
    uncharged: Sequence[Uncharged] = ()
    """What took the CPU beside, and is in no sample that a model takes."""
    kernel_limits: KernelLimits | None = None
    """What the machine's kernel may take from real-time threads; None where that is not known."""


@dataclass(frozen=True)
class Unmeasured:
    """A machine of a run, or a part of its trials, whose overheads are not known."""

    machine: str
    """As in :class:`MeasuredCondition`."""
    trials: int
    because: str

    @property
    def sentence(self) -> str:
        return f"{self.machine} (trials: {self.trials}): {self.because}"


@dataclass(frozen=True)
class MeasuredOverheads:
    """All that the studies of a run tell of overheads."""

    conditions: Sequence[MeasuredCondition] = ()
    unmeasured: Sequence[Unmeasured] = ()
    remarks: Sequence[str] = ()
    """What a reader must know of the whole run."""

    @classmethod
    def together(cls, parts: Sequence["MeasuredOverheads"]) -> "MeasuredOverheads":
        return cls(
            [condition for part in parts for condition in part.conditions],
            [one for part in parts for one in part.unmeasured],
            [remark for part in parts for remark in part.remarks],
        )


@runtime_checkable
class SupplySource(Protocol):
    """A study whose runs tell when a machine did not get its CPU."""

    def observed_services(self, run: "Run") -> "Sequence[ObservedService]":
        """Give what each machine of a run got, in all its trials."""


@runtime_checkable
class OverheadSource(Protocol):
    """A study whose runs hold overheads."""

    def measured_overheads(self, run: "Run") -> MeasuredOverheads:
        """Give what a run of it measured, by machine and number of tasks, and what it could not measure."""


def overhead_models(
    source: str, conditions: Sequence[MeasuredCondition], statistic: Statistic
) -> dict[str, OverheadModel]:
    """Make of samples one model for each machine, to charge what was observed: all samples count.

    The worst is the longest that was seen, and the model of a machine does not depend on the others.

    Args:
        source: What the models are of, for people.
        conditions: Each machine and number of tasks once.
        statistic: Of the samples.

    Raises:
        UsageError: There are too few samples for the statistic.
        StealtimeError: Nothing was measured, or of a machine not everything for every number of tasks.
    """
    _refuse_none(source, conditions)
    models = {}
    for machine in dict.fromkeys(one.machine for one in conditions):
        own = [one for one in conditions if one.machine == machine]
        _refuse_lacking(source, own)
        _refuse_too_few(source, _least_counts(own), statistic)
        models[machine] = _model(source, own, statistic, None)
    return models


def compared_models(
    source: str, conditions: Sequence[MeasuredCondition], statistic: Statistic, seed: int = 1
) -> dict[str, OverheadModel]:
    """Make of samples one model for each machine, to compare machines and numbers of tasks.

    A maximum of more samples is larger. So for each overhead all machines and numbers of tasks are compared on as many
    samples as the one with the fewest has, drawn at random from the others. What was observed may be longer: to say
    whether a task set is schedulable take :func:`overhead_models`.

    Args:
        source: What the models are of, for people.
        conditions: All that is compared, each machine and number of tasks once.
        statistic: Of the samples.
        seed: Of the draw.

    Raises:
        UsageError: There are too few samples for the statistic.
        StealtimeError: Nothing was measured, or not everything everywhere.
    """
    _refuse_none(source, conditions)
    _refuse_lacking(source, conditions)
    counts = _least_counts(conditions)
    _refuse_too_few(source, counts, statistic)
    machines = dict.fromkeys(one.machine for one in conditions)
    return {
        machine: _model(source, [one for one in conditions if one.machine == machine], statistic, (counts, seed))
        for machine in machines
    }


def statistic_of(samples_ns: NDArray[np.float64], statistic: Statistic) -> float:
    if statistic == "average":
        return float(samples_ns.mean())
    if statistic == "worst":
        return float(samples_ns.max())
    rank = math.ceil(_SHARES[statistic] * len(samples_ns)) - 1
    return float(np.partition(samples_ns, rank)[rank])


def equal_count(samples_ns: NDArray[np.float64], count: int, seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).permutation(samples_ns)[:count]


def _count(condition: MeasuredCondition, name: str) -> int:
    samples = condition.samples.get(name)
    return 0 if samples is None else len(samples.ns)


def _least_counts(conditions: Sequence[MeasuredCondition]) -> dict[str, int]:
    """Give how many samples of each overhead all have at least, of those that were measured."""
    counts = {name: min(_count(one, name) for one in conditions) for name in COLUMNS.values()}
    return {name: count for name, count in counts.items() if count > 0}


def _refuse_none(source: str, conditions: Sequence[MeasuredCondition]) -> None:
    if not conditions:
        raise StealtimeError(f"{source} holds no overheads", hint="measure rtload with tracing on")


def _refuse_lacking(source: str, conditions: Sequence[MeasuredCondition]) -> None:
    # Of kernels that do not tell the finer ones, the coarser hold them; a request of another CPU is charged by wish.
    for name in (name for name in COLUMNS.values() if name not in NOT_EVERYWHERE):
        lacking = [one for one in conditions if _count(one, name) == 0]
        if not lacking or (len(lacking) == len(conditions) and name not in _NEEDED):
            continue
        where = ", ".join(f"{one.machine} with {one.tasks}" for one in lacking[:3])
        others = f", and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        raise StealtimeError(
            f"{source}: no sample of {name} was measured (machine with number of tasks: {where}{others})",
            hint="what is not measured would count as nothing: measure longer, and with `polluters = 1`, as a kernel "
            "tells little of a CPU that was idle; `stealtime sched overheads` counts what is missing",
        )


def _refuse_too_few(source: str, counts: Mapping[str, int], statistic: Statistic) -> None:
    if statistic not in _SHARES:
        return
    needed = math.ceil(1 / (1 - _SHARES[statistic]))
    for name, count in counts.items():
        if count < needed:
            raise UsageError(
                f"{source}: {count} samples of {name} for each number of tasks are too few for the {statistic}",
                hint=f"it takes {needed}: measure longer, or take the worst or the average",
            )


def _model(
    source: str,
    conditions: Sequence[MeasuredCondition],
    statistic: Statistic,
    drawn: tuple[Mapping[str, int], int] | None,
) -> OverheadModel:
    """Make the model of one machine.

    Args:
        source: What it is of.
        conditions: Of that machine.
        statistic: Of the samples.
        drawn: How many samples of each overhead, and the seed of their draw; None takes all.
    """
    own = sorted(conditions, key=lambda one: one.tasks)
    machine = own[0].machine
    names = _least_counts(own) if drawn is None else drawn[0]

    def taken(one: MeasuredCondition, name: str) -> NDArray[np.float64]:
        every = one.samples[name].ns
        return every if drawn is None else equal_count(every, drawn[0][name], drawn[1])

    points: dict[str, list[tuple[int, Fraction]]] = {
        name: [(one.tasks, Fraction(math.ceil(statistic_of(taken(one, name), statistic)))) for one in own]
        for name in names
    }
    ticks = [one.tick_period_ns for one in own if one.tick_period_ns is not None]
    discards: dict[str, int] = {}
    for one in own:
        for reason, number in one.discards.items():
            discards[reason] = discards.get(reason, 0) + number
    provenance = Provenance(
        statistic=statistic,
        machine=machine,
        samples={name: tuple(len(taken(one, name)) for one in own) for name in names},
        boundaries={name: other for one in own for name, other in one.boundaries.items() if name in names},
        discards=discards,
        seed=None if drawn is None else drawn[1],
        kernel_limits=own[0].kernel_limits,
    )
    of = statistic if drawn is None else f"{statistic} of equally many samples"
    return OverheadModel(
        source=f"{machine} ({of}) of {source}",
        points=points,
        tick_period_ns=min(ticks) if ticks else DEFAULT_TICK_PERIOD_NS,
        provenance=provenance,
        uncharged=together(one.uncharged for one in own),
    )
