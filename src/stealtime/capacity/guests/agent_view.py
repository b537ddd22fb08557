"""A guest's own view by QEMU's guest agent, where one answers on a socket of its own or through libvirt.

Its kernel's queue is best told by ``procs_running`` of its ``/proc/stat``, which the agent reads as a file. Where files
are blocked (Red Hat's does so) ``guest-get-load`` (QEMU 10.0) tells the load of the last minute. That has tasks that
wait for a disk in it as well, so it says too much rather than too little. CPU times are those of ``guest-get-cpustats``
(QEMU 7.1). The commands are those of QEMU's ``qga/qapi-schema.json``.
"""

import base64
import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stealtime.capacity.counters.parsers import CPU_COLUMNS
from stealtime.capacity.guests.own_kernel import read_view
from stealtime.capacity.sample import GuestView
from stealtime.vocabulary.readings import Absent

_PATIENCE_S = 0.5
_LIBVIRT_PATIENCE_S = 2
_FILE_PATIENCE_S = 2.0
"""For all pieces of a file."""
_PIECE_BYTES = 1 << 16
_MOST_BYTES = 4 << 20
"""Of an answer, which whoever has the guest can write."""
_FILES = ("/proc/stat", "/proc/pressure/cpu", "/proc/vmstat", "/proc/meminfo")
_MOST_LOAD = 1e9
"""More threads than that has no kernel."""
_DELIMITER = b"\xff"
"""Says to the agent, and comes back from it, that what was on the line before is not ours."""


class Asking(Protocol):
    """A way to a guest agent."""

    def ask(self, command: str, arguments: Mapping[str, Any]) -> Any:
        """Give what a command returned.

        Raises:
            RefusedError: The agent does not do that.
            OSError: It does not answer.
        """

    def close(self) -> None: ...


class RefusedError(ValueError):
    """The guest agent answered, and refused."""


