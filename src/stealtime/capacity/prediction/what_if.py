"""What one more guest, or one less, does to the stretch of every guest and to the pressure on the host; pure.

What each virtual CPU would do alone follows from its counters: it ran for a share r of the time, waited for a share w,
and its quota held it back for a share q, so it slept for 1 - r - w - q. The queueing network (:mod:`network`) says how
all fare beside each other, now and then. What is told is the *measured* stretch now times what the network says of the
change: so an error that it makes now does not count twice, and where nothing changes nothing is predicted to change.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from stealtime.capacity.guest import Guest
from stealtime.capacity.prediction.accuracy import live_factor
from stealtime.capacity.prediction.addition import Addition
from stealtime.capacity.prediction.network import Demand, Fare, solve
from stealtime.capacity.stretching import LEAST_RUN_PERCENT, stretch_of, wanted_percent
from stealtime.capacity.use import GuestUse, Use
from stealtime.vocabulary.readings import Absent

Key = tuple[int, int]
NO_GUEST = "what is no guest"
_LEAST_OTHERS = 0.02
"""Of a CPU. What is no guest and uses less is left out: the reading itself takes as much."""
_HOG, _MOST_HOGS = 0.5, 8
"""What is no guest and uses so much of one CPU stays there, for so many CPUs; the rest is taken to move."""
_MOST_WEIGHTS = 6
"""Different ones; of more, those that are alike by a factor of the root of 2 are taken for one."""
MINIMUM_SAMPLES = 10
"""As for a verdict."""


@dataclass(frozen=True)
class Estimate:
    """A predicted stretch, with the interval that is to hold the truth in 90 % of cases."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Outlook:
    """How all would fare."""

    pressure: float
    """Of the CPU time that guests want, the share for which they wait: from 0 to 1."""
    stretch: Mapping[str, Estimate | Absent]
    """By guest."""


@dataclass(frozen=True)
class _Member:
    """A guest, or what is none, as the network knows it."""

    name: str
    demands: tuple[Demand, ...]
    factor: float | None
    """Of its interval; None for what is no guest."""
    measured: float | None = None
    """Its stretch now; None for what is not there yet."""


@dataclass
class Node:
    """This host as it was watched.

    Raises nothing: what cannot be predicted is absent, with the reason.
    """

    members: list[_Member]
    unknown: Mapping[str, Absent]
    """Guests of which nothing can be said."""
    cpus: frozenset[int]
    _now: dict[str, float] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.members if one.factor is not None]

    def now(self) -> Outlook:
        """Give what was measured, and what the network says of guests that hardly ran."""
        return self._outlook(self.members)

    def without(self, name: str) -> Outlook:
        return self._outlook([one for one in self.members if one.name != name])

    def with_more(self, addition: Addition) -> Outlook:
        """Say how all fare beside more guests; these are called by the addition's name, with a number if several."""
        return self._outlook([*self.members, *self._added(addition)])

    def _added(self, addition: Addition) -> list[_Member]:
        cpus = self.cpus if addition.cpus is None else addition.cpus
        weight = 1.0 if addition.weight is None else addition.weight / 100.0 / addition.vcpus
        demands = (Demand(addition.busy, cpus, weight),) * addition.vcpus
        taken, names = {one.name for one in self.members} | set(self.unknown), list[str]()
        number = 1
        while len(names) < addition.count:
            name = addition.name if addition.count == 1 and number == 1 else f"{addition.name} {number}"
            number += 1
            if name not in taken:
                names.append(name)
        return [_Member(name, demands, live_factor("qemu")) for name in names]

    def _outlook(self, members: Sequence[_Member]) -> Outlook:
        fares = _fares(members)
        if not self._now:
            self._now = {name: _stretch(one) for name, one in _fares(self.members).items()}
        found: dict[str, Estimate | Absent] = dict(self.unknown)
        ran = wanted = 0.0
        for member in members:
            if member.factor is None or not member.demands:
                continue
            model = _stretch(fares[member.name])
            is_now = members is self.members
            value = model if member.measured is None else max(1.0, member.measured * model / self._now[member.name])
            # Where the network is wrong now by more than it was on the mixes, it is taken to be as wrong then.
            seen = 1.0 if member.measured is None else self._now[member.name] / member.measured
            factor = 1.0 if is_now and member.measured is not None else max(member.factor, seen, 1.0 / seen)
            found[member.name] = Estimate(value, max(1.0, value / factor), value * factor)
            runs = sum(fare.runs for fare in fares[member.name])
            ran, wanted = ran + runs, wanted + runs * value
        return Outlook(pressure=1.0 - ran / wanted if wanted > 0 else 0.0, stretch=found)


def node_of(uses: Sequence[Use], weights: Mapping[Key, float], names: Mapping[Key, str]) -> Node | Absent:
    """Make of what was watched what the network needs.

    Args:
        uses: At least ten, the oldest first.
        weights: Of guests with a CPU group of their own (``counters.weights.group_weights``).
        names: What each guest is called; no two have one name.
    """
    if len(uses) < MINIMUM_SAMPLES:
        return Absent(absent=f"only {len(uses)} of the {MINIMUM_SAMPLES} samples that are needed")
    last = uses[-1]
    if isinstance(last.cpus, Absent):
        return last.cpus
    cpus = frozenset(last.cpus)
    members: list[_Member] = []
    unknown: dict[str, Absent] = {}
    for key in last.guests:
        seen = [use.guests[key] for use in uses if key in use.guests]
        member = _member(names[key], seen, weights.get(key), cpus)
        if isinstance(member, Absent):
            unknown[names[key]] = member
        else:
            members.append(member)
    return Node([*_alike(members), *_others(uses, cpus)], unknown, cpus)


