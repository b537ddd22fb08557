"""What was done in a trial, as the cost model counts it: stored beside the CPU times that it explains."""

import os
from collections.abc import Iterable
from typing import Self

from stealtime.hosts.frame_counters import Traffic
from stealtime.hosts.standby_memory import StandbyMemory
from stealtime.studies.telephony.sipp.program import SippUse
from stealtime.vocabulary.readings import Model


class Work(Model):
    """What servers did, all appliances together, in the time of which their CPU times are."""

    packets_in: int
    """Frames that phones sent, as their link counted them, ARP's among them. What guests say to each other is not in
    it."""
    packets_out: int
    """That phones got."""
    bytes_in: int
    bytes_out: int
    connections: int
    """Of TCP, that phones opened."""
    machine_cpus: int
    """CPUs of the machine that hosts, standbys and phones shared."""
    generators_cpu_ns: int | None = None
    """By those that offered the load; None where that was not SIPp alone, or the kernel does not tell."""

    @property
    def packets(self) -> int:
        """Both ways."""
        return self.packets_in + self.packets_out

    @classmethod
    def of(cls, traffic: Traffic | None, connections: int, uses: Iterable[SippUse] | None = None) -> Self | None:
        """Put it together; None where the phones' link cannot be counted, as others use it, too.

        Args:
            traffic: Of that link, meanwhile.
            connections: That phones opened.
            uses: What each SIPp had; None where others offered the load besides.
        """
        if traffic is None:
            return None
        had = None if uses is None else [use.scheduled for use in uses]
        cpu_ns = None if had is None or None in had else sum(one.used_ns for one in had if one is not None)
        return cls(
            packets_in=traffic.packets_sent,
            packets_out=traffic.packets_received,
            bytes_in=traffic.bytes_sent,
            bytes_out=traffic.bytes_received,
            connections=connections,
            machine_cpus=len(os.sched_getaffinity(0)),
            generators_cpu_ns=cpu_ns,
        )


class StandbyUse(Model):
    """What the host that backs a server had to give for it."""

    cpu_ns: int | None
    """Of the CPU time of the host side; None where a host does not say."""
    memory: StandbyMemory | None
    """When the load was over; None where nothing could be read."""

    @classmethod
    def of(cls, cpu_ns: int | None, memory: StandbyMemory | None) -> Self | None:
        """Put it together; None where nothing stood by."""
        return cls(cpu_ns=cpu_ns, memory=memory) if cpu_ns or memory is not None else None
