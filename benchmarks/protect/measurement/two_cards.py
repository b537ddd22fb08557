"""A network for the two guests of COLO, the same twice: a bridge in a namespace, with a card for each of them."""

import re
import subprocess
from collections.abc import Sequence

from stealtime.hosts.client import LaboratoryNode
from stealtime.hosts.echo import round_trips
from stealtime.hosts.laboratory import Laboratory
from stealtime.protect.specification import MachineSpec

from .bare import Emulator

ASKED_EACH_NS = 20_000_000
"""50 requests a second."""
_GUEST, _CLIENT = "192.168.77.2", "192.168.77.1"
_CARDS = ("colo0", "colo1")
_BRIDGE = "colo"
_ADDRESS = re.compile(r"stealtime\.address=\S+")


class TwoCards:
    """Where both guests are, and a client who asks them; gone with the laboratory.

    Args:
        laboratory: It has a server ``node``.
        node: Without any other use.
    """

    def __init__(self, laboratory: Laboratory, node: str) -> None:
        self._client = LaboratoryNode(laboratory, node)
        self._prefix = laboratory.nodes[node].prefix
        self._ip("link", "add", _BRIDGE, "type", "bridge", "forward_delay", "0")
        for card in _CARDS:
            self._ip("tuntap", "add", card, "mode", "tap")
            self._ip("link", "set", card, "master", _BRIDGE, "up")
        self._ip("address", "add", f"{_CLIENT}/24", "dev", _BRIDGE)
        self._ip("link", "set", _BRIDGE, "up")

    def emulator(self, command: Sequence[str], number: int) -> Emulator:
        """Give a QEMU whose guest has one of the cards."""
        netdev = f"tap,ifname={_CARDS[number]},script=no,downscript=no,vhost=off,vnet_hdr=off"
        return Emulator((*self._prefix, *command), netdev)

    def ask(self, seconds: float) -> list[int | None]:
        """Ask whichever guest answers, over and over; gives each round trip in ns, None without an answer."""
        return round_trips(self._client, _GUEST, round(seconds * 1e9 / ASKED_EACH_NS), ASKED_EACH_NS)

    def _ip(self, *words: str) -> None:
        subprocess.run([*self._prefix, "ip", *words], check=True)


def machine_there(machine: MachineSpec) -> MachineSpec:
    """Give the guest the address that it has there."""
    arguments = _ADDRESS.sub(f"stealtime.address={_GUEST}/24", machine.kernel_arguments)
    return machine.model_copy(update={"kernel_arguments": arguments})
