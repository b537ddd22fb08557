"""What to change, in numbers: fills the words of a rule with the figures of the case; pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from stealtime.capacity.figures import Series
from stealtime.capacity.guest import Guest
from stealtime.capacity.judgement import Judgement
from stealtime.capacity.use import GuestUse, Use
from stealtime.vocabulary.readings import Absent

_MOST_NAMES = 5
_IDLE_PERCENT = 60.0
"""A CPU that is idle at least so much can take a virtual CPU: the rest of the 40 % of an over-provisioned host."""


@dataclass(frozen=True)
class Advice:
    """A judgement in words."""

    judgement: Judgement
    why: str | None
    change: str | None


def advise(uses: Sequence[Use], host: Judgement, guests: Sequence[Judgement]) -> tuple[Advice, list[Advice]]:
    """Say of each judgement why it is so and what to change; the oldest use comes first."""
    facts = _Facts(uses)
    # Words are wanted only where a rule held.
    words = {one.subject: facts.of_guest(one.guest) for one in guests if one.guest is not None and one.outcome}
    of_host = facts.of_host(guests) if host.outcome is not None else {}
    if host.outcome is not None and host.outcome.of_guest is not None:
        of_host = {**words.get(host.outcome.of_guest, {}), **of_host}
    return _put(host, of_host), [_put(one, words.get(one.subject, {})) for one in guests]


def _put(judgement: Judgement, words: Mapping[str, str]) -> Advice:
    if judgement.outcome is None:
        return Advice(judgement, None, None)
    rule = judgement.outcome.rule
    known = _Known(words)
    why = rule.why.format_map(known)
    because = why if judgement.because is not None else None
    return Advice(replace(judgement, because=because), why, rule.change.format_map(known))


class _Known(dict[str, str]):
    """Gives a question mark for what could not be found out."""

    def __missing__(self, key: str) -> str:
        return "?"


class _Facts:
    def __init__(self, uses: Sequence[Use]) -> None:
        self._uses = uses
        self._guests = {key: [use.guests[key] for use in uses if key in use.guests] for key in uses[-1].guests}
        self._demands: dict[tuple[int, int], float] = {}
        cpus = uses[-1].cpus
        self._busy = {} if isinstance(cpus, Absent) else {cpu: self._mean_busy(cpu) for cpu in cpus}

    def of_host(self, guests: Sequence[Judgement]) -> dict[str, str]:
        shares = [busy / 100 for busy in self._busy.values()]
        words = {"all_busy_percent": f"{100 * math.prod(shares):.2g}"} if shares else {}
        demands = [self._demand_percent(one.guest.key) for one in guests if one.guest is not None]
        largest = max(demands, default=0.0)
        spare = 40 * len(shares) - sum(self._busy.values())
        # A guest that does nothing tells nothing of how many more would fit.
        words["room"] = str(max(0, int(spare // largest))) if largest >= 1 else "many"
        return words

    def of_guest(self, guest: Guest) -> dict[str, str]:
        key = guest.key
        last = self._guests[key][-1]
        vcpus = max(len(last.vcpus), 1)
        words = {"guest": guest.name, "vcpus": str(vcpus)}
        wanted_cpus = self._demand_percent(key) / 100
        if last.quota_cpus is not None:
            words["quota_cpus"] = f"{last.quota_cpus:.2g}"
            words["suggested_quota_cpus"] = f"{max(wanted_cpus, last.quota_cpus):.2g}"
        # A queue of three for each is more than twice as many could run at once; twice is a step that can be judged.
        words["suggested_vcpus"] = str(2 * vcpus)
        words["growth"] = self._growth(2 * vcpus)
        allowed = last.allowed_cpus
        if isinstance(allowed, Absent):
            return words
        cpus = allowed & self._busy.keys() or allowed
        sharers = [one for one, seen in self._guests.items() if self._shares(seen[-1], cpus)]
        demand_cpus = sum(self._demand_percent(one) for one in sharers) / 100
        # Those that want most first; a percent more or less is no order.
        ranked = sorted((-round(self._demand_percent(one), -1), self._guests[one][-1].guest.name) for one in sharers)
        names = [name for _, name in ranked]
        words["cpus"] = f"CPU {', '.join(map(str, sorted(cpus)))}"
        words["capacity_cpus"] = str(len(cpus))
        words["demand_cpus"] = f"{demand_cpus:.1f}"
        more = [f"{len(names) - _MOST_NAMES} more guests"] if len(names) > _MOST_NAMES else []
        words["sharers"] = ", ".join([*names[:_MOST_NAMES], *more]) + self._others(cpus, sharers)
        words["relief"] = self._relief(guest.name, cpus)
        return words

    def _growth(self, wanted_vcpus: int) -> str:
        if wanted_vcpus > len(self._busy):
            return f"that takes a host with more than the {len(self._busy)} CPUs of this one"
        idle = self._idle()
        return f"{_listed(idle)} can take them" if idle else "no CPU of this host is idle enough for them now"

    def _relief(self, guest: str, cpus: frozenset[int]) -> str:
        elsewhere = {cpu: share for cpu, share in self._idle().items() if cpu not in cpus}
        if elsewhere:
            return f"let {guest} use {_listed(elsewhere)} too"
        return "no other CPU of this host is idle enough: move a guest to another host, or take virtual CPUs from one"

    def _idle(self) -> dict[int, float]:
        return {cpu: 100 - busy for cpu, busy in self._busy.items() if 100 - busy >= _IDLE_PERCENT}

    def _others(self, cpus: frozenset[int], sharers: Sequence[tuple[int, int]]) -> str:
        """Name what is no guest, where it takes more than a tenth of the CPUs."""
        taken = sum(
            sum(one.run_percent for one in (*use.vcpus.values(), use.emulator, use.io) if not isinstance(one, Absent))
            for use in (self._guests[one][-1] for one in sharers)
        )
        rest = sum(self._busy.get(cpu, 0.0) for cpu in cpus) - taken
        return f" (and processes that are no guest, {rest / 100:.1f} CPUs)" if rest > 10 * len(cpus) else ""

    def _shares(self, use: GuestUse, cpus: frozenset[int]) -> bool:
        if use.unreadable is not None or isinstance(use.allowed_cpus, Absent):
            return False
        return bool(use.allowed_cpus & cpus)

    def _demand_percent(self, key: tuple[int, int]) -> float:
        """Give what a guest would use of CPUs if it never waited, in percent of one."""
        if key not in self._demands:
            seen = [use for use in self._guests[key] if use.unreadable is None]
            each = [sum(one.run_percent + one.wait_percent for one in use.vcpus.values()) for use in seen]
            self._demands[key] = sum(each) / len(each) if each else 0.0
        return self._demands[key]

    def _mean_busy(self, cpu: int) -> float:
        rows = [use.cpus[cpu] for use in self._uses if not isinstance(use.cpus, Absent) and cpu in use.cpus]
        series = Series(rows, attrgetter("busy_percent"))
        return series.mean if series.values else 0.0


def _listed(idle: Mapping[int, float]) -> str:
    return ", ".join(f"CPU {cpu} ({share:.0f} % idle)" for cpu, share in sorted(idle.items()))
