"""The server in two guests without protection that tell each other what they know, as operators run it today.

One on each host, the store of calls on a third one, which does not die: a store on either host would have to be
replicated itself. The address that phones know is moved from guest to guest by VRRP. Both guests work all the time, and
their time is the server's, as is that of the store.
"""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psutil
from pydantic import JsonValue

from stealtime.hosts import network
from stealtime.hosts.laboratory import CLIENT, GUEST_ADDRESS, GUEST_BRIDGE, GUEST_INTERFACE, Laboratory
from stealtime.hosts.process_times import thread_times_ns
from stealtime.hosts.stand import HOSTS, Stand, StandGuest, other
from stealtime.lab.image.debian_programs import command_in
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.appliance.image import obtain_image
from stealtime.studies.telephony.appliance.replication import (
    ReplicaConfiguration,
    store_options,
)
from stealtime.studies.telephony.appliance.root import REDIS, obtain_root
from stealtime.studies.telephony.client import Client, LaboratoryClient
from stealtime.studies.telephony.place.answering import await_answer
from stealtime.studies.telephony.place.model import Blow, CpuTimes, Mode
from stealtime.vocabulary.errors import StealtimeError

STORE_HOST = "c"
_NETWORK, _, _LAST = GUEST_ADDRESS.rpartition(".")
_OWN_ADDRESSES = (f"{_NETWORK}.{int(_LAST) + 1}", f"{_NETWORK}.{int(_LAST) + 2}")
_STORE_ADDRESS = f"{_NETWORK}.{int(_LAST) + 3}"
_PREFIX_LENGTH = int(GUEST_INTERFACE.rpartition("/")[2])

_UP_WITHIN_S = 60.0
_TAKEN_WITHIN_S = 60.0
_LAST_LINES = 25
_CARD = re.compile(r"\blladdr (?P<card>[0-9a-f:]{17})\b")


