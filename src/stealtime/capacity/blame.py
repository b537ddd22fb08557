"""Who wants, who has and who waits for some of the host's CPUs, so that it adds up; pure.

What the CPUs did is what guests ran there, what other processes ran, and a rest without a name: interrupts, short-lived
processes, what ticks and nanoseconds differ by. What is wanted is what they did and what virtual CPUs waited.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stealtime.capacity.counters.takers import Taker
from stealtime.capacity.figures import net_wait_percent
from stealtime.capacity.guest import Guest
from stealtime.capacity.use import GuestUse, Use
from stealtime.vocabulary.readings import Absent

_MOST_NAMES = 5


@dataclass(frozen=True)
class Claim:
    """What one guest or process has of some CPUs, in CPUs."""

    name: str
    pid: int
    is_guest: bool
    has_cpus: float
    waits_cpus: float = 0.0
    may_run_elsewhere: bool = False
    """Then what it has here is estimated."""

    @property
    def wants_cpus(self) -> float:
        return self.has_cpus + self.waits_cpus


@dataclass(frozen=True)
class Account:
    """Some of the host's CPUs, and who has them. ``has`` of all, ``rest`` and ``idle`` are ``there``."""

    cpus: frozenset[int]
    there_cpus: float
    """Without what the host's own host took."""
    claims: tuple[Claim, ...]
    """Who wants most first."""
    rest_cpus: float
    """Had by nobody whose name is known; less than 0 where ticks and nanoseconds differ."""
    idle_cpus: float

    @property
    def wanted_cpus(self) -> float:
        return self.there_cpus - self.idle_cpus + self.waited_cpus

    @property
    def waited_cpus(self) -> float:
        return sum(one.waits_cpus for one in self.claims)

    @property
    def others_cpus(self) -> float:
        """What is had by whoever is no guest."""
        return self.rest_cpus + sum(one.has_cpus for one in self.claims if not one.is_guest)

    @property
    def hogs(self) -> list[Claim]:
        """Processes that are no guest and have more than a tenth of a CPU."""
        return [one for one in self.claims if not one.is_guest and one.has_cpus > 0.1]

    def told(self) -> str:
        """Say it in a line that adds up."""
        parts = []
        for one in self.claims[:_MOST_NAMES]:
            name = one.name if one.is_guest else f"{one.name} (process {one.pid}, no guest)"
            waits = f" and waits for {one.waits_cpus:.2f}" if one.waits_cpus >= 0.005 else ""
            parts.append(f"{name} has {one.has_cpus:.2f}{waits}")
        if more := self.claims[_MOST_NAMES:]:
            has, waited = sum(one.has_cpus for one in more), sum(one.waits_cpus for one in more)
            parts.append(f"{len(more)} more have {has:.2f} and wait for {waited:.2f}")
        parts.append(f"others have {max(0.0, self.rest_cpus):.2f}")
        parts.append(f"{self.idle_cpus:.2f} stand idle")
        return f"of {self.there_cpus:.2f} CPUs {', '.join(parts)}"


def account_of(uses: Sequence[Use], cpus: frozenset[int], takers: Sequence[Taker] = ()) -> Account:
    """Say who has some of the host's CPUs.

    Of a guest or process that may also run elsewhere, the part counts that these CPUs are of all on which it may run.

    Args:
        uses: Of the host, over the time.
        cpus: Which.
        takers: Who is no guest.
    """
    there = busy = 0.0
    for use in uses:
        for cpu in cpus if not isinstance(use.cpus, Absent) else ():
            row = None if isinstance(use.cpus, Absent) else use.cpus.get(cpu)
            if row is None or isinstance(row.busy_percent, Absent):
                continue
            stolen = 0.0 if isinstance(row.steal_percent, Absent) else row.steal_percent
            there += 1 - stolen / 100
            busy += row.busy_percent / 100
    there_cpus, busy_cpus = there / len(uses), busy / len(uses)
    claims = [*_of_guests(uses, cpus), *_of_takers(takers, cpus)]
    excess = sum(one.has_cpus for one in claims) - busy_cpus
    if excess > 0:
        claims = _fitted(claims, excess)
    claims.sort(key=lambda one: (-round(one.wants_cpus, 1), one.name))
    rest = busy_cpus - sum(one.has_cpus for one in claims)
    return Account(cpus, there_cpus, tuple(claims), rest, there_cpus - busy_cpus)


def _of_guests(uses: Sequence[Use], cpus: frozenset[int]) -> list[Claim]:
    seen: dict[tuple[int, int], tuple[Guest, float, float, bool]] = {}
    for use in uses:
        for key, one in use.guests.items():
            share = _share(one, cpus)
            if not share:
                continue
            guest, has, waits, _ = seen.get(key, (one.guest, 0.0, 0.0, False))
            has += share * sum(vcpu.run_percent for vcpu in one.vcpus.values()) / 100
            for vcpu in one.vcpus.values():
                wait_percent = net_wait_percent(one, vcpu)
                # Where a quota's part is unknown the wait is nobody's.
                waits += 0.0 if isinstance(wait_percent, Absent) else share * wait_percent / 100
            seen[key] = guest, has, waits, share < 1
    return [
        Claim(guest.name, guest.pid, True, has / len(uses), waits / len(uses), roams)
        for guest, has, waits, roams in seen.values()
    ]


def _share(use: GuestUse, cpus: frozenset[int]) -> float:
    if use.unreadable is not None or isinstance(use.allowed_cpus, Absent) or not use.allowed_cpus:
        return 0.0
    return len(use.allowed_cpus & cpus) / len(use.allowed_cpus)


def _of_takers(takers: Sequence[Taker], cpus: frozenset[int]) -> list[Claim]:
    claims = []
    for one in takers:
        share = len(one.allowed_cpus & cpus) / len(one.allowed_cpus) if one.allowed_cpus else 0.0
        if share:
            has_cpus = share * one.used_cpus
            claims.append(Claim(one.name, one.pid, is_guest=False, has_cpus=has_cpus, may_run_elsewhere=share < 1))
    return claims


def _fitted(claims: Sequence[Claim], excess_cpus: float) -> list[Claim]:
    """Take from those that may run elsewhere what cannot have been here."""
    loose = sum(one.has_cpus for one in claims if one.may_run_elsewhere)
    kept = max(0.0, 1 - excess_cpus / loose) if loose else 1.0
    return [replace(one, has_cpus=kept * one.has_cpus) if one.may_run_elsewhere else one for one in claims]
