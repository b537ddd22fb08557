"""The situations: which guests do what on which CPUs, and what else runs there. Pure.

A guest works in bursts: so much work, then a pause, again and again. Work that never pauses is one end of that, a guest
that does nothing the other. What is due is never written here: it comes from how much longer the work took inside.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

KIB = 1 << 10

Where = Literal["last", "first", "both"]
"""Which of the host's CPUs a guest may use."""


@dataclass(frozen=True)
class Piece:
    """Work of one task."""

    work_ms: float
    """Of one burst, natively; under TCG it is made as long by doing less."""
    pause_ms: float = 0.0
    """The mean pause behind it, half of it exponentially spread."""
    faults: bool = False
    """Whether its pages are mapped anew each time: a guest of User-Mode Linux then hands its virtual CPU around."""
    tasks: int = 1


PIECES: Mapping[str, Piece] = {
    "busy": Piece(20),
    "half": Piece(5, 5),
    "burst-90-of-1000": Piece(90, 910),
    "burst-300-of-1000": Piece(300, 700),
    "burst-30-of-300": Piece(30, 270),
    "burst-10-of-100": Piece(10, 90),
    "burst-2-of-20": Piece(2, 18),
    "light-20-of-1000": Piece(20, 980),
    "light-2-of-100": Piece(2, 98),
    "faults": Piece(5, faults=True),
    "faults-10-of-100": Piece(10, 90, faults=True),
    "two-busy": Piece(20, tasks=2),
    "two-bursts": Piece(30, 120, tasks=2),
}


@dataclass(frozen=True)
class Doing:
    """What one guest does, and where it may. No piece: it does nothing."""

    piece: str | None
    where: Where = "last"


@dataclass(frozen=True)
class Hog:
    """A process that is no guest."""

    on_ms: float
    off_ms: float = 0.0
    where: Where = "last"


@dataclass(frozen=True)
class Situation:
    """Guests beside each other."""

    platform: Literal["uml", "qemu-tcg-paravirt"]
    guests: tuple[Doing, ...]
    hogs: tuple[Hog, ...] = ()
    quota_percent: float | None = None
    """Of the first guest's CPU group."""
    vcpus: int = 1
    """Of each guest."""

    @property
    def name(self) -> str:
        kinds = sorted({(one.piece or "idle", one.where) for one in self.guests})
        counted = [f"{self.guests.count(Doing(None if p == 'idle' else p, w))} x {p} on {w}" for p, w in kinds]
        hogs = [f"a hog of {one.on_ms:g}/{one.on_ms + one.off_ms:g} ms on {one.where}" for one in self.hogs]
        quota = [] if self.quota_percent is None else [f"a quota of {self.quota_percent:g} %"]
        vcpus = [] if self.vcpus == 1 else [f"{self.vcpus} vCPUs each"]
        return f"{self.platform}: {', '.join([*counted, *hogs, *quota, *vcpus])}"


def _alike(count: int, piece: str | None, where: Where = "last") -> tuple[Doing, ...]:
    return (Doing(piece, where),) * count


_OF_BOTH: tuple[tuple[tuple[Doing, ...], tuple[Hog, ...]], ...] = (
    (_alike(1, "busy"), ()),
    (_alike(2, "busy"), ()),
    ((Doing("busy"), Doing("busy", "first")), ()),
    (_alike(2, "busy", "both"), ()),
    (_alike(3, "busy", "both"), ()),
    ((Doing("busy"), Doing(None)), ()),
    ((Doing("busy"), Doing("light-20-of-1000")), ()),
    ((Doing("busy"), Doing("light-2-of-100")), ()),
    ((Doing("busy"), Doing("burst-10-of-100")), ()),
    (_alike(1, "half"), ()),
    (_alike(2, "half"), ()),
    (_alike(4, "half", "both"), ()),
    (_alike(1, "burst-90-of-1000"), ()),
    (_alike(4, "burst-90-of-1000"), ()),
    (_alike(4, "burst-90-of-1000", "both"), ()),
    (_alike(2, "burst-300-of-1000"), ()),
    (_alike(4, "burst-300-of-1000", "both"), ()),
    (_alike(4, "burst-30-of-300"), ()),
    (_alike(2, "burst-10-of-100"), ()),
    (_alike(4, "burst-10-of-100"), ()),
    (_alike(4, "burst-2-of-20"), ()),
    (_alike(4, "light-20-of-1000"), ()),
    (_alike(4, "light-2-of-100"), ()),
    (_alike(1, "burst-90-of-1000"), (Hog(1000),)),
    (_alike(1, "busy"), (Hog(1000),)),
    (_alike(1, "half", "both"), (Hog(1000),)),
    (_alike(1, "burst-10-of-100"), (Hog(20, 60),)),
    (_alike(2, None, "both"), ()),
)
_OF_UML: tuple[tuple[tuple[Doing, ...], tuple[Hog, ...]], ...] = (
    (_alike(6, "burst-90-of-1000"), ()),
    (_alike(6, "burst-90-of-1000", "both"), ()),
    (_alike(6, "light-20-of-1000"), ()),
    (_alike(6, "burst-2-of-20", "both"), ()),
    (_alike(1, "faults"), ()),
    (_alike(2, "faults"), ()),
    (_alike(2, "faults", "both"), ()),
    (_alike(4, "faults", "both"), ()),
    (_alike(1, "faults-10-of-100"), ()),
    (_alike(4, "faults-10-of-100"), ()),
)

SITUATIONS: tuple[Situation, ...] = (
    *(Situation("uml", guests, hogs) for guests, hogs in (*_OF_BOTH, *_OF_UML)),
    *(Situation("uml", _alike(count, "busy"), quota_percent=40) for count in (1, 2)),
    *(Situation("qemu-tcg-paravirt", guests, hogs) for guests, hogs in _OF_BOTH),
    *(
        Situation("qemu-tcg-paravirt", guests, vcpus=2)
        for guests in (
            _alike(1, "two-busy", "both"), _alike(2, "two-busy", "both"), _alike(1, "two-bursts"),
            _alike(2, "two-bursts", "both"),
        )
    ),
)  # fmt: skip


def _number(situation: Situation) -> int:
    return zlib.crc32(situation.name.encode())


HELD_OUT: frozenset[str] = frozenset(one.name for one in sorted(SITUATIONS, key=_number)[: len(SITUATIONS) // 3])
"""No limit may be chosen by these: a third, by a number that nobody chose."""
