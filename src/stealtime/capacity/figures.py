"""The figures that rules are held against, as series over the samples; pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from operator import attrgetter
from typing import Any, Generic, TypeVar

from stealtime.capacity.placement import demand_if_spread_percent, idle_elsewhere_percent
from stealtime.capacity.threads_use import ThreadsUse
from stealtime.capacity.use import Figure, GuestUse, Use, ViewUse
from stealtime.vocabulary.readings import Absent
from stealtime.vocabulary.student import student_quantile

_Seen = TypeVar("_Seen")
OF_EACH_VCPU = (
    *("vcpu_run_percent", "vcpu_wait_percent", "vcpu_wanted_percent", "vcpu_wait_share_percent"),
    "wait_per_dispatch_ns",
)
"""Figures that each virtual CPU of a guest has."""
_BATCHES = 10
"""Samples of a second are not independent; the means of ten stretches of the whole time nearly are (batch means)."""
_MOST_ABSENT_PERCENT = 20.0
"""A figure that was absent in more samples than this is absent as a whole."""


class Series(Generic[_Seen]):
    """One figure over time, taken together when it is asked for: most are asked for by nobody while watching.

    Args:
        seen: What holds the figure, oldest first.
        figure: Takes it out.
    """

    def __init__(self, seen: Sequence[_Seen], figure: Callable[[_Seen], Figure]) -> None:
        self._seen = seen
        self._figure = figure

    @cached_property
    def _taken(self) -> tuple[Sequence[float], Absent | None]:
        values: list[float] = []
        missing: list[Absent] = []
        for figure in map(self._figure, self._seen):
            if isinstance(figure, Absent):
                missing.append(figure)
            else:
                values.append(figure)
        if missing and 100 * len(missing) > _MOST_ABSENT_PERCENT * (len(values) + len(missing)):
            return (), missing[-1]
        return values, None

    @property
    def values(self) -> Sequence[float]:
        """Those that are not absent; none where too many are."""
        return self._taken[0]

    @property
    def absent(self) -> Absent | None:
        return self._taken[1]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    def interval(self, confidence_percent: float) -> tuple[float, float]:
        """Give the interval of confidence of the mean, from the means of consecutive stretches of equal length.

        Args:
            confidence_percent: Of both sides together.
        """
        values = self.values
        batches = min(_BATCHES, len(values))
        if batches < 2:
            return -math.inf, math.inf
        edges = [len(values) * number // batches for number in range(batches + 1)]
        means = [sum(values[begin:end]) / (end - begin) for begin, end in pairwise(edges)]
        middle = sum(means) / batches
        # Not `statistics.stdev`, which adds fractions and takes ten times as long; figures are of one size.
        variance = sum((mean - middle) ** 2 for mean in means) / (batches - 1)
        half = student_quantile(batches - 1, 0.5 + confidence_percent / 200) * math.sqrt(variance / batches)
        return self.mean - half, self.mean + half

    def percent_of_samples(self, *, above: float | None, below: float | None) -> float:
        """Give in how many samples, in percent, it lies on one side of a limit."""
        if above is not None:
            return 100 * sum(value > above for value in self.values) / len(self.values)
        assert below is not None  # noqa: S101 - for the type checker
        return 100 * sum(value < below for value in self.values) / len(self.values)


class ShareSeries(Series[_Seen]):
    """One figure in percent of another, over time: all of the one over all of the other, not the mean of shares.

    A guest that works for some ms of a second has seconds without any work, of which there is no share.

    Args:
        seen: What holds both, oldest first.
        pair: Takes both out.
    """

    def __init__(self, seen: Sequence[_Seen], pair: Callable[[_Seen], tuple[float, float] | Absent]) -> None:
        self._pairs: list[tuple[float, float]] = []

        def share(one: _Seen) -> Figure:
            taken = pair(one)
            if isinstance(taken, Absent):
                return taken
            self._pairs.append(taken)
            return 100 * taken[0] / taken[1] if taken[1] > 0 else 0.0

        super().__init__(seen, share)

    @property
    def mean(self) -> float:
        self.values  # noqa: B018 - takes the pairs
        whole = sum(of for _, of in self._pairs)
        return 100 * sum(part for part, _ in self._pairs) / whole if whole > 0 else 0.0

    def interval(self, confidence_percent: float) -> tuple[float, float]:
        """Give the interval of confidence of the ratio of both means (W. Cochran, Sampling Techniques, 1977, 6.4)."""
        mean, count = self.mean, len(self._pairs)
        batches = min(_BATCHES, count)
        whole = sum(of for _, of in self._pairs) / max(count, 1)
        if batches < 2:
            return -math.inf, math.inf
        if whole <= 0:
            return 0.0, 0.0
        edges = [count * number // batches for number in range(batches + 1)]
        off = [
            sum(part - mean / 100 * of for part, of in self._pairs[begin:end]) / (end - begin)
            for begin, end in pairwise(edges)
        ]
        variance = sum(one**2 for one in off) / (batches - 1)
        half = (
            student_quantile(batches - 1, 0.5 + confidence_percent / 200) * math.sqrt(variance / batches) * 100 / whole
        )
        return mean - half, mean + half


@dataclass
class SubjectFigures:
    """All figures of the host or of one guest."""

    whole: dict[str, Series[Any]] = field(default_factory=dict)
    parts: dict[str, Mapping[str, Series[Any]]] = field(default_factory=dict)
    """By the part's name: ``vCPU 0``, ``CPU 3``."""


