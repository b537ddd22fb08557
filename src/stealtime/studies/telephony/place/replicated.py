"""The server in two guests without protection that tell each other what they know, as operators run it today.

One on each host, the store of calls on a third one, which does not die: a store on either host would have to be
replicated itself. Beside namespaces that is a host of its own, beside real hosts the machine where the phones are. The
address that phones know is moved from guest to guest by VRRP. Both guests work all the time, and their time is the
server's, as is that of the store.
"""

import os
import re
import selectors
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil

from stealtime.hosts.client import Client, LaboratoryNode, finished_at
from stealtime.hosts.guest import Fault, Guest
from stealtime.hosts.host import CpuTimes, FaultKind
from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.process_times import thread_times_ns
from stealtime.hosts.testbed import Testbed
from stealtime.lab.image.debian_programs import command_in
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.appliance.image import USUAL_SIZE, Size
from stealtime.studies.telephony.appliance.replication import ReplicaConfiguration, store_options
from stealtime.studies.telephony.appliance.root import REDIS, obtain_root
from stealtime.studies.telephony.place.answering import await_answer
from stealtime.studies.telephony.place.guest import USUAL_INTERVALS, GuestsPlace, machine_of
from stealtime.vocabulary.errors import StealtimeError, UsageError

STORE_HOST = "c"
_SHARED, _OWN, _STORE = 0, (1, 2), 3
"""Numbers of addresses: the first is that of the shared one, which no machine has for its own."""

_UP_WITHIN_S = 60.0
_TAKEN_WITHIN_S = 60.0
_LAST_LINES = 25
_CARD = re.compile(r"\blladdr (?P<card>[0-9a-f:]{17})\b")


def store_node(laboratory: Laboratory, testbed: Testbed) -> LaboratoryNode:
    """Give the third host of a laboratory an address on the network of the guests: there the store may run."""
    return LaboratoryNode(laboratory, STORE_HOST, testbed.address(_STORE))


