"""How QEMU's guest agent is reached: through libvirt, or by the socket that it or QEMU has for it."""

import asyncio
import contextlib
import json
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from stealtime.vocabulary.errors import StealtimeError

_ANSWER_WITHIN_S = 10
_LONGEST_LINE = 64 << 20
"""An answer may hold all that a program has printed."""
_DELIMITER = b"\xff"
_INSTALL_HINT = (
    "install and start qemu-guest-agent in the guest, give the machine the channel org.qemu.guest_agent.0, or use "
    "ssh:root@guest"
)


_REFUSED_HINT = "look at what qemu-ga in the guest blocks (--block-rpcs, BLOCK_RPCS in /etc/sysconfig/qemu-ga)"

_VIRSH_HINTS = {
    "failed to get domain": "virsh list --all tells the names",
    "failed to connect to the hypervisor": "is libvirtd running, and does $LIBVIRT_DEFAULT_URI name it? try virsh list",
    "not supported by the connection driver": "only domains of QEMU have its guest agent; use ssh:root@guest",
}


class GuestAgentError(StealtimeError):
    """The guest agent refused a command, or does not answer."""


class Asking(Protocol):
    """An open channel."""

    async def ask(self, command: str, arguments: Mapping[str, Any]) -> Any:
        """Give what the command returned.

        Raises:
            GuestAgentError: It was refused, or nobody answered.
        """


@dataclass(frozen=True)
class Virsh:
    """A domain of libvirt, by its own command line. ``$LIBVIRT_DEFAULT_URI`` says which libvirt."""

    domain: str

    @property
    def name(self) -> str:
        return f"the domain {self.domain}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Virsh"]:
        if shutil.which("virsh") is None:
            raise StealtimeError(
                f"the domain {self.domain} cannot be asked: virsh is not installed here",
                hint="apt install libvirt-clients, or use ssh:root@guest",
            )
        yield self

    async def ask(self, command: str, arguments: Mapping[str, Any]) -> Any:
        process = await asyncio.create_subprocess_exec(
            "virsh",
            "qemu-agent-command",
            "--timeout",
            str(_ANSWER_WITHIN_S),
            "--domain",
            self.domain,
            _request(command, arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, said = await process.communicate()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        if process.returncode != 0:
            why = said.decode(errors="replace").strip().replace("\n", "; ").replace("error: ", "")
            known = (hint for part, hint in _VIRSH_HINTS.items() if part in why)
            hint = next(known, _INSTALL_HINT)
            raise GuestAgentError(f"{self.name} cannot be asked: {why}", hint=hint)
        return _returned(output, self.name, command)


@dataclass(frozen=True)
class SocketOfGuest:
    """A unix socket: of QEMU's ``-chardev socket``, or of ``qemu-ga -m unix-listen``."""

    path: Path

    @property
    def name(self) -> str:
        return f"the guest agent at {self.path}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["OpenSocket"]:
        try:
            reader, writer = await asyncio.open_unix_connection(self.path, limit=_LONGEST_LINE)
        except OSError as error:
            raise GuestAgentError(f"{self.name} cannot be reached: {error.strerror}", hint=_INSTALL_HINT) from error
        socket = OpenSocket(self.name, reader, writer)
        try:
            await socket.synchronize()
            yield socket
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@dataclass(frozen=True)
class OpenSocket:
    """One that answers, a line each."""

    name: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One command after the other: answers have no names."""

    async def synchronize(self) -> None:
        """Skip what is left in the channel from whoever used it before (``guest-sync-delimited``)."""
        number = secrets.randbelow(1 << 31)
        await self._send(_DELIMITER + _request("guest-sync-delimited", {"id": number}).encode() + b"\n")
        while True:
            await self._read_until(_DELIMITER)
            if _returned(await self._read_until(b"\n"), self.name, "guest-sync-delimited") == number:
                return

    async def ask(self, command: str, arguments: Mapping[str, Any]) -> Any:
        # Whoever is cancelled goes at once, but the answer is still read: it would be taken for that of the next.
        return await asyncio.shield(asyncio.ensure_future(self._ask(command, arguments)))

    async def _ask(self, command: str, arguments: Mapping[str, Any]) -> Any:
        async with self.turn:
            await self._send(_request(command, arguments).encode() + b"\n")
            return _returned(await self._read_until(b"\n"), self.name, command)

    async def _send(self, content: bytes) -> None:
        try:
            self.writer.write(content)
            await self.writer.drain()
        except OSError as error:
            raise GuestAgentError(f"{self.name} is gone: {error.strerror}", hint=_INSTALL_HINT) from error

    async def _read_until(self, end: bytes) -> bytes:
        try:
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                return await self.reader.readuntil(end)
        except TimeoutError:
            why = f"does not answer within {_ANSWER_WITHIN_S} s"
        except (asyncio.IncompleteReadError, OSError):
            why = "has closed the connection"
        raise GuestAgentError(f"{self.name} {why}", hint=_INSTALL_HINT)


def _request(command: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps({"execute": command, "arguments": dict(arguments)} if arguments else {"execute": command})


def _returned(answer: bytes, name: str, command: str) -> Any:
    try:
        document = json.loads(answer)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise GuestAgentError(f"{name} answered {answer[:80]!r} to {command}, which is no JSON object")
    if "error" in document:
        why = document["error"].get("desc", "no reason given") if isinstance(document["error"], dict) else "?"
        raise GuestAgentError(f"{name} refuses {command}: {why}", hint=_REFUSED_HINT)
    return document.get("return")