def absent_series(absent: Absent) -> Series[None]:
    return Series([None], lambda _: absent)


def host_figures(uses: Sequence[Use]) -> SubjectFigures:
    figures = SubjectFigures()
    no_cpus = next((use.cpus for use in uses if isinstance(use.cpus, Absent)), None)
    if no_cpus is None:
        # A CPU that was not online all the time is left out: what it was used for is not known as a whole.
        online = [set(use.cpus) for use in uses if not isinstance(use.cpus, Absent)]
        for cpu in sorted(set.intersection(*online)) if online else []:
            rows = [use.cpus[cpu] for use in uses if not isinstance(use.cpus, Absent)]
            figures.parts[f"CPU {cpu}"] = {
                "cpu_busy_percent": Series(rows, attrgetter("busy_percent")),
                "cpu_steal_percent": Series(rows, attrgetter("steal_percent")),
            }
    else:
        figures.whole |= {name: absent_series(no_cpus) for name in ("cpu_busy_percent", "cpu_steal_percent")}
    figures.whole["memory_available_percent"] = Series(uses, attrgetter("memory_available_percent"))
    figures.whole["memory_committed_percent"] = Series(uses, attrgetter("memory_committed_percent"))
    figures.whole["swap_in_bytes_per_s"] = Series(uses, attrgetter("swap_in_bytes_per_s"))
    figures.whole["least_guest_memory_available_percent"] = Series(uses, _least_guest_memory_available_percent)
    figures.whole["vcpu_wait_cpus"] = Series(uses, partial(_of_all_guests, figure=_waited_cpus))
    figures.whole["quota_held_cpus"] = Series(uses, partial(_of_all_guests, figure=_held_cpus))
    for name in ("cpu", "memory", "io"):
        figures.whole[f"{name}_pressure_percent"] = Series(uses, partial(_pressure, name=name))
    return figures


def guest_figures(uses: Sequence[GuestUse], hosts: Sequence[Use] = ()) -> SubjectFigures:
    """Give the figures of one guest.

    Args:
        uses: Its own, oldest first.
        hosts: Of its host at the same times; without them nothing is said of CPUs elsewhere.
    """
    figures = SubjectFigures()
    for number in sorted({number for use in uses for number in use.vcpus}):
        figures.parts[f"vCPU {number}"] = {
            "vcpu_run_percent": Series(uses, partial(_of_vcpu, number=number, name="run_percent")),
            "vcpu_wait_percent": Series(uses, partial(_wait_percent, number=number)),
            "vcpu_wanted_percent": Series(uses, partial(_wanted_percent, number=number)),
            "vcpu_wait_share_percent": ShareSeries(uses, partial(_waited_of_wanted, number=number)),
            "wait_per_dispatch_ns": Series(uses, partial(_of_vcpu, number=number, name="wait_per_dispatch_ns")),
        }
    if not figures.parts:
        reason = next((use.unreadable for use in uses if use.unreadable), Absent(absent="it has no virtual CPU"))
        figures.whole |= {name: absent_series(reason) for name in OF_EACH_VCPU}
    figures.whole["throttled_percent"] = Series(uses, attrgetter("throttled_percent"))
    for role in ("emulator", "io"):
        figures.whole[f"{role}_run_percent"] = Series(uses, partial(_of_others, role=role, name="run_percent"))
        figures.whole[f"{role}_wait_percent"] = Series(uses, partial(_of_others, role=role, name="wait_percent"))
        figures.whole[f"{role}_wait_share_percent"] = ShareSeries(uses, partial(_others_waited_of_wanted, role=role))
    both = list(zip(hosts, uses, strict=True)) if hosts else [(None, uses[-1])]
    figures.whole["idle_elsewhere_percent"] = Series(both, partial(_of_place, figure=idle_elsewhere_percent))
    figures.whole["demand_if_spread_percent"] = Series(both, partial(_of_place, figure=demand_if_spread_percent))
    figures.whole["queue_per_vcpu"] = Series(uses, partial(_of_view, name="queue"))
    figures.whole["guest_steal_percent"] = Series(uses, partial(_of_view, name="steal_percent"))
    figures.whole["guest_pressure_percent"] = Series(uses, partial(_of_view, name="pressure_percent"))
    figures.whole["guest_swap_in_bytes_per_s"] = Series(uses, partial(_of_view, name="swap_in_bytes_per_s"))
    figures.whole["guest_memory_available_percent"] = Series(uses, partial(_of_view, name="memory_available_percent"))
    return figures