class AgentSocket:
    """A Unix socket of QEMU (``-chardev socket``) or of ``qemu-ga -m unix-listen``; it serves one client at a time.

    Args:
        path: Of the socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._rest = b""

    def ask(self, command: str, arguments: Mapping[str, Any]) -> Any:
        try:
            if self._socket is None:
                self._open()
            return self._ask(command, arguments)
        except OSError:
            self.close()  # what comes late is no answer to the next question
            raise

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._rest = b""

    def _open(self) -> None:
        opened = socket.socket(socket.AF_UNIX)
        opened.settimeout(_PATIENCE_S)
        try:
            opened.connect(os.fspath(self._path))
        except OSError:
            opened.close()
            raise
        self._socket = opened
        number = secrets.randbelow(1 << 31)
        self._send({"execute": "guest-sync-delimited", "arguments": {"id": number}}, before=_DELIMITER)
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            # What somebody asked before us may still be on the line.
            line = self._line(deadline_s).rpartition(_DELIMITER)[2]
            try:
                if json.loads(line).get("return") == number:
                    return
            except ValueError:
                continue

    def _ask(self, command: str, arguments: Mapping[str, Any]) -> Any:
        self._send({"execute": command, "arguments": dict(arguments)})
        return returned(self._line(time.monotonic() + _PATIENCE_S))

    def _send(self, request: Mapping[str, Any], before: bytes = b"") -> None:
        assert self._socket is not None  # noqa: S101 - it was opened
        self._socket.sendall(before + json.dumps(request).encode() + b"\n")

    def _line(self, deadline_s: float) -> bytes:
        assert self._socket is not None  # noqa: S101 - it was opened
        while b"\n" not in self._rest:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"the guest agent did not answer within {_PATIENCE_S:g} s")
            self._socket.settimeout(left_s)
            piece = self._socket.recv(_PIECE_BYTES)
            if not piece:
                raise ConnectionError("the guest agent's socket was closed")
            self._rest += piece
            if len(self._rest) > _MOST_BYTES:
                raise ConnectionError("the guest agent's answer has no end")
        line, _, self._rest = self._rest.partition(b"\n")
        return line


class LibvirtDomain:
    """A domain whose socket libvirt has: asked by libvirt's own command line, which costs some 20 ms each time.

    Args:
        domain: Its name.
    """

    def __init__(self, domain: str) -> None:
        self._domain = domain

    def ask(self, command: str, arguments: Mapping[str, Any]) -> Any:
        request = json.dumps({"execute": command, "arguments": dict(arguments)})
        argv = ["virsh", "--quiet", "qemu-agent-command", "--timeout", str(_LIBVIRT_PATIENCE_S), "--domain"]
        try:
            ended = subprocess.run(
                [*argv, self._domain, request], capture_output=True, timeout=2 * _LIBVIRT_PATIENCE_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"libvirt did not answer within {2 * _LIBVIRT_PATIENCE_S} s") from error
        if ended.returncode != 0:
            why = ended.stderr.decode(errors="replace").strip().removeprefix("error: ")
            # libvirt hands an agent's refusal on as a failure of its own.
            raise RefusedError(why) if "unable to execute QEMU agent command" in why else ConnectionError(why)
        return returned(ended.stdout)

    def close(self) -> None:
        pass


def returned(line: bytes) -> Any:
    """Read an answer.

    Raises:
        RefusedError: It is a refusal, or no answer.
    """
    try:
        answer = json.loads(line)
    except ValueError as error:
        raise RefusedError(f"{line[:80]!r} is no answer of a guest agent") from error
    if not isinstance(answer, dict) or "return" not in answer:
        refusal = answer.get("error", {}) if isinstance(answer, dict) else {}
        raise RefusedError(str(refusal.get("desc", answer)))
    return answer["return"]


@dataclass
class AgentView:
    """Asks a guest agent for its kernel's view, in the best way that it allows."""

    asking: Asking
    _reads_files: bool = True

    def view(self) -> GuestView:
        """Ask once.

        Raises:
            OSError: It does not answer.
            ValueError: It knows no way, or what it says is nothing of the kind.
        """
        if self._reads_files:
            try:
                return read_view(b"".join(map(self._file, _FILES)))
            except RefusedError:
                self._reads_files = False
        return self._loaded()

    def close(self) -> None:
        self.asking.close()

    def _file(self, path: str) -> bytes:
        try:
            handle = self.asking.ask("guest-file-open", {"path": path})
        except RefusedError:
            if path == "/proc/stat":
                raise
            return b""  # a kernel without it
        try:
            pieces: list[bytes] = []
            deadline_s = time.monotonic() + _FILE_PATIENCE_S
            while True:
                # The guest says where its file ends.
                if time.monotonic() > deadline_s or sum(map(len, pieces)) > _MOST_BYTES:
                    raise TimeoutError(f"the guest agent's {path} has no end")
                read = self.asking.ask("guest-file-read", {"handle": handle, "count": _PIECE_BYTES})
                pieces.append(base64.b64decode(read["buf-b64"]))
                if read["eof"]:
                    return b"".join(pieces)
        finally:
            self.asking.ask("guest-file-close", {"handle": handle})

    def _loaded(self) -> GuestView:
        load = self.asking.ask("guest-get-load", {})
        rows = {int(one["cpu"]): ticks_of(one) for one in self.asking.ask("guest-get-cpustats", {})}
        if not rows:
            raise ValueError("its guest agent tells of no CPU")
        minute = float(load["load1m"])
        if not 0 <= minute < _MOST_LOAD:
            raise ValueError(f"its guest agent tells a load of {minute:g}")
        # A load counts who runs and who waits; procs_running has the one who reads it besides.
        return GuestView(minute + 1, len(rows), rows, Absent(absent="a guest agent does not tell it"))


def ticks_of(told: Mapping[str, Any]) -> tuple[int, ...]:
    """Give the times of a guest's CPU as ``CPU_COLUMNS`` has them: the agent tells them in ms, a tick here is 10 ms."""
    names = {"guest_nice": "guest-nice" if "guest-nice" in told else "guestnice"}
    return tuple(int(told.get(names.get(name, name), 0)) // 10 for name in CPU_COLUMNS)
