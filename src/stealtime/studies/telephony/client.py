"""Where phones are: a place that starts SIPp, voice and questions, apart from the server and its hosts."""

import contextlib
import functools
from collections.abc import Sequence
from typing import Protocol, Unpack

import psutil

from stealtime.hosts.laboratory import CLIENT, Laboratory
from stealtime.lab.platforms.process import StartedWith, start_marked


class Client(Protocol):
    """A machine, or a namespace of this one, where phones are."""

    @property
    def address(self) -> str:
        """Its own IPv4 address, where the server reaches phones."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether it is being removed, so that nothing is worth waiting for."""
        ...

    def start(self, argv: Sequence[str], **given: Unpack[StartedWith]) -> psutil.Popen:
        """Start a program there; it ends with the client."""
        ...


class LaboratoryClient:
    """The client of a laboratory."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self.start = functools.partial(laboratory.start, CLIENT)
        """Starts a program in its namespace."""

    @property
    def address(self) -> str:
        """Its address on the network ``clients``."""
        return self._laboratory.client.address("clients")

    @property
    def has_ended(self) -> bool:
        """Whether the laboratory is being removed."""
        return self._laboratory.has_ended


class LocalClient:
    """This machine, in its own network: nothing of it is changed for the phones.

    Args:
        address: Where the server reaches it.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.has_ended = False
        self._started: list[psutil.Popen] = []

    def start(self, argv: Sequence[str], **given: Unpack[StartedWith]) -> psutil.Popen:
        """Start a program here."""
        started = start_marked(argv, **given)
        self._started.append(started)
        return started

    def end(self) -> None:
        """End all that was started."""
        self.has_ended = True
        for process in self._started:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
