"""What to change, in numbers: fills the words of a rule with the figures of the case; pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

from stealtime.capacity.blame import Account, Ledger
from stealtime.capacity.counters.takers import Taker
from stealtime.capacity.figures import Series
from stealtime.capacity.guest import Guest
from stealtime.capacity.judgement import Judgement
from stealtime.capacity.placement import IDLE_PERCENT
from stealtime.capacity.use import GuestUse, Use
from stealtime.vocabulary.cpu_lists import format_cpus
from stealtime.vocabulary.readings import Absent

_MOST_NAMES = 5
_MOST_BUSY_PERCENT = 100 - IDLE_PERCENT
"""Up to which a host is filled when it is asked how many more guests it has room for."""


@dataclass(frozen=True)
class Advice:
    """A judgement in words."""

    judgement: Judgement
    why: str | None
    change: str | None
    account: Account | None = None
    """Who has the CPUs that are waited for."""


def advise(
    uses: Sequence[Use],
    host: Judgement,
    guests: Sequence[Judgement],
    takers: Sequence[Taker] = (),
) -> tuple[Advice, list[Advice]]:
    """Say of each judgement why it is so and what to change.

    Args:
        uses: What was judged, the oldest first.
        host: Its judgement.
        guests: Theirs.
        takers: Who else used the host's CPUs.
    """
    facts = _Facts(uses, takers)
    # Words are wanted only where a rule held.
    words = {one.subject: facts.of_guest(one.guest) for one in guests if one.guest is not None and one.outcome}
    of_host = facts.of_host(guests) if host.outcome is not None else {}
    if host.outcome is not None and host.outcome.of_guest is not None:
        of_host = {**words.get(host.outcome.of_guest, {}), **of_host}
    account = None if host.outcome is None else facts.account_of_guest(host.outcome.of_guest)
    return _put(host, of_host, account), [
        _put(one, words.get(one.subject, {}), facts.account_of_guest(one.subject if one.outcome else None))
        for one in guests
    ]


def _put(judgement: Judgement, words: Mapping[str, str], account: Account | None) -> Advice:
    if judgement.outcome is None:
        return Advice(judgement, None, None)
    rule = judgement.outcome.rule
    known = _Known(words)
    why = rule.why.format_map(known)
    because = why if judgement.because is not None else None
    # Of a verdict that has nothing to do with waiting nobody is to blame.
    is_of_waits = rule.verdict in ("over-committed host", "misplaced guests")
    return Advice(
        replace(judgement, because=because), why, rule.change.format_map(known), account if is_of_waits else None
    )


class _Known(dict[str, str]):
    """Gives a question mark for what could not be found out."""

    def __missing__(self, key: str) -> str:
        return "?"


class _Facts:
    def __init__(self, uses: Sequence[Use], takers: Sequence[Taker]) -> None:
        self._uses = uses
        self._takers = takers
        self._topology = uses[-1].topology
        self._accounts: dict[frozenset[int], Account] = {}
        self._guests = {key: [use.guests[key] for use in uses if key in use.guests] for key in uses[-1].guests}
        self._demands: dict[tuple[int, int], float] = {}
        cpus = uses[-1].cpus
        self._busy = {} if isinstance(cpus, Absent) else {cpu: self._mean_busy(cpu) for cpu in cpus}

    def of_host(self, guests: Sequence[Judgement]) -> dict[str, str]:
        shares = [busy / 100 for busy in self._busy.values()]
        words = {"all_busy_percent": f"{100 * math.prod(shares):.2g}"} if shares else {}
        words["room"], words["room_where"] = self._room([one.guest.key for one in guests if one.guest is not None])
        return words

    def _room(self, keys: Sequence[tuple[int, int]]) -> tuple[str, str]:
        """Say how many more guests like the largest one fit, and where such a guest may run if not everywhere."""
        # A guest that does nothing tells nothing of how many more would fit.
        demand, key = max(((self._demand_percent(key), key) for key in keys), default=(0.0, None))
        if key is None or demand < 1:
            return "many", ""
        last = self._guests[key][-1]
        cpus = self._busy.keys() if isinstance(last.allowed_cpus, Absent) else last.allowed_cpus & self._busy.keys()
        spare = _MOST_BUSY_PERCENT * self._topology.worth_cpus(cpus) - sum(self._busy[cpu] for cpu in cpus)
        where = f" on {_cpus(cpus)}, where {last.guest.name} may run," if len(cpus) < len(self._busy) else ""
        return str(max(0, int(spare // demand))), where

    def of_guest(self, guest: Guest) -> dict[str, str]:
        key = guest.key
        last = self._guests[key][-1]
        vcpus = max(len(last.vcpus), 1)
        words = {"guest": guest.name, "vcpus": str(vcpus), "account": "it is not known which CPUs those are"}
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
        cpus = frozenset(allowed & self._busy.keys()) or allowed
        sharers = [one for one, seen in self._guests.items() if self._shares(seen[-1], cpus)]
        # Those that want most first; a percent more or less is no order.
        ranked = sorted((-round(self._demand_percent(one), -1), self._guests[one][-1].guest.name) for one in sharers)
        names = [name for _, name in ranked]
        account = self._account(cpus)
        words["cpus"] = _cpus(cpus) + self._threads(cpus)
        words["capacity_cpus"] = str(len(cpus))
        words["demand_cpus"] = f"{account.wanted_cpus:.1f}"
        more = [f"{len(names) - _MOST_NAMES} more guests"] if len(names) > _MOST_NAMES else []
        words["sharers"] = ", ".join([*names[:_MOST_NAMES], *more]) + _others(account)
        words["relief"] = self._relief(guest.name, cpus, account)
        words["account"] = account.told()
        return words

    def account_of_guest(self, name: str | None) -> Account | None:
        """Give who has the CPUs of a guest; None where it is not known which they are."""
        last = next((seen[-1] for seen in self._guests.values() if seen[-1].guest.name == name), None)
        if last is None or isinstance(last.allowed_cpus, Absent):
            return None
        return self._account(frozenset(last.allowed_cpus & self._busy.keys()) or last.allowed_cpus)

    @cached_property
    def _ledger(self) -> Ledger:
        # While nobody waits it is not wanted.
        return Ledger(self._uses, self._takers)

    def _account(self, cpus: frozenset[int]) -> Account:
        if cpus not in self._accounts:
            self._accounts[cpus] = self._ledger.account(cpus)
        return self._accounts[cpus]

    def _threads(self, cpus: frozenset[int]) -> str:
        cores = self._topology.cores(cpus)
        if cores == len(cpus):
            return ""
        return f": {cores} cores, worth {self._topology.worth_cpus(cpus):.3g} where all of their threads are busy"

    def _growth(self, wanted_vcpus: int) -> str:
        if wanted_vcpus > len(self._busy):
            return f"that takes a host with more than the {len(self._busy)} CPUs of this one"
        idle = self._idle()
        return f"{_listed(idle)} can take them" if idle else "no CPU of this host is idle enough for them now"

    def _relief(self, guest: str, cpus: frozenset[int], account: Account) -> str:
        # Who is no guest has at least half of what is waited for: no guest has to go.
        is_of_others = account.others_cpus > 0.1 * len(cpus) and account.others_cpus >= account.waited_cpus / 2
        hogs = ", ".join(f"{one.name} (process {one.pid})" for one in account.hogs[:_MOST_NAMES])
        elsewhere = {cpu: share for cpu, share in self._idle().items() if cpu not in cpus}
        if elsewhere:
            near = {cpu: share for cpu, share in elsewhere.items() if self._topology.is_near(cpu, cpus)}
            far = "" if near else ", which has another memory node"
            who = f"move {hogs} there, or " if is_of_others and hogs else ""
            return f"{who}let {guest} use {_listed(near or elsewhere)} too{far}"
        if is_of_others:
            whom = hogs or "what is no guest"
            return f"no other CPU of this host is idle enough: stop {whom}, or give it less weight (nice, cpu.weight)"
        return "no other CPU of this host is idle enough: move a guest to another host, or take virtual CPUs from one"

    def _idle(self) -> dict[int, float]:
        return {cpu: 100 - busy for cpu, busy in self._busy.items() if 100 - busy >= IDLE_PERCENT}

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


def _others(account: Account) -> str:
    """Name what is no guest, where it takes more than a tenth of the CPUs."""
    if account.others_cpus <= 0.1 * len(account.cpus):
        return ""
    hogs = account.hogs[:_MOST_NAMES]
    named = ", ".join(f"{one.name} (process {one.pid})" for one in hogs)
    if named and sum(one.has_cpus for one in hogs) < 0.9 * account.others_cpus:
        named += " and others"
    return f" (and {named or 'processes that are no guest'}, {account.others_cpus:.1f} CPUs)"


def _cpus(cpus: Collection[int]) -> str:
    return f"CPU {format_cpus(cpus)}" if len(cpus) > _MOST_NAMES else f"CPU {', '.join(map(str, sorted(cpus)))}"


def _listed(idle: Mapping[int, float]) -> str:
    ranked = sorted(idle.items())
    more = f" and {len(ranked) - _MOST_NAMES} more" if len(ranked) > _MOST_NAMES else ""
    return ", ".join(f"CPU {cpu} ({share:.0f} % idle)" for cpu, share in ranked[:_MOST_NAMES]) + more
