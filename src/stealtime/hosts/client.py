"""Where those are who talk with guests: programs that measure are started there, apart from the hosts."""

import contextlib
import functools
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Unpack

import psutil

from stealtime.hosts import network
from stealtime.hosts.frame_counters import Traffic
from stealtime.hosts.laboratory import CLIENT, GUEST_BRIDGE, GUEST_INTERFACE, Laboratory
from stealtime.lab.platforms.process import StartedWith, start_marked
from stealtime.vocabulary.errors import StealtimeError

_CHANGED_WITHIN_S = 10.0


class Client(Protocol):
    """A machine, or a namespace of this one, on the network of the guests."""

    @property
    def address(self) -> str: ...

    @property
    def has_ended(self) -> bool:
        """Whether it is being removed, so that nothing is worth waiting for."""

    def start(self, argv: Sequence[str], **given: Unpack[StartedWith]) -> psutil.Popen:
        """Start a program there; it ends with the client."""

    def frames_dropped(self) -> int | None:
        """Give how many frames the links of its network have lost so far; None: nobody here can count them."""

    def traffic(self) -> Traffic | None:
        """Give what its link has passed so far, all of it with guests; None: others use it, too."""


def finished_at(
    client: Client, argv: Sequence[str], within_s: float, late: str, given: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """Run a program where a client is, to its end.

    Args:
        client: Where.
        argv: The program and its arguments.
        within_s: When it is ended at the latest.
        late: What is the matter then, in words that "within 5 s" can follow.
        given: What it reads from standard input.

    Raises:
        StealtimeError: It did not end in time.
    """
    process = client.start(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, said = process.communicate(given, timeout=within_s)
    except subprocess.TimeoutExpired:
        raise StealtimeError(f"{late} within {within_s:g} s") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return subprocess.CompletedProcess(argv, process.returncode, out, said)


def change_ipv4(client: Client, settings: Mapping[str, str]) -> None:
    """Change settings of IPv4 (ip-sysctl of the kernel's documentation) in the network of a client of its own.

    Raises:
        StealtimeError: The kernel refuses.
    """
    script = "".join(f"echo {value} >/proc/sys/net/ipv4/{name}\n" for name, value in settings.items())
    changing = client.start(["sh", "-ec", script])
    if changing.wait(timeout=_CHANGED_WITHIN_S) != 0:
        raise StealtimeError(f"the settings {', '.join(settings)} cannot be changed in the network of {client.address}")


class LaboratoryNode:
    """A node of a laboratory that has an address on the network of the guests, or is given one.

    Args:
        laboratory: Where.
        name: Of the node.
        address: What a host of the laboratory gets there, which has none of its own; None: the node's own.
    """

    def __init__(self, laboratory: Laboratory, name: str, address: str | None = None) -> None:
        self._laboratory = laboratory
        node = laboratory.nodes[name]
        self._node = node
        if address is not None:
            _, _, prefix = GUEST_INTERFACE.rpartition("/")
            network.batch(node.namespace, [f"address replace {address}/{prefix} dev {GUEST_BRIDGE}"])
        self.address = address or node.address("clients")
        self.start = functools.partial(laboratory.start, name)
        """Starts a program in its namespace."""

    @property
    def has_ended(self) -> bool:
        return self._laboratory.has_ended

    def frames_dropped(self) -> int | None:
        return self._laboratory.frames_dropped("clients")

    def traffic(self) -> Traffic | None:
        return network.traffic(self._node.namespace, "clients")


class LaboratoryClient(LaboratoryNode):
    """The client of a laboratory."""

    def __init__(self, laboratory: Laboratory) -> None:
        super().__init__(laboratory, CLIENT)


@dataclass(frozen=True)
class AtAddress:
    """A client that is, for a program, at another one of its addresses."""

    client: Client
    address: str

    @property
    def has_ended(self) -> bool:
        return self.client.has_ended

    def start(self, argv: Sequence[str], **given: Unpack[StartedWith]) -> psutil.Popen:
        return self.client.start(argv, **given)

    def frames_dropped(self) -> int | None:
        return self.client.frames_dropped()

    def traffic(self) -> Traffic | None:
        return self.client.traffic()


class LocalClient:
    """This machine, in its own network: nothing of it is changed for a campaign.

    Args:
        address: Where guests reach it.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.has_ended = False
        self._started: list[psutil.Popen] = []

    def start(self, argv: Sequence[str], **given: Unpack[StartedWith]) -> psutil.Popen:
        started = start_marked(argv, **given)
        self._started.append(started)
        return started

    def frames_dropped(self) -> int | None:
        """Give None: switches and other machines lose what we cannot see."""
        return None

    def traffic(self) -> Traffic | None:
        """Give None: all else that this machine says goes over the same link."""
        return None

    def end(self) -> None:
        self.has_ended = True
        for process in self._started:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
