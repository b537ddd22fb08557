"""Who wants, who has and who waits for some of the host's CPUs, so that it adds up; pure.

What the CPUs did is what guests ran there, what other processes ran, and a rest without a name: interrupts, short-lived
processes, what ticks and nanoseconds differ by. What is wanted is what they did and what virtual CPUs waited.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stealtime.capacity.counters.takers import Taker
from stealtime.capacity.figures import net_wait_percent
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
            waits = f" and wait for {waited:.2f}" if waited >= 0.005 else ""
            parts.append(f"{len(more)} more have {has:.2f}{waits}")
        parts.append(f"others have {max(0.0, self.rest_cpus):.2f}")
        parts.append(f"{self.idle_cpus:.2f} stand idle")
        return f"of {self.there_cpus:.2f} CPUs {', '.join(parts)}"


class Ledger:
    """What each guest and process has and waits for, from which accounts of some CPUs are made.

    Args:
        uses: Of the host, over the time.
        takers: Who is no guest.
    """

    def __init__(self, uses: Sequence[Use], takers: Sequence[Taker] = ()) -> None:
        self._cpus = _of_cpus(uses)
        self._claims = [*_of_guests(uses), *_of_takers(takers)]

    def account(self, cpus: frozenset[int]) -> Account:
        """Say who has some of the host's CPUs.

        Of a guest or process that may also run elsewhere, the part counts that these CPUs are of all on which it may
        run. Where that is more than was used of them, such guests and processes were elsewhere.
        """
        there_cpus = sum(there for cpu, (there, _) in self._cpus.items() if cpu in cpus)
        busy_cpus = sum(busy for cpu, (_, busy) in self._cpus.items() if cpu in cpus)
        claims = [_part(claim, allowed, cpus) for claim, allowed in self._claims if allowed & cpus]
        excess_cpus = sum(one.has_cpus for one in claims) - busy_cpus
        if excess_cpus > 0:
            claims = _fitted(claims, excess_cpus)
        claims.sort(key=lambda one: (-round(one.wants_cpus, 1), one.name))
        rest_cpus = busy_cpus - sum(one.has_cpus for one in claims)
        return Account(cpus, there_cpus, tuple(claims), rest_cpus, there_cpus - busy_cpus)


def _of_cpus(uses: Sequence[Use]) -> dict[int, tuple[float, float]]:
    """Give how much of each CPU was there, without what the host's own host took, and how much was busy."""
    found: dict[int, tuple[float, float]] = {}
    for use in uses:
        for cpu, row in {}.items() if isinstance(use.cpus, Absent) else use.cpus.items():
            if isinstance(row.busy_percent, Absent):
                continue
            stolen = 0.0 if isinstance(row.steal_percent, Absent) else row.steal_percent
            there, busy = found.get(cpu, (0.0, 0.0))
            found[cpu] = there + (1 - stolen / 100) / len(uses), busy + row.busy_percent / 100 / len(uses)
    return found


def _of_guests(uses: Sequence[Use]) -> list[tuple[Claim, frozenset[int]]]:
    """Give what each guest has and waits for in all, and where it may run as far as that is known."""
    seen: dict[tuple[int, int], tuple[GuestUse, float, float]] = {}
    for use in uses:
        for key, one in use.guests.items():
            if one.unreadable is not None:
                continue
            _, has, waits = seen.get(key, (one, 0.0, 0.0))
            for vcpu in one.vcpus.values():
                has += vcpu.run_percent / 100
                wait_percent = net_wait_percent(one, vcpu)
                # Where a quota's part is unknown the wait is nobody's.
                waits += 0.0 if isinstance(wait_percent, Absent) else wait_percent / 100
            seen[key] = one, has, waits
    return [
        (Claim(one.guest.name, one.guest.pid, True, has / len(uses), waits / len(uses)), one.allowed_cpus)
        for one, has, waits in seen.values()
        if not isinstance(one.allowed_cpus, Absent)
    ]


def _of_takers(takers: Sequence[Taker]) -> list[tuple[Claim, frozenset[int]]]:
    return [(Claim(one.name, one.pid, False, one.used_cpus), one.allowed_cpus) for one in takers]


def _part(claim: Claim, allowed: frozenset[int], cpus: frozenset[int]) -> Claim:
    share = len(allowed & cpus) / len(allowed)
    if share == 1:
        return claim
    return replace(claim, has_cpus=share * claim.has_cpus, waits_cpus=share * claim.waits_cpus, may_run_elsewhere=True)


def _fitted(claims: Sequence[Claim], excess_cpus: float) -> list[Claim]:
    """Take from those that may run elsewhere what cannot have been here."""
    loose = sum(one.has_cpus for one in claims if one.may_run_elsewhere)
    kept = max(0.0, 1 - excess_cpus / loose) if loose else 1.0
    return [replace(one, has_cpus=kept * one.has_cpus) if one.may_run_elsewhere else one for one in claims]
