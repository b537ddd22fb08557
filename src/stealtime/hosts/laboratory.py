"""Two hosts on one machine: what a partition, a dead host and a dead switch do to protection, without a second machine.

Three networks, each a bridge in one namespace, the *switch*: ``clients`` (guests and who talks with them),
``replication`` (from host to host) and ``register`` (from hosts to the arbiter). Each host is a namespace with a link
to each and the bridge ``guests`` that its machines join; the client, servers that run without a machine, and the
arbiter have one link each. Every link can be cut alone, both ways or one way. Nothing of it is in the network namespace
of the machine itself.
"""

import itertools
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, Unpack

import psutil

from stealtime.hosts import network
from stealtime.hosts.network import Direction
from stealtime.lab.platforms.leftovers import clear_leftovers, make_short_folder
from stealtime.lab.platforms.process import RUN_MARK, StartedWith, run_mark, start_marked
from stealtime.protect.members import Surroundings
from stealtime.vocabulary.errors import AS_ROOT_HINT, StealtimeError

NetworkName = Literal["clients", "replication", "register"]
NETWORKS: tuple[NetworkName, ...] = ("clients", "replication", "register")

GUEST_BRIDGE = "guests"
"""What machines join on every host."""

CLIENT = "client"
ARBITER = "arbiter"
SWITCH = "switch"
"""Not a node: it has the other end of each link, and no address."""

_PREFIX_LENGTH = 24
_SUBNETS: dict[NetworkName, str] = {"clients": "10.77.1", "replication": "10.77.2", "register": "10.77.3"}
_LAST_BYTES = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, CLIENT: 9, ARBITER: 9}
_FIRST_SERVER = 11
"""The last byte of the address of the first server without a machine."""

GUEST_ADDRESS = f"{_SUBNETS['clients']}.100"
GUEST_INTERFACE = f"{GUEST_ADDRESS}/{_PREFIX_LENGTH}"
"""What a guest gives itself on the network ``clients``."""

_FOLDER_WITHIN_S = 1.0

_serials = itertools.count()


@dataclass(frozen=True)
class Node:
    """A host, the client, a server without a machine, or the arbiter."""

    name: str
    namespace: str
    networks: tuple[NetworkName, ...]
    last_byte: int
    """Of its addresses."""

    @property
    def bridges_guests(self) -> bool:
        """Whether it is a host, whose link to the network ``clients`` is its guests'."""
        return len(self.networks) > 1

    def address(self, on: NetworkName) -> str:
        """Give its own address on a network; hosts have none on ``clients``, where only their guests live.

        Raises:
            ValueError: It has none there.
        """
        if on not in self.networks or (on == "clients" and self.bridges_guests):
            raise ValueError(f"{self.name} has no address on the network {on}")
        return f"{_SUBNETS[on]}.{self.last_byte}"

    @property
    def prefix(self) -> tuple[str, ...]:
        """What goes before a command line that shall run there; it ends in an exec, so the pid stays."""
        return _prefix(self.namespace)

    @property
    def surroundings(self) -> Surroundings:
        """Where members are started; they carry our mark, so that they end with the laboratory, however it ends."""
        return Surroundings(prefix=self.prefix, environment=((RUN_MARK, run_mark()),))


_NEEDED = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
"""Capabilities for links and namespaces, with their numbers (``linux/capability.h``)."""


def refuse_without_root(status: Path = Path("/proc/self/status")) -> None:
    """See that this process may make a laboratory: root in a container may lack the capabilities of root.

    Raises:
        StealtimeError: It may not.
    """
    if os.geteuid() != 0:
        raise StealtimeError("a laboratory of network namespaces needs root", hint=AS_ROOT_HINT)
    effective = next(int(line.split()[1], 16) for line in status.read_text().splitlines() if line[:7] == "CapEff:")
    if missing := [name for name, number in _NEEDED.items() if not effective >> number & 1]:
        raise StealtimeError(
            f"a laboratory of network namespaces needs {' and '.join(missing)}, which root has not here",
            hint="run it outside of this container, or give the container these capabilities",
        )


