"""The first stage: fronts without state, and the name server that leads phones to them, natively on this machine.

They are not protected: a front keeps nothing, and phones that get no answer of one ask another (RFC 3263, section 4.3;
:mod:`stealtime.studies.telephony.registrations.turning_phones`).
"""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from stealtime.hosts.client import Client, LaboratoryNode, change_ipv4
from stealtime.hosts.host import FaultKind
from stealtime.hosts.laboratory import Laboratory
from stealtime.lab.image.cache import write_atomically
from stealtime.lab.image.debian_programs import command_in
from stealtime.studies.telephony.appliance.front import (
    CONTROL_SOCKET,
    DESTINATIONS,
    RELOAD,
    RELOAD_EVERY_S,
    FrontConfiguration,
    dealt,
    destinations,
)
from stealtime.studies.telephony.appliance.names import DOMAIN, Front, NamesConfiguration
from stealtime.studies.telephony.appliance.root import KAMCMD, obtain_root
from stealtime.studies.telephony.place.answering import await_answer
from stealtime.studies.telephony.place.location import Located, Protocol, locate
from stealtime.studies.telephony.place.native_server import NativeServer
from stealtime.vocabulary.errors import StealtimeError, UsageError

FRONT_NODES = ("front1", "front2")
NAMES_NODE = "names"
FIRST_STAGE_NODES = (*FRONT_NODES, NAMES_NODE)
"""Where its programs run: nodes of a laboratory, or addresses of this machine."""

_UP_WITHIN_S = 20.0
_TOLD_WITHIN_S = 10.0
_WHOLE_SECOND_S = 0.1
"""A front counts whole seconds; its clock's tick is shorter than this."""


def laboratory_fronts(laboratory: Laboratory, client: Client) -> "Fronts":
    """Have the first stage in nodes of a laboratory."""
    nodes = {name: LaboratoryNode(laboratory, name) for name in FIRST_STAGE_NODES}
    for name in FRONT_NODES:
        # Linux refuses once a second and address that nobody listens at a port (icmp(7)). All phones have one address
        # here, and in the world one each.
        change_ipv4(nodes[name], {"icmp_ratelimit": "0"})
    return Fronts(nodes, laboratory.folder, client)


class Fronts:
    """Fronts and their name server.

    Args:
        nodes: Each of :data:`FIRST_STAGE_NODES`.
        folder: For what fronts are told, and for logs.
        client: Where phones are.
    """

    def __init__(self, nodes: Mapping[str, Client], folder: Path, client: Client) -> None:
        self._parent = folder
        self._client = client
        self.addresses = {node: nodes[node].address for node in FRONT_NODES}
        self._name_server = nodes[NAMES_NODE].address
        names = NamesConfiguration(
            address=self._name_server,
            fronts=[Front(name=node, address=address) for node, address in self.addresses.items()],
        )
        self._servers = {
            node: NativeServer(
                nodes[node].start, node, folder, FrontConfiguration(address=address), run=self._folder(node)
            )
            for node, address in self.addresses.items()
        }
        self._servers[NAMES_NODE] = NativeServer(nodes[NAMES_NODE].start, NAMES_NODE, folder, names)
        self._primaries: list[str] = []
        self._is_settled = True

    def start(self, primaries: Sequence[str]) -> None:
        """Start all with primaries at these addresses; does not wait."""
        self._primaries, self._is_settled = list(primaries), True
        for node in FRONT_NODES:
            self._folder(node).mkdir(exist_ok=True)
            self._write(node, destinations(dealt(self._primaries)))
        for server in self._servers.values():
            server.start()

    def await_ready(self) -> None:
        """Wait until all fronts answer, and the name server leads to them.

        Raises:
            StealtimeError: One does not come up.
        """
        for address in self.addresses.values():
            await_answer(self._client, address, _UP_WITHIN_S, self.log_tail)
        self.locate(phones=1)

    def locate(self, *, phones: int, protocol: Protocol = "udp", seed: int = 0) -> list[Located]:
        """Have phones find their fronts; see :func:`stealtime.studies.telephony.place.location.locate`."""
        return locate(self._client, self._name_server, DOMAIN, phones=phones, protocol=protocol, seed=seed)

    def add(self, primary: str, after_each: Callable[[], None] | None = None) -> None:
        """Have the running fronts deal some users to one more primary, which answers already.

        Two steps, as the fronts cannot all be told at one moment: first all of them learn that users may be known
        there, then that they are to register there. Whichever step a front is at, it finds a user registered by the
        other.

        Args:
            primary: Its address.
            after_each: Is called after each front's each step.

        Raises:
            StealtimeError: A front does not take it, or users may still be where they were before the last addition.
        """
        if not self._is_settled:
            raise StealtimeError(
                "no second primary can be added until each phone had the time to renew its registration",
                hint="fronts know one earlier primary of a user, not two",
            )
        before, after = dealt(self._primaries), dealt([*self._primaries, primary])
        self._is_settled = False
        self._tell(destinations(before, other=after), after_each)
        time.sleep(RELOAD_EVERY_S + _WHOLE_SECOND_S)
        self._tell(destinations(after, other=before), after_each)
        self._primaries.append(primary)

    def lose(self, node: str, kind: FaultKind) -> tuple[int, int]:
        """Have a front be lost; give when that began, and when all of it was, in nanoseconds of the monotonic clock.

        Args:
            node: Which.
            kind: ``killed``: all its processes by SIGKILL: its ports refuse, its connections close; ``silent``: they
                stand still (SIGSTOP), so that nothing tells of it.

        Raises:
            UsageError: It is to be moved, and it is no guest.
        """
        if kind == "planned":
            raise UsageError("a front is no guest that its operator could move", hint="it is killed, or silent")
        struck_ns = time.monotonic_ns()
        if kind == "silent":
            self._servers[node].freeze()
        else:
            self._servers[node].stop()
        return struck_ns, time.monotonic_ns()

    def revive(self, node: str) -> None:
        """Start a front anew that was lost; it deals users as before. Waits until it answers.

        Raises:
            StealtimeError: It does not come up.
        """
        self._servers[node].stop()
        self._servers[node].start()
        await_answer(self._client, self.addresses[node], _UP_WITHIN_S, self.log_tail)

    def stop(self) -> None:
        for server in self._servers.values():
            server.stop()

    def log_tail(self) -> str:
        return "\n".join(f"--- {server.name}\n{server.log_tail()}" for server in self._servers.values())

    def _folder(self, node: str) -> Path:
        return self._parent / node

    def _write(self, node: str, text: str) -> None:
        write_atomically(self._folder(node) / DESTINATIONS, text)

    def _tell(self, text: str, after_each: Callable[[], None] | None) -> None:
        tree = obtain_root("front").tree
        # A name relative to the folder: kamcmd would take the colons of a longer one apart.
        argv = [*command_in(tree, KAMCMD), "-s", f"unixs:./{CONTROL_SOCKET}", RELOAD]
        for node in FRONT_NODES:
            self._write(node, text)
            try:
                done = subprocess.run(
                    argv, cwd=self._folder(node), capture_output=True, text=True, timeout=_TOLD_WITHIN_S, check=False
                )
            except subprocess.TimeoutExpired:
                raise StealtimeError(f"{node} did not read its destinations within {_TOLD_WITHIN_S:g} s") from None
            if done.returncode != 0 or "error" in done.stdout:
                raise StealtimeError(f"{node} does not read its destinations: {(done.stderr or done.stdout).strip()}")
            if after_each is not None:
                after_each()
