"""How many times as long as on a CPU of its own the work of a guest takes: its stretch, from counters; pure.

A virtual CPU wants a CPU while it runs or waits for one: its stretch is (run + wait) / run. What its quota takes is no
wait, as in every other figure. What slows a virtual CPU while it runs (a cache, the other thread of a core) is in no
counter of waiting, and so not in the stretch.

The stretch of some seconds is the ratio of their sums, not the mean of their ratios: a second in which a virtual CPU
hardly ran says little.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

from stealtime.capacity.figures import Series, SubjectFigures, net_wait_percent
from stealtime.capacity.use import Figure, GuestUse
from stealtime.vocabulary.readings import Absent

LEAST_RUN_PERCENT = 1.0
"""Of the time. What ran for less is idle: its stretch is that of a few interrupts, and nobody's work."""
_LEAST_WAIT_PERCENT = 10.0
"""Of the time. One that ran for less than the least and waited for so much was starved, not idle."""
_IDLE = Absent(absent=f"it ran for less than {LEAST_RUN_PERCENT:g} % of the time")
_STARVED = Absent(absent="it waited for a CPU and got hardly any")

Wanted = tuple[float, float]
"""How long virtual CPUs ran, and how long they ran or waited for others, in percent of one CPU."""


def host_wait_percent(use: GuestUse, number: int) -> Figure:
    """Give how long a virtual CPU waited for others to leave a CPU of the host, in percent of the time.

    A virtual CPU of several threads (User-Mode Linux) also waits while one of them wakes another and has not left the
    CPU yet. While it waits for others, they use a CPU on which it may run: it cannot have waited for them for longer.
    """
    wait_percent = net_wait_percent(use, use.vcpus[number])
    if use.others_run_percent is None or isinstance(wait_percent, Absent):
        return wait_percent
    if isinstance(use.others_run_percent, Absent):
        return use.others_run_percent
    return min(wait_percent, use.others_run_percent)


def wanted_percent(use: GuestUse, number: int | None = None) -> Wanted | Absent:
    """Give how long the virtual CPUs of a guest ran, and how long they wanted to, in one interval.

    Args:
        use: Of the guest.
        number: Of one virtual CPU; None for all together.
    """
    if use.unreadable is not None:
        return use.unreadable
    ran = wanted = 0.0
    for one in use.vcpus if number is None else [number]:
        if one not in use.vcpus:
            return Absent(absent=f"it had no vCPU {one}")
        wait = host_wait_percent(use, one)
        if isinstance(wait, Absent):
            return wait
        ran += use.vcpus[one].run_percent
        wanted += use.vcpus[one].run_percent + wait
    return ran, wanted


def stretch_of(uses: Sequence[GuestUse], number: int | None = None) -> Figure:
    """Give the stretch over some intervals of the same length.

    Args:
        uses: Of one guest.
        number: Of one virtual CPU; None for all together.
    """
    return _ratio([wanted_percent(use, number) for use in uses])


def pressure_of(uses: Iterable[GuestUse]) -> Figure:
    """Give the share of the CPU time that guests want for which they wait, from 0 to 1: the pressure on their host.

    Args:
        uses: Of any guests; those that cannot be read are left out.
    """
    known = [one for use in uses if not isinstance(one := wanted_percent(use), Absent)]
    wanted = sum(one for _, one in known)
    if wanted <= 0.0:
        return Absent(absent="no guest wanted a CPU")
    return 1.0 - sum(ran for ran, _ in known) / wanted


class StretchSeries(Series[GuestUse]):
    """The stretch as a series, for the interval of its mean; made when it is asked for.

    The values are those of a ratio of sums to the first order (W. Cochran, "Sampling Techniques", 1977, 6.3): their
    mean is the ratio, and they vary as it does.

    Args:
        uses: Of one guest, the oldest first.
        number: Of one virtual CPU; None for all together.
    """

    def __init__(self, uses: Sequence[GuestUse], number: int | None = None) -> None:
        super().__init__(uses, lambda use: stretch_of([use], number))
        self._number = number

    @cached_property
    def _taken(self) -> tuple[Sequence[float], Absent | None]:
        each = [wanted_percent(use, self._number) for use in self._seen]
        ratio = _ratio(each)
        if isinstance(ratio, Absent):
            return (), ratio
        known = [one for one in each if not isinstance(one, Absent)]
        mean_ran = sum(ran for ran, _ in known) / len(known)
        return [ratio + (wanted - ratio * ran) / mean_ran for ran, wanted in known], None


def add_stretch(figures: SubjectFigures, uses: Sequence[GuestUse]) -> None:
    """Add the stretch of a guest, and of each of its virtual CPUs, to its figures."""
    figures.whole["stretch"] = StretchSeries(uses)
    for part, series in figures.parts.items():
        number = int(part.removeprefix("vCPU "))
        figures.parts[part] = {**series, "vcpu_stretch": StretchSeries(uses, number)}


def _ratio(each: Sequence[Wanted | Absent]) -> Figure:
    known = [one for one in each if not isinstance(one, Absent)]
    missing = [one for one in each if isinstance(one, Absent)]
    # As of any other figure: what is absent in more than a fifth of the samples is absent as a whole.
    if missing and 4 * len(missing) > len(known):
        return missing[-1]
    if not known:
        return Absent(absent="there was no sample")
    ran, wanted = (sum(one[part] for one in known) / len(known) for part in (0, 1))
    if ran < LEAST_RUN_PERCENT:
        return _STARVED if wanted >= _LEAST_WAIT_PERCENT else _IDLE
    return wanted / ran
