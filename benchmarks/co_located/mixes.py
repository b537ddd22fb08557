"""The pieces of work, and the mixes in which they share CPUs: drawn at random. Pure.

A *pool* is a platform and the CPUs that all its guests share. It has one guest for each *slot*; a slot has a weight and
a quota. A mix puts pieces into some of the slots of its pool.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from stealtime.studies.stretch.analysis.model import Guest
from stealtime.wire.message import ContendProbe

KIB, MIB = 1 << 10, 1 << 20
MS = 1_000_000


def _work(
    tasks: int, collection_bytes: int, searches: int, io_ms: float = 0, lock_percent: int = 0, lock_searches: int = 1
) -> ContendProbe:
    # More than any of them gets done in its window; each row has its place in memory before.
    return ContendProbe(
        tasks=tasks, iterations=40_000, collection_bytes=collection_bytes, searches=searches,
        io_mean_ns=round(io_ms * MS), io_spread_percent=100, lock_percent=lock_percent, lock_searches=lock_searches,
        seed=1,
    )  # fmt: skip


PIECES: Mapping[str, ContendProbe] = {
    "cpu": _work(1, 64 * KIB, 400),
    "cpu-crowd": _work(4, 32 * KIB, 250),
    "memory-fill": _work(1, 2 * MIB, 1),
    "memory-search": _work(1, 2 * MIB, 30),
    "memory-huge": _work(8, 6 * MIB, 2),
    "io-short": _work(4, 32 * KIB, 120, io_ms=8),
    "io-long": _work(2, 64 * KIB, 1500, io_ms=20),
    "io-many": _work(12, 32 * KIB, 250, io_ms=20),
    "lock": _work(4, 32 * KIB, 300, lock_percent=50, lock_searches=30),
    "lock-io": _work(6, 64 * KIB, 100, io_ms=3, lock_percent=80, lock_searches=20),
    "all-of-it": _work(4, 512 * KIB, 12, io_ms=5, lock_percent=30, lock_searches=3),
    "memory-io": _work(3, 1 * MIB, 6, io_ms=6),
    "burst": _work(1, 64 * KIB, 6000, io_ms=120),
}
"""By name. What comes before the hyphen is its kind. The tasks of ``memory-huge`` together are beyond the last-level
cache of 32 MiB of the machine that it was written on; ``burst`` computes for tens of ms and then sleeps for longer."""

SLOTS: tuple[Guest, ...] = (
    Guest(vcpus=1, weight=100),
    Guest(vcpus=1, weight=100),
    Guest(vcpus=1, weight=100),
    Guest(vcpus=1, weight=300),
    Guest(vcpus=1, weight=100, quota_percent=40),
    Guest(vcpus=1, weight=100),
    Guest(vcpus=1, weight=100),
)
"""Of every pool; natively with as many CPUs as the pool has."""
CROWDS: Mapping[int, tuple[int, ...]] = {1: (2, 2, 3, 3, 4), 2: (2, 3, 4, 5, 6)}
"""By CPUs of the pool: how many guests a mix has, each count as likely as it is often here."""


@dataclass(frozen=True)
class Pool:
    """Guests on the same CPUs."""

    platform: str
    cpus: int

    @property
    def name(self) -> str:
        return f"{self.platform}-{self.cpus}"

    @property
    def vcpus(self) -> int:
        """Of each guest: User-Mode Linux has one."""
        return self.cpus if self.platform == "native" else 1

    @property
    def base(self) -> "Pool":
        """Where its work is measured alone: where the mixes are, but for User-Mode Linux on one CPU.

        On more such a guest can be several times slower: its processes hand its virtual CPU to each other, from one CPU
        to another that idles and must be woken up.
        """
        return Pool(self.platform, 1) if self.platform == "uml" else self

    def guest(self, slot: int) -> Guest:
        return SLOTS[slot].model_copy(update={"vcpus": self.vcpus})


POOLS = tuple(Pool(platform, cpus) for platform in ("native", "uml", "qemu-tcg-paravirt") for cpus in (1, 2))


@dataclass(frozen=True)
class Mix:
    """What runs at once."""

    name: str
    pool: Pool
    pieces: Mapping[int, str]
    """By slot."""


def mixes(pool: Pool, count: int, seed: int = 3) -> list[Mix]:
    """Draw the mixes of a pool; the same for the same seed, and each but once.

    All are drawn alike, so that what is found on some of them holds for the others (exchangeability).

    Args:
        pool: Where.
        count: How many.
        seed: Of the draw.
    """
    draw = random.Random(f"{seed} {pool.name}")  # noqa: S311 - which mixes, not a secret
    seen: set[tuple[tuple[int, str], ...]] = set()
    found: list[Mix] = []
    while len(found) < count:
        slots = sorted(draw.sample(range(len(SLOTS)), draw.choice(CROWDS[pool.cpus])))
        chosen = {slot: draw.choice(list(PIECES)) for slot in slots}
        # The same pieces in slots that are alike are the same mix.
        key = tuple(sorted((SLOTS.index(SLOTS[slot]), piece) for slot, piece in chosen.items()))
        if key not in seen:
            seen.add(key)
            found.append(Mix(f"{pool.name} {len(found) + 1}", pool, chosen))
    return found
