"""A guest by QEMU's guest agent: the static agent is written there, run, and removed.

The guest needs nothing but the guest agent, which is root there, and a shell. The commands are those of QEMU's
``qga/qapi-schema.json``.
"""

import asyncio
import base64
import contextlib
import logging
import shlex
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from stealtime.check.channels import Asking, GuestAgentError
from stealtime.check.place import Answer, OnProgress
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.vocabulary.errors import StealtimeError

logger = logging.getLogger(__name__)

_NEEDED = ("guest-exec", "guest-exec-status", "guest-file-open", "guest-file-write", "guest-file-close")
_PIECE_BYTES = 64 << 10
"""In base64 it still is one argument of a command line (``MAX_ARG_STRLEN`` is 128 KiB)."""
_LOOK_EVERY_S = 0.25
_SHORT_S = 10.0
_PREPARE = 'uname -s -m && umask 077 && mktemp -d "${TMPDIR:-/tmp}/stealtime-XXXXXXXX"'
_CANNOT_RUN = (126, 127)
"""What a shell says of a program that it may not execute, or cannot find."""


class Channel(Protocol):
    """A way to a guest agent."""

    @property
    def name(self) -> str:
        """Give whose it is, as messages call it."""

    def open(self) -> AbstractAsyncContextManager[Asking]:
        """Open it."""


@dataclass(frozen=True)
class Guest:
    """See ``place.Place``."""

    channel: Channel

    async def run(self, arguments: Sequence[str], on_progress: OnProgress) -> Answer:
        content = await asyncio.to_thread(find_agent().read_bytes)
        on_progress(f"asking {self.channel.name}")
        async with self.channel.open() as asking:
            await self._refuse_without_commands(asking)
            async with self._folder(asking) as folder:
                agent = f"{folder}/stealtime-agent"
                await self._write(asking, agent, content, on_progress)
                command = f"chmod 700 {shlex.quote(agent)} && exec {shlex.join([agent, *arguments, '--quiet'])}"
                answer = await self._execute(asking, command, None, on_progress)
        if answer.exit_code in _CANNOT_RUN:
            raise GuestAgentError(
                f"{self.channel.name} cannot execute {agent}: {' '.join(answer.said) or answer.exit_code}",
                hint="is that folder on a file system that forbids execution (noexec), or does SELinux forbid it?",
            )
        return answer

    async def _refuse_without_commands(self, asking: Asking) -> None:
        about = await asking.ask("guest-info", {})
        commands = about.get("supported_commands", []) if isinstance(about, dict) else []
        enabled = {one.get("name") for one in commands if one.get("enabled")}
        if missing := [name for name in _NEEDED if name not in enabled]:
            raise GuestAgentError(
                f"{self.channel.name} does not allow {', '.join(missing)}",
                hint="allow it in the guest (--block-rpcs of qemu-ga, /etc/sysconfig/qemu-ga), or use ssh:root@guest",
            )

    @asynccontextmanager
    async def _folder(self, asking: Asking) -> AsyncIterator[str]:
        prepared = await self._execute(asking, _PREPARE, _SHORT_S)
        lines = prepared.output.split("\n")
        system = lines[0].strip()
        if prepared.exit_code != 0 or len(lines) < 2 or not lines[1].startswith("/"):
            raise GuestAgentError(f"{self.channel.name} makes no temporary folder: {' '.join(prepared.said)}")
        folder = lines[1].strip()
        try:
            if system != "Linux x86_64":
                raise GuestAgentError(f"{self.channel.name} is in a machine of {system}, not of Linux x86_64")
            yield folder
        finally:
            # Also when we are being cancelled: nothing is left in other people's guests.
            await asyncio.shield(self._remove(asking, folder))

    async def _remove(self, asking: Asking, folder: str) -> None:
        try:
            await self._execute(asking, f"rm -rf -- {shlex.quote(folder)}", _SHORT_S)
        except StealtimeError as error:
            logger.warning("the folder %s of %s was not removed: %s", folder, self.channel.name, error)

    async def _write(self, asking: Asking, path: str, content: bytes, on_progress: OnProgress) -> None:
        handle = await asking.ask("guest-file-open", {"path": path, "mode": "wb"})
        try:
            for start in range(0, len(content), _PIECE_BYTES):
                piece = content[start : start + _PIECE_BYTES]
                await self._write_piece(asking, handle, piece)
                on_progress(f"writing the agent into the guest: {(start + len(piece)) / len(content):.0%}")
        finally:
            with contextlib.suppress(GuestAgentError):
                await asyncio.shield(asking.ask("guest-file-close", {"handle": handle}))

    async def _write_piece(self, asking: Asking, handle: object, piece: bytes) -> None:
        while piece:
            encoded = base64.b64encode(piece).decode()
            written = await asking.ask("guest-file-write", {"handle": handle, "buf-b64": encoded})
            count = written.get("count", 0) if isinstance(written, dict) else 0
            if count <= 0:
                raise GuestAgentError(f"{self.channel.name} writes nothing more: is its temporary folder full?")
            piece = piece[count:]

    async def _execute(
        self, asking: Asking, command: str, within_s: float | None, on_progress: OnProgress | None = None
    ) -> Answer:
        request = {"path": "/bin/sh", "arg": ["-c", command], "capture-output": True}
        started = await asking.ask("guest-exec", request)
        number, begun = int(started["pid"]), time.monotonic()
        try:
            while True:
                status: dict[str, Any] = await asking.ask("guest-exec-status", {"pid": number})
                if status.get("exited"):
                    return _answer(status)
                elapsed_s = time.monotonic() - begun
                if within_s is not None and elapsed_s > within_s:
                    raise GuestAgentError(f"{self.channel.name} does not end {command!r} within {within_s:.0f} s")
                if on_progress is not None:
                    on_progress(f"measuring for {elapsed_s:.0f} s")
                await asyncio.sleep(_LOOK_EVERY_S)
        except asyncio.CancelledError:
            end = {"path": "/bin/sh", "arg": ["-c", f"kill {number}"]}
            with contextlib.suppress(GuestAgentError):
                await asyncio.shield(asking.ask("guest-exec", end))
            raise


def _answer(status: dict[str, Any]) -> Answer:
    def text(key: str) -> str:
        return base64.b64decode(status.get(key, "")).decode(errors="replace")

    if "signal" in status:
        said = (f"error: the agent was ended by signal {status['signal']}",)
        return Answer(128 + int(status["signal"]), text("out-data"), said)
    return Answer(int(status.get("exitcode", 1)), text("out-data"), tuple(text("err-data").splitlines()))
