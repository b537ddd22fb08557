"""Deaths of the active member, one after the other, each seen from the member that takes over and from a client."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stealtime.hosts.guest import lose_host
from stealtime.hosts.host import FaultKind, NotProtectedError

from .hosts import Guest, NamespaceTestbed

_BEFORE_S = 0.7
_AFTER_S = 1.0
"""The client counts so long before the fault, and after the guest runs again."""

_MOST_LOST = 5

FAULTS: tuple[FaultKind, ...] = ("killed", "silent", "planned")

OUTAGE_MS = 500
"""What a client may notice of it."""


@dataclass(frozen=True)
class Failover:
    """One, seen from the member that took over and from the client."""

    fault: str
    resume_ms: float
    running_ms: float
    """From the fault until the guest ran elsewhere."""
    outage_ms: dict[str, float]
    """By protocol."""
    violations: int
    tcp_lived: bool


def strike(guest: Guest, fault: FaultKind) -> Failover | None:
    """Let the active member die in one of two ways; None if it just was not protected, and so the guest is no more.

    Raises:
        StealtimeError: It was protected, and nobody took over.
    """
    active = guest.await_ready()
    survivor = guest.other_host(active.host)
    try:
        with guest.counting() as seen:
            time.sleep(_BEFORE_S)
            died = lose_host([guest], [active], [survivor], fault)
            time.sleep(_AFTER_S)
    except NotProtectedError:
        return None
    finally:
        if fault == "silent":
            guest.revive(active.host)
    guest.await_ready(unlike=frozenset({active.pid or 0}))
    return Failover(
        fault=fault,
        resume_ms=(died.running_ns - died.detected_ns) / 1e6,
        running_ms=(died.running_ns - died.struck_ns) / 1e6,
        outage_ms={protocol: ns / 1e6 for protocol, ns in seen["longest_outage_ns"].items()},
        violations=int(seen["violations_total"]),
        tcp_lived=bool(seen["tcp_lived"]),
    )


def strike_repeatedly(
    testbed: NamespaceTestbed, strike_once: Callable[[Guest], bool], count: int, **machine: Any
) -> int:
    """Boot a guest with the default deadlines and strike it, until so many failovers are measured.

    Args:
        testbed: Where.
        strike_once: False if the guest just was not protected, and so is no more: it is booted anew.
        count: Failovers to measure.
        machine: What runs in the guest, and with other deadlines than the default ones its ``timing``.

    Returns:
        How often it was not protected.

    Raises:
        SystemExit: That was so too often.
    """
    lost = 0
    guest = _boot(testbed, machine)
    while count > 0:
        if strike_once(guest):
            count -= 1
            continue
        lost += 1
        if lost > _MOST_LOST:
            raise SystemExit(f"{lost} times nobody took the guest over\n{testbed.log_tail()}")
        guest.stop()
        guest = _boot(testbed, machine)
    guest.stop()
    return lost


def _boot(testbed: NamespaceTestbed, machine: dict[str, Any]) -> Guest:
    guest = Guest(testbed, **{"timing": {}, **machine})
    guest.start()
    guest.await_ready()
    guest.ask("status")
    return guest