def named_apart(guests: Iterable[Guest]) -> dict[Key, str]:
    """Give each guest a name that no other has: its own, with its process where two are called alike."""
    found = list(guests)
    count = Counter(one.name for one in found)
    return {one.key: one.name if count[one.name] == 1 else f"{one.name} (pid {one.pid})" for one in found}


def _member(name: str, seen: Sequence[GuestUse], weight: float | None, host_cpus: frozenset[int]) -> _Member | Absent:
    guest: Guest = seen[-1].guest
    if len(seen) < MINIMUM_SAMPLES:
        return Absent(absent=f"it was seen in only {len(seen)} of the {MINIMUM_SAMPLES} samples that are needed")
    if isinstance(seen[-1].allowed_cpus, Absent):
        return seen[-1].allowed_cpus
    cpus = seen[-1].allowed_cpus & host_cpus
    if not cpus:
        return Absent(absent="its virtual CPUs may run on no CPU that is online")
    throttled = fmean(0.0 if isinstance(one.throttled_percent, Absent) else one.throttled_percent for one in seen)
    busy: list[float] = []
    for number in seen[-1].vcpus:
        each = [wanted_percent(use, number) for use in seen]
        known = [one for one in each if not isinstance(one, Absent)]
        if len(known) < MINIMUM_SAMPLES:
            return next(one for one in each if isinstance(one, Absent))
        ran, wanted = (fmean(one[part] for one in known) for part in (0, 1))
        if ran >= LEAST_RUN_PERCENT:
            # A thread that is measured to want more than all of the time never sleeps.
            busy.append(min(1.0, ran / max(ran, 100.0 - (wanted - ran) - throttled)))
    measured = stretch_of(seen)
    if busy and isinstance(measured, Absent):
        return measured
    # The weight of a group is shared by those of its virtual CPUs that want a CPU.
    each_weight = 1.0 if weight is None else weight / max(1.0, sum(busy))
    quota = seen[-1].quota_cpus
    # Those that want most of it get most of it.
    most = [1.0 if quota is None else min(1.0, quota * one / sum(busy)) for one in busy]
    demands = tuple(Demand(one, cpus, each_weight, limit) for one, limit in zip(busy, most, strict=True))
    return _Member(name, demands, live_factor(guest.kind), None if isinstance(measured, Absent) else measured)


def _alike(members: Sequence[_Member]) -> list[_Member]:
    """Make weights that hardly differ the same: the network's work grows with the square of how many there are."""
    if len({demand.weight for one in members for demand in one.demands}) <= _MOST_WEIGHTS:
        return list(members)

    def rounded(weight: float) -> float:
        return float(2.0 ** (round(2.0 * math.log2(weight)) / 2.0))

    return [
        replace(one, demands=tuple(replace(demand, weight=rounded(demand.weight)) for demand in one.demands))
        for one in members
    ]


def _others(uses: Sequence[Use], cpus: frozenset[int]) -> list[_Member]:
    """Give what is no guest: where it nearly fills a CPU it stays there, the rest may run anywhere."""
    busy = {cpu: fmean(_busy_cpus(use, cpu) for use in uses) for cpu in cpus}
    guests = fmean(sum(_guest_cpus(one) for one in use.guests.values()) for use in uses)
    rest = sum(busy.values()) - guests
    by_guests = {cpu: fmean(_guest_cpus_on(use, cpu) for use in uses) for cpu in cpus}
    hogs = {cpu: busy[cpu] - by_guests[cpu] for cpu in cpus if busy[cpu] - by_guests[cpu] >= _HOG}
    demands: list[Demand] = []
    if len(hogs) <= _MOST_HOGS and sum(hogs.values()) <= rest + _HOG:
        demands = [Demand(min(1.0, used), frozenset({cpu})) for cpu, used in sorted(hogs.items())]
        rest -= sum(hogs.values())
    if rest >= _LEAST_OTHERS * len(cpus):
        count = math.ceil(rest)
        demands += [Demand(min(1.0, rest / count), cpus)] * count
    return [_Member(NO_GUEST, tuple(demands), None)] if demands else []


def _busy_cpus(use: Use, cpu: int) -> float:
    if isinstance(use.cpus, Absent) or cpu not in use.cpus:
        return 0.0
    busy = use.cpus[cpu].busy_percent
    return 0.0 if isinstance(busy, Absent) else busy / 100.0


def _guest_cpus_on(use: Use, cpu: int) -> float:
    """Give the most that guests can have used of a CPU: nobody counts on which CPU a thread ran."""
    there = (one for one in use.guests.values() if not isinstance(one.allowed_cpus, Absent) and cpu in one.allowed_cpus)
    return min(1.0, sum(_guest_cpus(one) for one in there))


def _guest_cpus(use: GuestUse) -> float:
    parts = (*use.vcpus.values(), use.emulator, use.io)
    return sum(one.run_percent for one in parts if not isinstance(one, Absent)) / 100.0


def _fares(members: Sequence[_Member]) -> dict[str, list[Fare]]:
    each = iter(solve([demand for member in members for demand in member.demands]))
    return {member.name: [next(each) for _ in member.demands] for member in members}


def _stretch(fares: Sequence[Fare]) -> float:
    runs = sum(fare.runs for fare in fares)
    return sum(fare.wants for fare in fares) / runs if runs else 1.0
