"""Deaths of the active member, one after the other, each seen from the member that takes over and from a client."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stealtime.hosts.laboratory import NetworkName
from stealtime.hosts.stand import poll
from stealtime.protect.status import MemberStatus

from .hosts import Guest, Stand

_BEFORE_S = 0.7
_AFTER_S = 1.0
"""The client counts so long before the blow, and after the guest runs again."""

_TAKEN_WITHIN_S = 10.0
_MOST_LOST = 5

_CABLES: tuple[NetworkName, ...] = ("replication", "clients", "register")
BLOWS = ("killed", "silent")

OUTAGE_MS = 500
"""What a client may notice of it."""


@dataclass(frozen=True)
class Failover:
    """One, seen from the member that took over and from the client."""

    blow: str
    resume_ms: float
    running_ms: float
    """From the blow until the guest ran elsewhere."""
    outage_ms: dict[str, float]
    """By protocol."""
    violations: int
    tcp_lived: bool


def strike(guest: Guest, blow: str) -> Failover | None:
    """Let the active member die in one of two ways; None if it just was not protected, and so the guest is no more.

    Raises:
        SystemExit: It was protected, and nobody took over.
    """
    stand = guest.stand
    active = guest.await_ready()
    other = "b" if active.host == "a" else "a"
    assert active.pid is not None
    gone = {active.pid}
    with guest.counting() as seen:
        time.sleep(_BEFORE_S)
        blown_ns = time.monotonic_ns()
        if blow == "killed":
            os.kill(active.pid, signal.SIGKILL)
        else:
            for cable in _CABLES:
                stand.laboratory.cut(active.host, cable)
            blown_ns = time.monotonic_ns()
            gone |= set(stand.laboratory.power_off(active.host))
        after = poll(lambda: _running(guest, other), _TAKEN_WITHIN_S)
        time.sleep(_AFTER_S)
    if blow == "silent":
        stand.laboratory.mend_all()
        stand.start_daemon(active.host)
    if after is None or after.resume_ns is None:
        if _state_at(guest, active.host, blown_ns) == "Protected":
            raise SystemExit(f"{other} did not take the guest over\n{stand.last_words()}")
        return None
    failover = Failover(
        blow=blow,
        resume_ms=after.resume_ns / 1e6,
        running_ms=(_running_since(guest, other, blown_ns) - blown_ns) / 1e6,
        outage_ms={protocol: ns / 1e6 for protocol, ns in seen["longest_outage_ns"].items()},
        violations=int(seen["violations_total"]),
        tcp_lived=bool(seen["tcp_lived"]),
    )
    guest.await_ready(unlike=frozenset(gone))
    return failover


def _running(guest: Guest, host: str) -> MemberStatus | None:
    status = guest.status(host)
    # It is active as soon as it may be, and has the duration once the guest runs.
    is_it = status is not None and status.role in ("solo", "active") and status.resume_ns is not None
    return status if is_it else None


def _state_at(guest: Guest, host: str, at_ns: int) -> str:
    states = [event for event in guest.events(host) if event["event"] == "state" and int(event["monotonic_ns"]) < at_ns]
    return str(states[-1]["state"]) if states else "none"


def _running_since(guest: Guest, host: str, after_ns: int) -> int:
    times = [int(event["monotonic_ns"]) for event in guest.events(host) if event["event"] == "guest-continued"]
    return min(at_ns for at_ns in times if at_ns > after_ns)


def strike_repeatedly(stand: Stand, strike_once: Callable[[Guest], bool], count: int, **machine: Any) -> int:
    """Boot a guest with the default deadlines and strike it, until so many failovers are measured.

    Args:
        stand: Where.
        strike_once: False if the guest just was not protected, and so is no more: it is booted anew.
        count: Failovers to measure.
        machine: What runs in the guest.

    Returns:
        How often it was not protected.

    Raises:
        SystemExit: That was so too often.
    """
    lost = 0
    guest = _boot(stand, machine)
    while count > 0:
        if strike_once(guest):
            count -= 1
            continue
        lost += 1
        if lost > _MOST_LOST:
            raise SystemExit(f"{lost} times nobody took the guest over\n{stand.last_words()}")
        guest.stop()
        guest = _boot(stand, machine)
    guest.stop()
    return lost


def _boot(stand: Stand, machine: dict[str, Any]) -> Guest:
    guest = Guest(stand, timing={}, **machine)
    guest.start()
    guest.await_ready()
    guest.ask("status")
    return guest
