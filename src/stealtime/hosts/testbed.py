"""Hosts that can keep guests, with the network of these and a client on it: what studies stand on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from stealtime.hosts.client import Client
from stealtime.hosts.guest import Guest
from stealtime.hosts.host import CpuTimes
from stealtime.hosts.standby_memory import StandbyMemory


class Testbed(Protocol):
    """At least two hosts, in namespaces here (:mod:`.namespace_testbed`) or over ssh (:mod:`.lent_testbed`)."""

    @property
    def client(self) -> Client:
        """Who talks with the guests."""

    @property
    def folder(self) -> Path:
        """For files of trials."""

    @property
    def prefix_length(self) -> int:
        """Of the network of the guests."""

    def guest(self, name: str, *, number: int = 0, home: int = 0, standby: int = 1, **machine: Any) -> Guest:
        """Describe a guest; it is not started.

        Args:
            name: Of the machine, never used before: the register remembers it.
            number: One of several at once; the address follows from it.
            home: The number of the host where it begins.
            standby: The number of the host that backs it.
            machine: What it is, as in ``VM.toml``, but for what is the hosts' own.

        Raises:
            StealtimeError: There is no such address or host, or what it boots from cannot be brought to the hosts.
        """

    def address(self, number: int) -> str:
        """Give the IPv4 address of a guest.

        Raises:
            UsageError: There is none for so many.
        """

    def cpu_times(self) -> CpuTimes:
        """Read what guests have used, and all else on their hosts."""

    def times_by_host(self) -> Mapping[str, CpuTimes]:
        """Read the same of each host, by its name."""

    def standby_memory(self) -> StandbyMemory | None:
        """Read what those have who only stand by; None where there are none, or their host does not say."""

    def clear(self) -> None:
        """End all guests; the hosts receive others afterwards."""

    def log_tail(self) -> str:
        """Give the end of what guests wrote on their consoles, and of all logs around them."""
