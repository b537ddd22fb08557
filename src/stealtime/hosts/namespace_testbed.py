"""Hosts in network namespaces of this machine that receive guests, and a client, for demonstrations and tests.

Two as a rule; others may be admitted, whose guests have the same standby: one host backs several. The link between the
hosts is TCP with mutual TLS over a veth pair.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stealtime.hosts.client import LaboratoryClient
from stealtime.hosts.guest import Guest
from stealtime.hosts.host import CpuTimes, FaultKind, NotProtectedError
from stealtime.hosts.killing import was_protected
from stealtime.hosts.laboratory import GUEST_ADDRESS, GUEST_BRIDGE, GUEST_INTERFACE, NETWORKS, Laboratory
from stealtime.hosts.members_here import HostProcess, MembersHere, cpu_times
from stealtime.hosts.standby_memory import StandbyMemory, standby_memory
from stealtime.hosts.waiting import Waiting
from stealtime.lab.platforms import below
from stealtime.protect.endpoint import DEFAULT_PORT, StandbyHost
from stealtime.protect.host_file import HostFile, host_spec
from stealtime.protect.identity import make_identity
from stealtime.protect.members import start_host_daemon
from stealtime.protect.session import make_spec
from stealtime.protect.specification import write_document
from stealtime.protect.state import MemberFolder, State
from stealtime.protect.vm_file import Identity, Register, VmFile
from stealtime.vocabulary.errors import StealtimeError

HOSTS = ("a", "b")
ALL_HOSTS = (*HOSTS, "c", "d", "e")
STANDBY = HOSTS[1]
"""Backs the guests of every other host, unless they have another standby."""
EMULATED_TIMING = {
    "heartbeat": "200ms",
    "active_deadline": "4s",
    "standby_timeout": "6s",
    "register_deadline": "20s",
    "qemu_deadline": "60s",
}
"""Deadlines for a host that is itself emulated, where a guest's epoch takes a hundred times as long."""

_SHARED_TURNS = 16
"""More than members that are active at once in any of our laboratories; further ones take turns on their host alone."""
_LAST_LINES = 25