class Laboratory:
    """A context manager: the networks are there inside, and gone with all their processes after it.

    Args:
        hosts: Their names, out of ``a``, ``b``, ``c``, ``d``, ``e``.
        servers: Names, without a hyphen, of nodes for servers that run without a machine, on the network ``clients``.

    Raises:
        StealtimeError: The kernel or the rights are missing; nothing is left then.
    """

    def __init__(self, hosts: Sequence[str] = ("a", "b"), servers: Sequence[str] = ()) -> None:
        serial = next(_serials)
        self._switch = network.namespace_name(serial, SWITCH)
        self.nodes: dict[str, Node] = {
            name: Node(name, network.namespace_name(serial, name), links, last_byte)
            for name, links, last_byte in (
                *((host, NETWORKS, _LAST_BYTES[host]) for host in hosts),
                (CLIENT, ("clients",), _LAST_BYTES[CLIENT]),
                *((server, ("clients",), _FIRST_SERVER + number) for number, server in enumerate(servers)),
                (ARBITER, ("register",), _LAST_BYTES[ARBITER]),
            )
        }
        self.folder = Path()
        """For sockets, registers and logs; gone with the laboratory."""
        self.has_ended = False
        """Whether it is being removed. An interruption takes it from under whoever waits in another thread."""
        self._cuts: set[tuple[str, NetworkName]] = set()

    def __enter__(self) -> Self:
        refuse_without_root()
        clear_leftovers()
        network.clear_laboratories()
        self.folder = make_short_folder()
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    @property
    def client(self) -> Node:
        return self.nodes[CLIENT]

    @property
    def arbiter(self) -> Node:
        """Where etcd runs, in tests that have one."""
        return self.nodes[ARBITER]

    def host(self, name: str) -> Node:
        return self.nodes[name]

    def cut(self, name: str, on: NetworkName, direction: Direction = "both") -> None:
        """Lose all frames on a link, silently; ``from`` loses those that the node sends, ``to`` those it would get."""
        self.mend(name, on)
        network.drop(self._switch, port_name(name, on), direction)
        self._cuts.add((name, on))

    def mend(self, name: str, on: NetworkName) -> None:
        """Let a link's frames pass again; nothing happens if they do."""
        if (name, on) in self._cuts:
            network.drop_no_more(self._switch, port_name(name, on))
            self._cuts.discard((name, on))

    def mend_all(self) -> None:
        for name, on in sorted(self._cuts):
            self.mend(name, on)

    def unplug(self, name: str, on: NetworkName) -> None:
        """Take a cable out at the switch: the node sees that its carrier is gone."""
        network.batch(self._switch, [f"link set {port_name(name, on)} down"])

    def plug(self, name: str, on: NetworkName) -> None:
        network.batch(self._switch, [f"link set {port_name(name, on)} up"])

    def processes(self, name: str) -> list[int]:
        return network.processes_in(self.nodes[name].namespace)

    def power_off(self, name: str) -> list[int]:
        """Kill all processes of a node at once; give their pids. Its links stay, as those of a dead host do."""
        return network.kill_processes(self.nodes[name].namespace)

    def frames_dropped(self, on: NetworkName) -> int:
        """Give how many frames the links of a network, and the switch between them, have lost so far.

        A cut counts. What a guest does not take from its host, which is behind the link, does not.
        """
        names = [node.name for node in self.nodes.values() if on in node.networks]
        ports = {on, *(port_name(name, on) for name in names)}
        lost = sum(network.frames_dropped(self.nodes[name].namespace, {on}) for name in names)
        return lost + network.frames_dropped(self._switch, ports) + network.frames_filtered(self._switch, ports)

    def start(self, name: str, argv: Sequence[str], **given: Unpack[StartedWith]) -> psutil.Popen:
        """Start a process in a node, or at the switch; it is ended with the laboratory."""
        prefix = _prefix(self._switch) if name == SWITCH else self.nodes[name].prefix
        return start_marked([*prefix, *argv], **given)

    def _build(self) -> None:
        network.make_namespaces([self._switch, *(node.namespace for node in self.nodes.values())])
        # `forward_delay 0` and no spanning tree: a port forwards at once. Without snooping no querier is waited for.
        options = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        network.batch(
            self._switch,
            [command for name in NETWORKS for command in (f"link add {name} {options}", f"link set {name} up")],
        )
        for node in self.nodes.values():
            self._connect(node)

    def _connect(self, node: Node) -> None:
        in_switch, in_node = [], []
        for on in node.networks:
            port = port_name(node.name, on)
            in_switch += [
                f"link add {port} type veth peer name {on} netns {node.namespace}",
                f"link set {port} master {on}",
                f"link set {port} up",
            ]
            in_node.append(f"link set {on} up")
            if on == "clients" and node.bridges_guests:
                in_node += [
                    f"link add {GUEST_BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                    f"link set {GUEST_BRIDGE} up",
                    f"link set {on} master {GUEST_BRIDGE}",
                ]
            else:
                in_node.append(f"addr add {node.address(on)}/{_PREFIX_LENGTH} dev {on}")
        network.batch(self._switch, in_switch)
        network.batch(node.namespace, in_node)
        for on in node.networks:
            network.make_filterable(self._switch, port_name(node.name, on))

    def _remove(self) -> None:
        self.has_ended = True
        names = [node.namespace for node in self.nodes.values()] + [self._switch]
        network.remove_namespaces([name for name in names if (network.NAMESPACES / name).exists()])
        if self.folder != Path():
            deadline = time.monotonic() + _FOLDER_WITHIN_S
            while self.folder.exists() and time.monotonic() < deadline:
                # Who was just looking for a member's folder in another thread has made it anew.
                shutil.rmtree(self.folder, ignore_errors=True)


def port_name(name: str, on: NetworkName) -> str:
    """Name the switch's end of a link; names of interfaces have at most 15 bytes."""
    return f"{name}-{on[:6]}"


def _prefix(namespace: str) -> tuple[str, ...]:
    return ("nsenter", f"--net={network.NAMESPACES / namespace}", "--")