def _pressure(use: Use, name: str) -> Figure:
    known = use.pressure_percent.get(name)
    return Absent(absent=f"the pressure of {name} was not read") if known is None else known


def _least_guest_memory_available_percent(use: Use) -> Figure:
    """Give that of the guest which has the least left, of those that tell."""
    views = [one.view for one in use.guests.values()]
    told = [one.memory_available_percent for one in views if isinstance(one, ViewUse)]
    known = [one for one in told if not isinstance(one, Absent)]
    return min(known) if known else Absent(absent="no guest tells how much memory it has left")


def _of_all_guests(use: Use, figure: Callable[[GuestUse], Figure]) -> Figure:
    """Add up a figure of all guests of which it is known; where it is of none, it is absent."""
    known = [figure(one) for one in use.guests.values() if one.unreadable is None]
    missing = [one for one in known if isinstance(one, Absent)]
    if missing and len(missing) == len(known):
        return missing[0]
    return sum(one for one in known if not isinstance(one, Absent))


def _waited_cpus(use: GuestUse) -> Figure:
    total = 0.0
    for vcpu in use.vcpus.values():
        wait_percent = net_wait_percent(use, vcpu)
        if isinstance(wait_percent, Absent):
            return wait_percent
        total += wait_percent / 100
    return total


def _held_cpus(use: GuestUse) -> Figure:
    held = use.throttled_percent
    return held if isinstance(held, Absent) else held * len(use.vcpus) / 100


def net_wait_percent(use: GuestUse, vcpu: ThreadsUse) -> Figure:
    """Give the wait for a CPU without what its own quota took: kernels count that as waiting too.

    Where it is not known how long the quota held it back, it is not known either what it waited for the host.
    """
    total = sum(one.wait_percent for one in use.vcpus.values())
    if total <= 0:
        return vcpu.wait_percent
    if isinstance(use.throttled_percent, Absent):
        return use.throttled_percent
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


def _waited_of_wanted(use: GuestUse, number: int) -> tuple[float, float] | Absent:
    """Give how long a virtual CPU waited for somebody else to leave a CPU, and how long it wanted one.

    A virtual CPU of several threads also waits while one of them wakes another and has not left the CPU yet. While it
    waits for others, they use a CPU on which it may run: it cannot have waited for them for longer than that.
    """
    known = _wait_percent(use, number)
    if isinstance(known, Absent):
        return known
    if isinstance(use.others_run_percent, Absent):
        return use.others_run_percent
    wait = known if use.others_run_percent is None else min(known, use.others_run_percent)
    return wait, use.vcpus[number].run_percent + wait


def _wanted_percent(use: GuestUse, number: int) -> Figure:
    known = _waited_of_wanted(use, number)
    return known if isinstance(known, Absent) else known[1]


def _of_others(use: GuestUse, role: str, name: str) -> Figure:
    threads = use.unreadable or getattr(use, role)
    if isinstance(threads, Absent):
        return threads
    figure: Figure = getattr(threads, name)
    return figure


def _others_waited_of_wanted(use: GuestUse, role: str) -> tuple[float, float] | Absent:
    threads = use.unreadable or getattr(use, role)
    if isinstance(threads, Absent):
        return threads
    return threads.wait_percent, threads.run_percent + threads.wait_percent


def _of_place(both: tuple[Use | None, GuestUse], figure: Callable[[Use, GuestUse], Figure]) -> Figure:
    host, guest = both
    return Absent(absent="what its host did meanwhile was not kept") if host is None else figure(host, guest)


def _of_view(use: GuestUse, name: str) -> Figure:
    if use.view is None:
        return Absent(absent="its own kernel was not asked (--guest-view)")
    if isinstance(use.view, Absent):
        return use.view
    if name == "queue":
        return use.view.queue / use.view.vcpus
    figure: Figure = getattr(use.view, name)
    return figure