class NamespaceTestbed:
    """Two hosts or more, ready to receive machines.

    Args:
        laboratory: The networks; it stands.
        register: Decides who may be active; None: one in a folder.
        allow_faults: Whether members may be told to break themselves.
        accelerator: QEMU's, of guests that name no other.
        images: Folders that machines may boot from on all hosts, beside those of every host.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        *,
        register: Register | None = None,
        allow_faults: bool = False,
        accelerator: str = "tcg",
        images: Sequence[Path] = (),
    ) -> None:
        self.laboratory = laboratory
        self.images = tuple(images)
        self.client = LaboratoryClient(laboratory)
        self.waiting = Waiting(self.client, self.log_tail)
        self.accelerator = accelerator
        self.state = State(laboratory.folder / "state")
        self.register = register or Register(folder=self.state.register)
        self.allow_faults = allow_faults
        self.hosts: list[StandbyHost] = []
        for name in HOSTS:
            self.admit(name)

    def admit(self, name: str) -> None:
        self.hosts.append(self.describe(name))
        self.start_daemon(name)

    def dismiss(self, name: str) -> None:
        self.hosts = [host for host in self.hosts if host.name != name]
        self.laboratory.power_off(name)

    def describe(self, name: str) -> StandbyHost:
        """Write what the daemon of a host is told; give how it is reached."""
        endpoint = f"tcp:{self.laboratory.host(name).address('replication')}:{DEFAULT_PORT}"
        self.tell(name, listen=endpoint, identity=self.identity(name))
        return StandbyHost(name=name, endpoint=endpoint)

    def tell(self, name: str, **daemon: Any) -> None:
        """Write what the daemon of a host is told when it is started next."""
        told = HostFile(
            name=name,
            bridge=GUEST_BRIDGE,
            register_=self.register,
            allow_faults=self.allow_faults,
            images=list(self.images),
            **daemon,
        )
        write_document(self.state.host(name).config, host_spec(told, self.state))
        self._share_turns(name)

    def _share_turns(self, name: str) -> None:
        """Have the members of all hosts take turns with their epochs, as those of one host do (``turn.rs``).

        These hosts have the clock and the CPUs of one machine. With turns of their own the first members of two hosts
        would stop their guests at the same moments, which hosts that are machines do by chance alone; a guest that
        asks another one would then wait for two intervals rather than one.
        """
        for number in range(_SHARED_TURNS):
            turn = f"turn.{number}"
            shared = self.state.path / turn
            shared.touch(mode=0o600)
            # Both names are of one file, which is what members lock.
            with contextlib.suppress(FileExistsError):
                (self.state.host(name).path / turn).hardlink_to(shared)

    def start_daemon(self, name: str) -> None:
        """Have a host receive machines: at first, and after its power came back.

        Raises:
            StealtimeError: The laboratory has ended.
        """
        self.refuse_ended()
        start_host_daemon(self.state.host(name), surroundings=self.laboratory.host(name).surroundings)

    def refuse_ended(self) -> None:
        """See that the laboratory still stands: who only asks for a member's folder would make it anew.

        Raises:
            StealtimeError: It has ended.
        """
        if self.laboratory.has_ended:
            raise StealtimeError("the laboratory has ended, and its hosts with it")

    def identity(self, name: str, node: str | None = None) -> Identity:
        """Give the certificate of a host that lives in a node; it is made when it is asked for first."""
        address = self.laboratory.host(node or name).address("replication")
        return make_identity(self.laboratory.folder / "identity", name, [address])

    def host(self, name: str, node: str | None = None) -> "NamespaceHost":
        return NamespaceHost(self, name, node or name)

    @property
    def folder(self) -> Path:
        return self.laboratory.folder

    @property
    def prefix_length(self) -> int:
        return int(GUEST_INTERFACE.rpartition("/")[2])

    def guest(self, name: str, *, number: int = 0, home: int = 0, standby: int = 1, **machine: Any) -> "NamespaceGuest":
        host, backed_by = ALL_HOSTS[home], ALL_HOSTS[standby]
        for one in (host, backed_by):
            if one not in [known.name for known in self.hosts]:
                self.admit(one)
        return NamespaceGuest(self, name, number=number, known_as=host, node=host, standby=backed_by, **machine)

    def address(self, number: int) -> str:
        return guest_address(number)

    def processes(self) -> list[HostProcess]:
        """Give the processes of all hosts: their daemons, members and guests."""
        return [process for host in self.hosts for process in self.host(host.name).processes()]

    def cpu_times(self) -> CpuTimes:
        return cpu_times(self.processes())

    def times_by_host(self) -> dict[str, CpuTimes]:
        return {host.name: self.host(host.name).cpu_times() for host in self.hosts}

    def standby_memory(self) -> StandbyMemory | None:
        return standby_memory(self.processes())

    def clear(self) -> None:
        """End all that runs on the hosts; the usual two receive machines again."""
        self.laboratory.mend_all()
        for host in list(self.hosts):
            if host.name in HOSTS:
                self.laboratory.power_off(host.name)
                self.start_daemon(host.name)
            else:
                self.dismiss(host.name)

    def log_tail(self) -> str:
        patterns = ("*/*/console.log", "*/*.log", "*/*/member.log")
        return "\n".join(
            f"--- {log}\n" + "\n".join(log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:])
            for pattern in patterns
            for log in sorted(self.state.path.glob(pattern))
        )


class NamespaceHost(MembersHere):
    """A host of such a testbed, by the verbs of :class:`stealtime.hosts.host.Host`.

    Args:
        testbed: Where.
        name: Its name in the register: members of one name share a folder, as on one host.
        node: Where it lives.
    """

    def __init__(self, testbed: NamespaceTestbed, name: str, node: str) -> None:
        surroundings = testbed.laboratory.host(node).surroundings
        super().__init__(testbed.state, name, surroundings, "what all members wrote last is with this error")
        self._testbed = testbed
        self._node = node

    def member(self, vm: str) -> MemberFolder:
        self._testbed.refuse_ended()
        return super().member(vm)

    def vm_file(self, machine: Mapping[str, Any]) -> VmFile:
        """Give a machine with what is the host's own, where the machine does not say otherwise."""
        testbed, hosts = self._testbed, {host.name: host for host in self._testbed.hosts}
        own = {
            # Its standby, then where it begins, which it comes back to.
            "standby_hosts": [
                hosts[name].model_dump() for name in dict.fromkeys((STANDBY, self.name)) if name in hosts
            ],
            "identity": testbed.identity(self.name, self._node).model_dump(),
            "register": testbed.register.model_dump(),
            "timing": EMULATED_TIMING if below.is_emulated() else {},
            "accelerator": testbed.accelerator,
            "allow_faults": testbed.allow_faults,
        }
        return VmFile.model_validate({**own, **machine})

    def start(self, machine: Mapping[str, Any]) -> None:
        vm = self.vm_file(machine)
        self.start_member(vm.name, make_spec(vm, self.state, self.name))

    def die(self, vm: str, pid: int, kind: FaultKind) -> int:
        """As of others; ``silent``: lose all frames of the host's links, and end all its processes."""
        if kind != "silent":
            return super().die(vm, pid, kind)
        struck_ns = time.monotonic_ns()
        for network in NETWORKS:
            self._testbed.laboratory.cut(self._node, network)
        self._testbed.laboratory.power_off(self._node)
        if not was_protected(self.member(vm), pid):
            raise NotProtectedError(f"{self.name} fell silent when its guest was just not protected")
        return struck_ns

    def revive(self) -> None:
        self._testbed.laboratory.mend_all()
        self._testbed.start_daemon(self._node)


