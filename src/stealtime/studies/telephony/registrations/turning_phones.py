"""Phones that turn to the next target of their own SRV order where one does not answer (RFC 3263, section 4.3).

SIPp has one target. So this is a program of our own, run where the phones are::

    python -m stealtime.studies.telephony.registrations.turning_phones ORDER DONE

ORDER is a JSON document, DONE a file that gets a line for each phone when it is done. Each phone registers once, at its
time. It turns to the next target at once where its request cannot be delivered (an ICMP error, a connection that is
refused or closes) or is answered by 503, and when timer F ends otherwise. All times are those of the monotonic clock,
taken here.
"""

import asyncio
import contextlib
import errno
import json
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from stealtime.studies.telephony.registrations.request import (
    Request,
    Response,
    ResponseReader,
    parse_response,
    resent_after_s,
)

Outcome = Literal["answered", "refused", "unavailable", "undelivered", "timed out"]
"""``unavailable``: 503; ``refused``: any other answer than 200; ``undelivered``: so says ICMP, or the end of a
connection."""
TURNS: frozenset[Outcome] = frozenset({"unavailable", "undelivered", "timed out"})
"""After which a phone turns to its next target; any other answer is final."""
_OK, _UNAVAILABLE, _FINAL = 200, 503, 200
_UNDELIVERED = {
    errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.EHOSTUNREACH, errno.ENETUNREACH,
    errno.ETIMEDOUT,
}  # fmt: skip
"""Of these a phone hears from its own kernel; any other error is ours."""


@dataclass(frozen=True)
class Phone:
    """A phone to come."""

    user: str
    after_ns: int
    """When it registers, after the first one."""
    targets: tuple[tuple[str, int], ...]
    """Addresses and ports, in the order in which it tries them."""


@dataclass(frozen=True)
class PhonesOrder:
    """All phones to come."""

    address: str
    """Of their own."""
    domain: str
    transport: Literal["udp", "tcp-one", "tcp-each"]
    """``udp``: a socket each; ``tcp-one``: a connection for all phones of a target."""
    timer_f_ns: int
    phones: tuple[Phone, ...]


@dataclass(frozen=True)
class Attempt:
    """A request to one target."""

    address: str
    sent_ns: int
    """Its first copy; over TCP: when the connection was asked for."""
    ended_ns: int
    outcome: Outcome
    status: int | None
    """Of the answer."""
    sent_again: int


@dataclass(frozen=True)
class PhoneDone:
    """A phone that was answered, or has no target left."""

    user: str
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True)
class _Ending:
    """How a transaction ended: by an answer, or as it could not be delivered."""

    at_ns: int
    status: int | None


@dataclass
class _Transaction:
    """One that is not over."""

    request: Request
    number: int
    """Of the target."""
    ending: "asyncio.Future[_Ending]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    sent_again: int = 0

    @property
    def branch(self) -> str:
        return self.request.branch(self.number)

    def text(self, protocol: str, port: int) -> bytes:
        return self.request.text(self.number, protocol, port)

    def end(self, status: int | None) -> None:
        if not self.ending.done():
            self.ending.set_result(_Ending(time.monotonic_ns(), status))

    def take(self, response: Response) -> None:
        if response.branch == self.branch and response.status >= _FINAL:
            self.end(response.status)


class _Datagrams(asyncio.DatagramProtocol):
    """A phone's socket, connected to one target, so that an ICMP error is its own."""

    def __init__(self, transaction: _Transaction) -> None:
        self._transaction = transaction

    def datagram_received(self, data: bytes, _address: Any) -> None:
        if (response := parse_response(data)) is not None:
            self._transaction.take(response)

    def error_received(self, _error: Exception) -> None:
        self._transaction.end(None)