class ReplicatedPlace:
    """Two servers and the store of their calls.

    Args:
        stand: The hosts; its laboratory has a third one.
        name: What the machines' names begin with.
        advertisement_ns: From one VRRP advertisement to the next.
        accelerator: QEMU's.
    """

    def __init__(self, stand: Stand, name: str, *, advertisement_ns: int, accelerator: str = "tcg") -> None:
        self.stand = stand
        self.mode: Mode = "replicated"
        self.client: Client = LaboratoryClient(stand.laboratory)
        self.address = self.media_address = GUEST_ADDRESS
        self._log = stand.laboratory.folder / "store.log"
        self._store: psutil.Popen | None = None
        self.guests = [
            _replica(stand, f"{name}-{host}", number, advertisement_ns, accelerator)
            for number, host in enumerate(HOSTS)
        ]

    @classmethod
    def of_parameters(
        cls, stand: Stand, name: str, parameters: Mapping[str, JsonValue], accelerator: str
    ) -> "ReplicatedPlace":
        """Make one of the parameters of a cell, whose interval is that of advertisements."""
        interval_ns = parameters["interval_ns"]
        if not isinstance(interval_ns, int):
            raise TypeError(f"{interval_ns!r} is not a number")
        return cls(stand, name, advertisement_ns=interval_ns, accelerator=accelerator)

    @property
    def laboratory(self) -> Laboratory:
        """The networks around it."""
        return self.stand.laboratory

    def start(self) -> None:
        """Start the store and boot both guests; does not wait."""
        self._start_store()
        for guest in self.guests:
            guest.start()

    def await_ready(self) -> None:
        """Wait until both guests run, and the one that has the address answers."""
        self._await_running()
        # The server that does not have the shared address answers at its own.
        for guest, own in zip(self.guests, _OWN_ADDRESSES, strict=True):
            await_answer(self.client, own, _UP_WITHIN_S, self.last_words, guest.refuse_end)
        await_answer(self.client, self.address, _UP_WITHIN_S, self.last_words)

    def serving_host(self) -> str:
        """Tell on which host the guest runs that has the shared address, by what the client has learnt of it.

        Raises:
            StealtimeError: Neither has it.
        """
        card = self._card()
        for guest in self.guests:
            if guest.vm.mac == card:
                return guest.known_as
        raise StealtimeError(f"neither server has the shared address {self.address}: the client sees {card or 'none'}")

    def members(self) -> list[MemberStatus]:
        """Give the members whose guests run now."""
        return [status for guest in self.guests if (status := guest.running(guest.known_as))]

    def refuse_lapse(self, members: Sequence[MemberStatus], from_ns: int) -> None:
        """Do nothing: neither guest is protected."""

    def cpu_times(self) -> CpuTimes:
        """Read what the vCPUs of both guests and the store have used, and the rest of QEMU and members.

        As in a place of protected guests, a vCPU's thread is the one of QEMU that has used most.
        """
        machines = {member.qemu_pid for member in self.members()}
        server_ns = host_ns = 0
        for host in (*HOSTS, STORE_HOST):
            for pid in self.laboratory.processes(host):
                times_ns = thread_times_ns(pid)
                own_ns = sum(times_ns) if host == STORE_HOST else max(times_ns, default=0) if pid in machines else 0
                server_ns += own_ns
                host_ns += sum(times_ns) - own_ns
        return CpuTimes(server_ns, host_ns)

    def kill_host(self) -> Blow:
        """Kill the machine that has the shared address, by SIGKILL; give the times when its address is the other's."""
        died = self.serving_host()
        survived = other(died)
        status = next(one for one in self._await_running() if one.host == died)
        with self._neighbours() as neighbours:
            struck_ns = time.monotonic_ns()
            for pid in (status.pid, status.qemu_pid):
                if pid is not None:
                    _kill(pid)
            taken_ns = neighbours.await_card(self._guest(survived).vm.mac)
        return Blow(struck_ns, taken_ns, taken_ns, died, survived)

    def await_protected(self, unlike: frozenset[int] = frozenset()) -> list[MemberStatus]:
        """Wait until both servers run, the one that has died booted again; give their members.

        Args:
            unlike: Those (pids) of which at least one is to be another one now.
        """
        for guest in self.guests:
            if guest.running(guest.known_as) is None:
                guest.start()
        self.await_ready()
        members = self._await_running()
        if unlike and {member.pid for member in members} == unlike:
            raise StealtimeError("neither server has died")
        return members

    def stop(self) -> None:
        """End both machines and the store, and have the hosts receive machines again."""
        self.laboratory.mend_all()
        for name in HOSTS:
            self.laboratory.power_off(name)
            self.stand.start_daemon(name)
        store, self._store = self._store, None
        if store is not None:
            store.kill()
            store.wait()
            network.batch(
                self.laboratory.host(STORE_HOST).namespace,
                [f"address del {_STORE_ADDRESS}/{_PREFIX_LENGTH} dev {GUEST_BRIDGE}"],
            )

    def last_words(self) -> str:
        """Give the end of all logs."""
        log = self._log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:] if self._log.exists() else []
        consoles = [
            line
            for guest in self.guests
            if (path := guest.member(guest.known_as).path / "console.log").exists()
            for line in (f"--- {path}", *path.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:])
        ]
        return "\n".join([self.stand.last_words(), *consoles, "--- store", *log])

    def _start_store(self) -> None:
        tree = obtain_root("store").tree
        network.batch(
            self.laboratory.host(STORE_HOST).namespace,
            [f"address add {_STORE_ADDRESS}/{_PREFIX_LENGTH} dev {GUEST_BRIDGE}"],
        )
        with self._log.open("wb") as log:
            self._store = self.laboratory.start(
                STORE_HOST,
                [
                    *command_in(tree, REDIS),
                    *("--dir", str(self.laboratory.folder)),
                    *store_options(_STORE_ADDRESS),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _guest(self, host: str) -> StandGuest:
        return self.guests[HOSTS.index(host)]

    def _await_running(self) -> list[MemberStatus]:
        return [guest.await_ready(within_s=_UP_WITHIN_S) for guest in self.guests]

    def _card(self) -> str | None:
        return parse_card(
            network.run("ip", "-n", self.laboratory.client.namespace, "neigh", "show", self.address), self.address
        )

    @contextmanager
    def _neighbours(self) -> Iterator["_Neighbours"]:
        argv = ["ip", "-oneline", "monitor", "neigh"]
        listening = self.laboratory.start(CLIENT, argv, stdout=subprocess.PIPE)
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


def _replica(stand: Stand, name: str, number: int, advertisement_ns: int, accelerator: str) -> StandGuest:
    configuration = ReplicaConfiguration(
        number=number,
        address=GUEST_ADDRESS,
        prefix_length=_PREFIX_LENGTH,
        own_addresses=_OWN_ADDRESSES,
        store=_STORE_ADDRESS,
        advertisement_ns=advertisement_ns,
    )
    image = obtain_image(configuration, "cloud")
    machine: dict[str, Any] = {
        "mode": "off",
        "initramfs": image.initramfs,
        "memory": f"{image.memory_bytes >> 20}MiB",
        "accelerator": accelerator,
        # A tmpfs takes half of the memory at most.
        "kernel_arguments": "rootfstype=ramfs",
    }
    # The first number is that of the shared address, which no machine has for its own.
    return StandGuest(stand, name, number=number + 1, known_as=HOSTS[number], node=HOSTS[number], **machine)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