class ReplicatedPlace(GuestsPlace):
    """Two servers and the store of their calls.

    Args:
        testbed: The hosts.
        name: What the machines' names begin with.
        advertisement_ns: From one VRRP advertisement to the next.
        store: Where the store of calls runs.
        size: How large each guest is.

    Raises:
        UsageError: The hosts have no addresses for two guests and the one that they share.
    """

    def __init__(
        self, testbed: Testbed, name: str, *, advertisement_ns: int, store: Client, size: Size = USUAL_SIZE
    ) -> None:
        super().__init__(testbed, "replicated", cpus_of_each=size.cpus)
        self.address = self.media_address = testbed.address(_SHARED)
        self.addresses = (self.address,)
        self._store_at = store
        self._size = size
        self._store: psutil.Popen | None = None
        self._log = testbed.folder / "store.log"
        self._own_addresses = (testbed.address(_OWN[0]), testbed.address(_OWN[1]))
        self.guests = [self._replica(f"{name}-{number}", number, advertisement_ns) for number in range(len(_OWN))]

    def start(self) -> None:
        """Start the store and boot both guests; does not wait."""
        with self._log.open("wb") as log:
            argv = [*command_in(obtain_root("store").tree, REDIS), "--dir", str(self.testbed.folder)]
            self._store = self._store_at.start(
                [*argv, *store_options(self._store_at.address)], stdout=log, stderr=subprocess.STDOUT
            )
        super().start()

    def await_ready(self) -> None:
        """Wait until both guests run, and the one that has the address answers."""
        self._await_running()
        # The server that does not have the shared address answers at its own.
        for guest in self.guests:
            await_answer(self.client, guest.ip_address, _UP_WITHIN_S, self.log_tail, guest.members)
        await_answer(self.client, self.address, _UP_WITHIN_S, self.log_tail)

    def serving_host(self) -> str:
        """Tell on which host the guest runs that has the shared address, by what the client has learnt of it.

        Raises:
            StealtimeError: Neither has it.
        """
        return self._serving().home

    def check_protected(self, members: Sequence[MemberStatus], from_ns: int) -> None:
        """Do nothing: neither guest is protected."""

    def cpu_times(self) -> CpuTimes:
        """Read what the vCPUs of both guests and the store have used, and the rest of QEMU and members."""
        used = super().cpu_times()
        store_ns = 0 if self._store is None else sum(thread_times_ns(self._store.pid))
        return CpuTimes(used.server_ns + store_ns, used.host_ns, used.standby_ns)

    def lose_host(self, kind: FaultKind = "killed") -> Fault:
        """Kill the machine that has the shared address, by SIGKILL; give the times when its address is the other's.

        Raises:
            UsageError: It is not to be killed.
        """
        if kind != "killed":
            raise UsageError(f"the fault {kind!r} is not there in the mode 'replicated'", hint="its servers are killed")
        self._await_running()
        died = self._serving()
        (survived,) = (guest for guest in self.guests if guest is not died)
        with self._neighbours() as neighbours:
            struck = died.kill_unprotected()
            taken_ns = neighbours.await_card(survived.mac)
        return Fault(struck.at_ns, taken_ns, taken_ns, died.home, survived.home, struck.error_ns)

    def await_protected(self, unlike: frozenset[int] = frozenset()) -> list[MemberStatus]:
        """Wait until both servers run, the one that has died booted again; give their members.

        Args:
            unlike: Those (pids) of which at least one is to be another one now.
        """
        for guest in self.guests:
            if not guest.running_members():
                guest.start()
        self.await_ready()
        members = self._await_running()
        if unlike and {member.pid for member in members} == unlike:
            raise StealtimeError("neither server has died")
        return members

    def stop(self) -> None:
        """End both machines and the store, and have the hosts receive machines again."""
        super().stop()
        store, self._store = self._store, None
        if store is not None:
            store.kill()
            store.wait()

    def log_tail(self) -> str:
        log = self._log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:] if self._log.exists() else []
        return "\n".join([super().log_tail(), "--- store", *log])

    def _replica(self, name: str, number: int, advertisement_ns: int) -> Guest:
        configuration = ReplicaConfiguration(
            number=number,
            address=self.address,
            prefix_length=self.testbed.prefix_length,
            own_addresses=self._own_addresses,
            store=self._store_at.address,
            advertisement_ns=advertisement_ns,
            cpus=self._size.cpus,
        )
        machine = machine_of(configuration, "off", USUAL_INTERVALS, self._size)
        return self.testbed.guest(name, number=_OWN[number], home=number, **machine)

    def _await_running(self) -> list[MemberStatus]:
        return [guest.await_ready(within_s=_UP_WITHIN_S) for guest in self.guests]

    def _serving(self) -> Guest:
        argv = ["ip", "neigh", "show", self.address]
        shown = finished_at(self.client, argv, _UP_WITHIN_S, "the client did not say who has the shared address")
        card = parse_card(shown.stdout.decode("ascii", "replace"), self.address)
        for guest in self.guests:
            if guest.mac == card:
                return guest
        raise StealtimeError(
            f"neither server has the shared address {self.address}: the client sees {card or 'none'}",
            hint="the client has to be on the network of the guests, with no router between them",
        )

    @contextmanager
    def _neighbours(self) -> Iterator["_Neighbours"]:
        listening = self.client.start(["ip", "-oneline", "monitor", "neigh"], stdout=subprocess.PIPE)
        try:
            yield _Neighbours(listening, self.address)
        finally:
            listening.kill()
            listening.wait()


class _Neighbours:
    """What the client learns of an address, while it learns it."""

    def __init__(self, listening: psutil.Popen, address: str) -> None:
        self._listening = listening
        self._address = address

    def await_card(self, card: str) -> int:
        """Wait until the address has a card; give the moment, in ns of the monotonic clock.

        Raises:
            StealtimeError: It does not get it.
        """
        pipe, said = self._listening.stdout, b""
        deadline = time.monotonic() + _TAKEN_WITHIN_S
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while (left_s := deadline - time.monotonic()) > 0 and selector.select(left_s):
                at_ns = time.monotonic_ns()
                more = os.read(pipe.fileno(), 65536)
                *lines, said = (said + more).split(b"\n")
                if any(parse_card(line.decode("ascii", "replace"), self._address) == card for line in lines):
                    return at_ns
                if not more:
                    break
        raise StealtimeError(
            f"the shared address {self._address} was not taken over within {_TAKEN_WITHIN_S:g} s",
            hint="the consoles of both servers are in the log of the trial",
        )


def parse_card(said: str, address: str) -> str | None:
    """Read which card an address has, out of a line of ``ip neigh``; None if it tells of none."""
    if said.split(" ", 1)[0] != address or not (match := _CARD.search(said)):
        return None
    return match["card"]