class NamespaceGuest(Guest):
    """A guest that the hosts of such a testbed can keep, with what lies in the folders of its members.

    Args:
        testbed: Where.
        name: Of the machine; the register remembers the last one of a name.
        number: One of several at once; the address follows from it.
        known_as: By which name its host goes in the register.
        node: The host where it begins.
        standby: The host that backs it; where it begins there, the other one of the usual two does.
        machine: What runs in it, and what is different from the usual machine, as in ``VM.toml``.
    """

    def __init__(
        self,
        testbed: NamespaceTestbed,
        name: str,
        *,
        number: int = 0,
        known_as: str = "a",
        node: str = "a",
        standby: str = STANDBY,
        **machine: Any,
    ) -> None:
        self.testbed = testbed
        home, address = testbed.host(known_as, node), guest_address(number)
        network = {
            "bridge": GUEST_BRIDGE,
            "address": GUEST_INTERFACE.replace(GUEST_ADDRESS, address),
            # That of the guest before it at this address: the client has not forgotten it.
            "mac": f"52:54:00:77:00:{number:02x}",
        }
        backed_by = testbed.host(standby if known_as != standby else other(STANDBY))
        described = {"name": name, "network": network, **machine}
        if backed_by.name not in HOSTS:
            # Its own one, then where it begins, which it comes back to.
            reached = {host.name: host.model_dump() for host in testbed.hosts}
            described.setdefault("standby_hosts", [reached[backed_by.name], reached[known_as]])
        super().__init__([home, backed_by], described, address, testbed.waiting)
        self.vm = home.vm_file(described)

    def member(self, name: str) -> MemberFolder:
        self.testbed.refuse_ended()
        return self.testbed.state.host(name).member(self.name)


def guest_address(number: int) -> str:
    network, _, last = GUEST_ADDRESS.rpartition(".")
    return f"{network}.{int(last) + number}"


def other(name: str) -> str:
    return HOSTS[1 - HOSTS.index(name)]
