"""The counters of the host beside one repetition of a cell, as series over time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stealtime.campaigns.validity import is_usable
from stealtime.capacity.figures import net_wait_percent
from stealtime.capacity.recording import RecordedUse
from stealtime.capacity.threads_use import ThreadsUse
from stealtime.capacity.use import Figure, GuestUse, Use
from stealtime.studies.stretch.analysis.inside import NOTHING_TOLD, Inside, inside_of
from stealtime.studies.stretch.analysis.provisioning import recorded_uses
from stealtime.studies.stretch.companion import MACHINE
from stealtime.studies.stretch.results import Contention
from stealtime.vocabulary.readings import Absent

if TYPE_CHECKING:
    from stealtime.store.run import Run, Trial


@dataclass(frozen=True)
class Moment:
    """One interval; None is what was absent. Percentages are means over the host's CPUs or the virtual CPUs."""

    at_s: float
    """Its end."""
    busy_percent: float | None
    """Of the host's CPUs."""
    run_percent: float | None
    """Of the machine's virtual CPUs, as the two below."""
    wait_percent: float | None
    """Without what its own quota took."""
    wait_per_dispatch_ns: float | None
    """Of all their dispatches."""


@dataclass(frozen=True)
class Recording:
    """One repetition."""

    repetition: int
    of: int
    """How many valid ones there are."""
    moments: tuple[Moment, ...]
    inside: Inside = NOTHING_TOLD
    """What the machine told of itself, and what the host's kernel did meanwhile."""


def recordings_of(run: "Run") -> list[Recording | None]:
    """Give what was recorded beside each cell, in the order of the cells: of the repetition of median elapsed time.

    Args:
        run: With trials of this study alone.
    """
    cells: dict[str, list[Trial]] = {}
    for trial in run.trials:
        cells.setdefault(trial.record.cell.name, []).append(trial)
    return [_recording(trials) for trials in cells.values()]


def moment_of(one: RecordedUse) -> Moment:
    machine = next((guest for guest in one.use.guests.values() if guest.guest.name == MACHINE), None)
    return Moment(
        at_s=one.at_s,
        busy_percent=_busy_percent(one.use),
        run_percent=_mean(machine, lambda _, vcpu: vcpu.run_percent),
        wait_percent=_mean(machine, net_wait_percent),
        wait_per_dispatch_ns=_wait_per_dispatch_ns(machine),
    )


def _recording(trials: "Sequence[Trial]") -> Recording | None:
    valid = [one for one in trials if is_usable(one.record)]
    if not valid:
        return None
    ranked = sorted(valid, key=lambda one: one.result(Contention).elapsed_ns)
    middle = ranked[(len(ranked) - 1) // 2]
    (uses,) = recorded_uses([middle])
    return Recording(middle.record.repetition, len(valid), tuple(map(moment_of, uses)), inside_of(middle))


def _busy_percent(use: Use) -> float | None:
    if isinstance(use.cpus, Absent):
        return None
    return _mean_of([one.busy_percent for one in use.cpus.values()])


def _mean(machine: GuestUse | None, figure: Callable[[GuestUse, ThreadsUse], Figure]) -> float | None:
    if machine is None or machine.unreadable is not None:
        return None
    return _mean_of([figure(machine, vcpu) for vcpu in machine.vcpus.values()])


def _mean_of(figures: Sequence[Figure]) -> float | None:
    values = [one for one in figures if not isinstance(one, Absent)]
    return sum(values) / len(values) if values and len(values) == len(figures) else None


def _wait_per_dispatch_ns(machine: GuestUse | None) -> float | None:
    if machine is None or machine.unreadable is not None:
        return None
    each = [
        (vcpu.dispatches_per_s, vcpu.wait_per_dispatch_ns)
        for vcpu in machine.vcpus.values()
        if not isinstance(vcpu.wait_per_dispatch_ns, Absent)
    ]
    dispatches = sum(count for count, _ in each)
    return sum(count * wait_ns for count, wait_ns in each) / dispatches if dispatches else None
