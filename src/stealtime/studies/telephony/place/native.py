"""The server as processes of this machine, at the address that the guest would have: the client sees no difference."""

import functools
import os
from collections.abc import Sequence

from stealtime.hosts import network
from stealtime.hosts.client import Client, LaboratoryClient
from stealtime.hosts.guest import Fault
from stealtime.hosts.host import CpuTimes, FaultKind
from stealtime.hosts.laboratory import GUEST_ADDRESS, GUEST_BRIDGE, GUEST_INTERFACE, Laboratory
from stealtime.hosts.process_times import thread_times_ns
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.appliance.configuration import ServerConfiguration
from stealtime.studies.telephony.parameters import Mode
from stealtime.studies.telephony.place.answering import await_answer
from stealtime.studies.telephony.place.model import HostUse, unprotected
from stealtime.studies.telephony.place.native_server import NativeServer

_HOST = "a"
_UP_WITHIN_S = 20.0
_SHARED_MEMORY_BYTES = 1 << 30
"""Taken from the machine as it is used. The highest rates are several times those of a guest: 171,721 registrations, of
180,000 at 18,000 a second, filled a quarter of it."""


class NativePlace:
    """A server without a guest.

    Args:
        laboratory: Where.
        configuration: What it is told; None: both roles at the guest's address.
        up_within_s: How long it may take to answer.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        configuration: ServerConfiguration | None = None,
        *,
        up_within_s: float = _UP_WITHIN_S,
    ) -> None:
        self._up_within_s = up_within_s
        self.laboratory = laboratory
        self.mode: Mode = "off"
        self.cpus = len(os.sched_getaffinity(0))
        self.client: Client = LaboratoryClient(laboratory)
        self.address = self.media_address = GUEST_ADDRESS
        self.addresses = (GUEST_ADDRESS,)
        usual = ServerConfiguration(role="both", address=GUEST_ADDRESS, shared_memory_bytes=_SHARED_MEMORY_BYTES)
        start = functools.partial(laboratory.start, _HOST)
        self._server = NativeServer(start, _HOST, laboratory.folder, configuration or usual)

    def start(self) -> None:
        """Start it; see :class:`stealtime.studies.telephony.place.model.Place`."""
        self._server.prepare()
        network.batch(self.laboratory.host(_HOST).namespace, [f"address add {GUEST_INTERFACE} dev {GUEST_BRIDGE}"])
        self._server.start()

    def await_ready(self) -> None:
        await_answer(self.client, self.address, self._up_within_s, self.log_tail)

    def await_protected(self, unlike: frozenset[int] = frozenset()) -> Sequence[MemberStatus]:
        """Wait until it answers: nothing protects it."""
        self.await_ready()
        return ()

    def members(self) -> Sequence[MemberStatus]:
        return ()

    def check_protected(self, members: Sequence[MemberStatus], from_ns: int) -> None:
        """Do nothing: it has no protection to lose."""

    def epochs_since(self, members: Sequence[MemberStatus], from_ns: int) -> list[list[dict[str, int]]]:
        """Give none: nothing checkpoints it."""
        return []

    def cpu_times(self) -> CpuTimes:
        pids = self.laboratory.processes(_HOST)
        return CpuTimes(sum(time_ns for pid in pids for time_ns in thread_times_ns(pid)), None)

    def use_by_host(self) -> dict[str, HostUse]:
        """Give none: no host keeps a guest of it."""
        return {}

    def standby_memory(self) -> None:
        """Give None: nothing stands by."""

    def lose_host(self, _kind: FaultKind = "killed") -> Fault:
        """Refuse: nobody would take it over."""
        raise unprotected()

    def revive(self) -> None:
        """Do nothing: no host of it can fall silent."""

    def stop(self) -> None:
        """End its processes; the address goes, too."""
        if self._server.stop():
            network.batch(self.laboratory.host(_HOST).namespace, [f"address del {GUEST_INTERFACE} dev {GUEST_BRIDGE}"])

    def log_tail(self) -> str:
        return self._server.log_tail()
