"""Guests that count on two hosts, with what is measured of them: the testbed of ``make protect-demo``."""

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psutil
from counting_guest import PATIENT_TIMING, CountingGuest
from real_etcd import Etcd

from stealtime.hosts.counting import COUNTER, counting
from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.namespace_testbed import NamespaceTestbed
from stealtime.protect.epochs import read_epochs
from stealtime.protect.vm_file import Register

from .rows import Row, between

__all__ = [
    "ALL_WITHIN_S",
    "COUNTER",
    "Guest",
    "NamespaceTestbed",
    "await_all",
    "cpu_s",
    "started_guests",
    "testbed_with_etcd",
]

ALL_WITHIN_S = 300.0
"""Until all guests of one host are copied to the other."""

_serials = itertools.count()
"""Names of guests do not come again: the register remembers the last one of a name."""


def testbed_with_etcd(laboratory: Laboratory) -> NamespaceTestbed:
    """Have a real etcd decide who may be active."""
    # Its network is in namespaces that nobody else is in.
    return NamespaceTestbed(laboratory, register=Register(etcd=[Etcd(laboratory).url], insecure=True))


class Guest(CountingGuest):
    """A guest that counts, first on host ``a``, with a name of its own.

    Neither pause nor hold nor bytes depend on patient deadlines; failovers do, and are measured with the defaults.
    """

    def __init__(self, testbed: NamespaceTestbed, *, number: int = 0, known_as: str = "a", **machine: Any) -> None:
        machine = {"timing": PATIENT_TIMING, **machine}
        super().__init__(testbed, f"counter{next(_serials)}", number=number, known_as=known_as, **machine)

    @contextmanager
    def counting(self, flows: int = 1) -> Iterator[dict[str, Any]]:
        """Count with it over TCP and UDP; what the client has seen is in the document after the end."""
        seen: dict[str, Any] = {}
        with counting(self, flows) as client:
            yield seen
            seen.update(client.end())

    def rows(self, from_ns: int = 0, to_ns: int = 1 << 63) -> list[Row]:
        """Give its epochs on its first host that began in a time."""
        return between(read_epochs(self.member(self.home).epochs), from_ns, to_ns)

    def losses(self, from_ns: int, to_ns: int) -> list[int]:
        """Give when its active member on the first host lost its standby, in a time."""
        lost = [event for event in self.events(self.home) if event.get("state") == "Reclaiming"]
        return [at_ns for event in lost if from_ns <= (at_ns := int(event["monotonic_ns"])) < to_ns]

    def epochs_for(self, seconds: float) -> list[Row]:
        """Wait, and give the epochs that began meanwhile."""
        from_ns = time.monotonic_ns()
        time.sleep(seconds)
        to_ns = time.monotonic_ns()
        # A row is written when the epoch's output is released.
        self.waiting.until(
            lambda: (rows := self.rows()) and rows[-1]["begin_ns"] > to_ns,
            lambda: f"{self.vm.name} has no epochs any more",
        )
        return self.rows(from_ns, to_ns)


def started_guests(testbed: NamespaceTestbed, count: int) -> list[Guest]:
    """Start so many guests on one host."""
    guests = [Guest(testbed, number=number) for number in range(count)]
    for guest in guests:
        guest.start()
    return guests


def await_all(guests: Sequence[Guest]) -> None:
    """Wait until each is protected and answers."""
    for guest in guests:
        guest.await_ready(within_s=ALL_WITHIN_S)
        guest.ask("status")


def cpu_s(pid: int) -> float:
    """Give the CPU time that a process has used, user and system, without its children."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
