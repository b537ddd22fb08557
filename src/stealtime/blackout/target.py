"""Where to ask: names and ports as a person types them, addresses as the agent wants them."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from stealtime.vocabulary.errors import StealtimeError, UsageError

COUNTER_PORT = 7000


@dataclass(frozen=True)
class Targets:
    """What was asked for.

    Attributes:
        target: ``HOST`` or ``HOST:PORT`` of a counter, over TCP and UDP.
        tcp: Of a counter, over TCP alone.
        udp: The same over UDP.
        ping: A host.
        connect: ``HOST:PORT`` of any service.
    """

    target: str | None = None
    tcp: str | None = None
    udp: str | None = None
    ping: str | None = None
    connect: str | None = None

    def options(self) -> list[str]:
        """Give the options of the agent.

        Raises:
            UsageError: There is nothing to ask, or no port where one is needed.
            StealtimeError: A name does not resolve.
        """
        tcp, udp = self.tcp, self.udp
        if self.target is not None and (tcp is not None or udp is not None):
            raise UsageError(
                f"{self.target} is asked over TCP and UDP already", hint="give either TARGET, or --tcp and --udp"
            )
        if self.target is not None:
            tcp = udp = self.target
        if not any((tcp, udp, self.ping, self.connect)):
            raise UsageError(
                "nobody to ask was named",
                hint="give TARGET, where `stealtime-agent counter` runs, or --ping HOST or --connect HOST:PORT",
            )
        found: list[str] = []
        # TARGET may name its port only once and is looked up only once.
        counter = None if self.target is None else _endpoint(self.target, COUNTER_PORT)
        for option, text in (("--tcp", tcp), ("--udp", udp)):
            if text is not None:
                found += [option, counter or _endpoint(text, COUNTER_PORT)]
        if self.ping is not None:
            found += ["--ping", _address(self.ping)]
        if self.connect is not None:
            found += ["--connect", _endpoint(self.connect, None)]
        return found


def _endpoint(text: str, port: int | None) -> str:
    host, written = _split(text)
    if written is None and port is None:
        raise UsageError(f"{text!r} names no port", hint="write HOST:PORT, for example server:22")
    if written is not None:
        if not (written.isascii() and written.isdigit() and 0 < int(written) < 65536):
            raise UsageError(
                f"{text!r} has the port {written!r}, which is none from 1 to 65535",
                hint=f"write HOST:PORT, for example {host or 'server'}:{port or 22}",
            )
        port = int(written)
    if not host:
        raise UsageError(f"{text!r} names no host", hint=f"write HOST:PORT, for example server:{port}")
    address = _address(host)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _split(text: str) -> tuple[str, str | None]:
    """Part a port from ``host:port`` and ``[address]:port``; an address of IPv6 alone has none."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if closed and (rest == "" or rest.startswith(":")):
            return host, rest[1:] or None
        raise UsageError(f"{text!r} is no address", hint="write [ADDRESS]:PORT for IPv6")
    host, colon, port = text.rpartition(":")
    return (host, port) if colon and ":" not in host else (text, None)


def _address(host: str) -> str:
    try:
        found: Sequence[tuple[object, ...]] = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no host name"
        raise StealtimeError(
            f"the name {host!r} does not resolve: {reason}", hint="check its spelling, or give an address"
        ) from None
    address = found[0][4]
    assert isinstance(address, tuple)  # noqa: S101 - says socket.getaddrinfo
    return str(address[0])


def served_port(target: str | None) -> str:
    """Give the port to serve at.

    Args:
        target: ``PORT``, or anything with one; None: the usual one.

    Raises:
        UsageError: It has none.
    """
    text = str(COUNTER_PORT) if target is None else target.rpartition(":")[2]
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise UsageError(f"{target!r} names no port", hint="write, for example, `stealtime blackout --serve 7000`")
    return text