class _Connection(asyncio.Protocol):
    """A TCP connection, of one phone or of all of a target."""

    def __init__(self) -> None:
        self._reader = ResponseReader()
        self._waiting: dict[str, _Transaction] = {}
        self._transport: asyncio.Transport | None = None

    @property
    def is_lost(self) -> bool:
        return self._transport is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a stream
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for response in self._reader.feed(data):
            if (transaction := self._waiting.get(response.branch)) is not None:
                transaction.take(response)

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        for transaction in self._waiting.values():
            transaction.end(None)

    def send(self, transaction: _Transaction) -> None:
        if self._transport is None:
            transaction.end(None)
            return
        self._waiting[transaction.branch] = transaction
        port = int(self._transport.get_extra_info("sockname")[1])
        self._transport.write(transaction.text("tcp", port))

    def forget(self, transaction: _Transaction) -> None:
        self._waiting.pop(transaction.branch, None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Phones:
    """All phones, which register each at its time.

    Args:
        order: What they do.
        done: Gets a line for each.
    """

    def __init__(self, order: PhonesOrder, done: IO[str]) -> None:
        self._order = order
        self._done = done
        self._connections: dict[tuple[str, int], asyncio.Task[_Connection]] = {}

    async def register_all(self) -> None:
        """Have all register, and wait until each is done."""
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for phone in sorted(self._order.phones, key=lambda one: one.after_ns):
                await asyncio.sleep(begun + phone.after_ns / 1e9 - time.monotonic())
                group.create_task(self._register(phone))
        for connecting in self._connections.values():
            connecting.cancel()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                (await connecting).close()

    async def _register(self, phone: Phone) -> None:
        request = Request(phone.user, self._order.domain, self._order.address)
        attempts: list[Attempt] = []
        for number, target in enumerate(phone.targets):
            attempts.append(await self._attempt(_Transaction(request, number), target))
            if attempts[-1].outcome not in TURNS:
                break
        self._done.write(f"{json.dumps(asdict(PhoneDone(phone.user, tuple(attempts))))}\n")
        self._done.flush()

    async def _attempt(self, transaction: _Transaction, target: tuple[str, int]) -> Attempt:
        sent_ns = time.monotonic_ns()
        over = self._over_udp if self._order.transport == "udp" else self._over_tcp
        try:
            async with asyncio.timeout(self._order.timer_f_ns / 1e9):
                await over(transaction, target)
                ending = await transaction.ending
        except TimeoutError:
            return Attempt(target[0], sent_ns, time.monotonic_ns(), "timed out", None, transaction.sent_again)
        except OSError as error:
            if error.errno not in _UNDELIVERED:
                raise
            ending = _Ending(time.monotonic_ns(), None)
        outcome = outcome_of(ending.status)
        return Attempt(target[0], sent_ns, ending.at_ns, outcome, ending.status, transaction.sent_again)

    async def _over_udp(self, transaction: _Transaction, target: tuple[str, int]) -> None:
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Datagrams(transaction), local_addr=(self._order.address, 0), remote_addr=target
        )
        try:
            text = transaction.text("udp", transport.get_extra_info("sockname")[1])
            begun = time.monotonic()
            transport.sendto(text)
            for after_s in resent_after_s(self._order.timer_f_ns / 1e9):
                await asyncio.wait({transaction.ending}, timeout=begun + after_s - time.monotonic())
                if transaction.ending.done():
                    return
                transport.sendto(text)
                transaction.sent_again += 1
            await transaction.ending
        finally:
            transport.close()

    async def _over_tcp(self, transaction: _Transaction, target: tuple[str, int]) -> None:
        connection = await self._connected(target)
        try:
            connection.send(transaction)
            await transaction.ending
        finally:
            connection.forget(transaction)
            if self._order.transport == "tcp-each":
                connection.close()

    async def _connected(self, target: tuple[str, int]) -> _Connection:
        if self._order.transport == "tcp-each":
            return await self._connect(target)
        known = self._connections.get(target)
        if known is None or (known.done() and (known.exception() is not None or known.result().is_lost)):
            self._connections[target] = known = asyncio.create_task(self._connect(target))
        # Who gives up waiting for the connection of all does not end it.
        return await asyncio.shield(known)

    async def _connect(self, target: tuple[str, int]) -> _Connection:
        _, connection = await asyncio.get_running_loop().create_connection(
            _Connection, *target, local_addr=(self._order.address, 0)
        )
        return connection


def outcome_of(status: int | None) -> Outcome:
    """Say what an answer means to a phone; None: the request could not be delivered."""
    if status is None:
        return "undelivered"
    return "answered" if status == _OK else "unavailable" if status == _UNAVAILABLE else "refused"


def parse_order(text: str) -> PhonesOrder:
    """Read what :func:`dataclasses.asdict` made of an order."""
    document = json.loads(text)
    phones = tuple(
        Phone(one["user"], one["after_ns"], tuple((address, port) for address, port in one["targets"]))
        for one in document.pop("phones")
    )
    return PhonesOrder(phones=phones, **document)


def parse_done(line: str) -> PhoneDone:
    """Read a line of a phone that is done."""
    document = json.loads(line)
    return PhoneDone(document["user"], tuple(Attempt(**one) for one in document["attempts"]))


def _main(arguments: Sequence[str]) -> int:
    order, done = map(Path, arguments)
    # A phone has a socket of its own, as long as it waits.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with done.open("w") as lines:
        asyncio.run(Phones(parse_order(order.read_text()), lines).register_all())
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
