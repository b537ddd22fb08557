"""The figures that rules are held against, as series over the samples; pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtrit

from stealtime.capacity.use import Figure, GuestUse, ThreadsUse, Use
from stealtime.vocabulary.readings import Absent

_BATCHES = 10
"""Samples of a second are not independent; the means of ten stretches of the whole time nearly are (batch means)."""
_MOST_ABSENT_PERCENT = 20.0
"""A figure that was absent in more samples than this is absent as a whole."""


@dataclass(frozen=True)
class Series:
    """One figure over time."""

    values: Sequence[float]
    absent: Absent | None = None
    """Why there is no figure."""

    @classmethod
    def of(cls, figures: Iterable[Figure]) -> "Series":
        """Take the values, unless too many are absent."""
        values: list[float] = []
        missing: list[Absent] = []
        for figure in figures:
            if isinstance(figure, Absent):
                missing.append(figure)
            else:
                values.append(figure)
        samples = len(values) + len(missing)
        if missing and 100 * len(missing) > _MOST_ABSENT_PERCENT * samples:
            return cls((), missing[-1])
        return cls(values)

    @property
    def mean(self) -> float:
        """The mean over all samples; there must be one."""
        return float(np.mean(self.values))

    def interval(self, confidence_percent: float) -> tuple[float, float]:
        """Give the interval of confidence of the mean, from the means of consecutive stretches of equal length.

        Args:
            confidence_percent: Of both sides together.
        """
        values = np.asarray(self.values, dtype=float)
        batches = min(_BATCHES, len(values))
        means = np.array([part.mean() for part in np.array_split(values, batches)])
        if batches < 2:
            return -np.inf, np.inf
        half = float(stdtrit(batches - 1, 0.5 + confidence_percent / 200) * means.std(ddof=1) / np.sqrt(batches))
        mean = float(values.mean())
        return mean - half, mean + half

    def percent_of_samples(self, *, above: float | None, below: float | None) -> float:
        """Give in how many samples, in percent, it lies on one side of a limit."""
        if above is not None:
            return 100 * sum(value > above for value in self.values) / len(self.values)
        assert below is not None  # noqa: S101 - for the type checker
        return 100 * sum(value < below for value in self.values) / len(self.values)


@dataclass
class SubjectFigures:
    """All figures of the host or of one guest."""

    whole: dict[str, Series] = field(default_factory=dict)
    parts: dict[str, Mapping[str, Series]] = field(default_factory=dict)
    """By the part's name: ``vCPU 0``, ``CPU 3``."""


def host_figures(uses: Sequence[Use]) -> SubjectFigures:
    """Give the host's figures."""
    figures = SubjectFigures()
    no_cpus = next((use.cpus for use in uses if isinstance(use.cpus, Absent)), None)
    if no_cpus is None:
        # A CPU that was not online all the time is left out: what it was used for is not known as a whole.
        online = [set(use.cpus) for use in uses if not isinstance(use.cpus, Absent)]
        for cpu in sorted(set.intersection(*online)) if online else []:
            rows = [use.cpus[cpu] for use in uses if not isinstance(use.cpus, Absent)]
            figures.parts[f"CPU {cpu}"] = {
                "cpu_busy_percent": Series.of(row.busy_percent for row in rows),
                "cpu_steal_percent": Series.of(row.steal_percent for row in rows),
            }
    else:
        figures.whole |= {name: Series((), no_cpus) for name in ("cpu_busy_percent", "cpu_steal_percent")}
    figures.whole["memory_available_percent"] = Series.of(use.memory_available_percent for use in uses)
    for name in ("cpu", "memory", "io"):
        absent = Absent(absent=f"the pressure of {name} was not read")
        figures.whole[f"{name}_pressure_percent"] = Series.of(use.pressure_percent.get(name, absent) for use in uses)
    return figures


def guest_figures(uses: Sequence[GuestUse]) -> SubjectFigures:
    """Give one guest's figures, from all samples in which it was there."""
    figures = SubjectFigures()
    numbers = sorted({number for use in uses for number in use.vcpus})
    for number in numbers:
        figures.parts[f"vCPU {number}"] = {
            "vcpu_run_percent": Series.of(_of_vcpu(use, number, "run_percent") for use in uses),
            "vcpu_wait_percent": Series.of(_wait_percent(use, number) for use in uses),
            "wait_per_dispatch_ns": Series.of(_of_vcpu(use, number, "wait_per_dispatch_ns") for use in uses),
        }
    if not numbers:
        reason = next((use.unreadable for use in uses if use.unreadable), Absent(absent="it has no virtual CPU"))
        names = ("vcpu_run_percent", "vcpu_wait_percent", "wait_per_dispatch_ns")
        figures.whole |= {name: Series((), reason) for name in names}
    figures.whole["throttled_percent"] = Series.of(use.throttled_percent for use in uses)
    figures.whole["emulator_run_percent"] = Series.of(use.unreadable or use.emulator.run_percent for use in uses)
    figures.whole["io_run_percent"] = Series.of(use.unreadable or use.io.run_percent for use in uses)
    figures.whole["queue_per_vcpu"] = Series.of(_of_view(use, "queue") for use in uses)
    figures.whole["guest_steal_percent"] = Series.of(_of_view(use, "steal_percent") for use in uses)
    figures.whole["guest_pressure_percent"] = Series.of(_of_view(use, "pressure_percent") for use in uses)
    return figures


def net_wait_percent(use: GuestUse, vcpu: ThreadsUse) -> float:
    """Give the wait for a CPU without what its own quota took: kernels count that as waiting too."""
    total = sum(one.wait_percent for one in use.vcpus.values())
    if total <= 0 or isinstance(use.throttled_percent, Absent):
        return vcpu.wait_percent
    by_quota = min(total, use.throttled_percent * len(use.vcpus))
    return vcpu.wait_percent * (1 - by_quota / total)


def _of_vcpu(use: GuestUse, number: int, name: str) -> Figure:
    if use.unreadable is not None:
        return use.unreadable
    vcpu = use.vcpus.get(number)
    if vcpu is None:
        return Absent(absent=f"it had no vCPU {number}")
    figure: Figure = getattr(vcpu, name)
    return figure


def _wait_percent(use: GuestUse, number: int) -> Figure:
    known = _of_vcpu(use, number, "wait_percent")
    return known if isinstance(known, Absent) else net_wait_percent(use, use.vcpus[number])


def _of_view(use: GuestUse, name: str) -> Figure:
    if use.view is None:
        return Absent(absent="its own kernel was not asked (--guest-view)")
    if isinstance(use.view, Absent):
        return use.view
    if name == "queue":
        return use.view.queue / use.view.vcpus
    figure: Figure = getattr(use.view, name)
    return figure
