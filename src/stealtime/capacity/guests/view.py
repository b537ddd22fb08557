"""A guest's own view of its CPUs: how many threads want one, what its kernel counts as stolen, its pressure.

Windows calls it System\\Processor Queue Length, and no host can see it. Ways in that need nothing installed:

- User-Mode Linux answers on its management socket (mconsole), where it was given a name and a folder.
- Any guest with ssh, where the user says how to reach it; one connection stays open.
- A guest in which QEMU's guest agent answers (``agent_view``).

A guest of stealtime under QEMU has one channel, and the program that started it holds that: it cannot be asked from
here.
"""

import contextlib
import os
import select
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from stealtime.capacity.guest import Guest
from stealtime.capacity.guests.agent_view import AgentSocket, AgentView, LibvirtDomain
from stealtime.capacity.guests.own_kernel import read_view
from stealtime.capacity.sample import GuestView
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.readings import Absent

Ask = Callable[[], GuestView | Absent]
NO_WAY = Absent(
    absent="there is no way into this guest from here: name one with --guest-view GUEST=ssh:HOST",
)

OWN = "own"
"""Asks only guests that can be asked without being told how."""
_MAGIC = 0xCAFEBABE
_VERSION = 2
_REQUEST = struct.Struct("=III512s")
_REPLY_HEAD = struct.Struct("=iII")
"""``struct mconsole_request`` and ``mconsole_reply`` (arch/um/drivers/mconsole.h)."""
_PATIENCE_S = 0.5
_MOST_FAILURES = 3
"""Then a guest is left alone: each failure costs the collector its patience."""
_MOST_BYTES = 1 << 20
"""Of an answer: that of a guest of a thousand CPUs is a tenth."""
_END = b"stealtime: end\n"
_FILES = ("stat", "pressure/cpu", "vmstat", "meminfo")
_SSH_LOOP = (
    f"while read -r _; do cat {' '.join(f'/proc/{name}' for name in _FILES)} 2>/dev/null; echo stealtime: end; done"
)


class Source(Protocol):
    """A way into a guest."""

    def view(self) -> GuestView:
        """Ask once.

        Raises:
            OSError: It does not answer.
            ValueError: What it says is nothing of the kind.
        """

    def close(self) -> None: ...


class ManagementSocket:
    """The mconsole of a User-Mode Linux guest."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        # An address of the kernel's choice, without a file.
        self._socket.bind("")
        self._socket.settimeout(_PATIENCE_S)

    def view(self) -> GuestView:
        text = self._ask("proc stat")
        for name in _FILES[1:]:
            with contextlib.suppress(OSError):
                text += self._ask(f"proc {name}")
        return read_view(text)

    def close(self) -> None:
        self._socket.close()

    def _ask(self, command: str) -> bytes:
        words = command.encode()
        # Its replies are found by a path of at most 107 bytes.
        self._socket.sendto(_REQUEST.pack(_MAGIC, _VERSION, len(words), words), os.fspath(self._path))
        parts: list[bytes] = []
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            # Whoever owns the process owns its socket, and may go on for ever.
            if time.monotonic() > deadline_s or sum(map(len, parts)) > _MOST_BYTES:
                raise TimeoutError(f"{command!r}: its answer has no end")
            reply = self._socket.recv(_REPLY_HEAD.size + 512)
            error, more, length = _REPLY_HEAD.unpack_from(reply)
            data = reply[_REPLY_HEAD.size : _REPLY_HEAD.size + length].rstrip(b"\0")
            if error:
                raise OSError(f"{command!r} was refused: {data.decode(errors='replace').strip()}")
            parts.append(data)
            if not more:
                return b"".join(parts)


class Shell:
    """A shell in the guest, kept open, that prints the files for each line that it is given.

    Args:
        argv: What gives it: ``ssh HOST``.
    """

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(
            [*argv, _SSH_LOOP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._rest = b""

    def view(self) -> GuestView:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # noqa: S101, PT018 - made as pipes
        if not self._rest:
            stdin.write(b"\n")
            stdin.flush()
        deadline = time.monotonic() + _PATIENCE_S
        while _END not in self._rest:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([stdout], [], [], left_s)[0]:
                raise TimeoutError(f"it did not answer within {_PATIENCE_S:g} s")
            piece = os.read(stdout.fileno(), 1 << 16)
            if not piece:
                raise ConnectionError("the connection ended")
            self._rest += piece
        text, _, self._rest = self._rest.partition(_END)
        return read_view(text)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class GuestViews:
    """Who is asked how.

    Args:
        ways: By the guest's name, what was said to its way in: ``ssh:HOST``.
    """

    def __init__(self, ways: Mapping[str, str]) -> None:
        self._ways = dict(ways)
        self._sources: list[Source] = []
        self.used: set[str] = set()
        """The names that fitted a guest."""

    def of(self, guest: Guest) -> Ask:
        way = self._ways.get(guest.name)
        if way is not None:
            self.used.add(guest.name)
            argv = ssh_command(way)
            return self._asking(lambda: Shell(argv))
        if guest.console is not None:
            console = guest.console
            return self._asking(lambda: ManagementSocket(console))
        if guest.agent is not None:
            path = guest.agent
            return self._asking(lambda: AgentView(AgentSocket(path)))
        if guest.domain is not None and shutil.which("virsh") is not None:
            domain = guest.domain
            return self._asking(lambda: AgentView(LibvirtDomain(domain)))
        return lambda: NO_WAY

    def close(self) -> None:
        for source in self._sources:
            source.close()
        self._sources.clear()

    def _asking(self, open_source: Callable[[], Source]) -> Ask:
        try:
            source = open_source()
        except OSError as error:
            absent = Absent(absent=f"its own kernel cannot be asked: {error}")
            return lambda: absent
        self._sources.append(source)
        failures = 0

        def ask() -> GuestView | Absent:
            nonlocal failures
            if failures >= _MOST_FAILURES:
                return Absent(absent=f"its own kernel did not answer {failures} times and is not asked any more")
            try:
                view = source.view()
            except Exception as error:
                failures += 1
                return Absent(absent=f"its own kernel did not answer: {error}")
            failures = 0
            return view

        return ask


def ssh_command(way: str) -> list[str]:
    """Give the command that opens a shell there, with the user's own keys, known hosts and settings.

    Args:
        way: ``ssh:[user@]host[:port]``, as a platform is named.

    Raises:
        UsageError: It is of another form.
    """
    # asyncssh takes 0.2 s to load.
    from stealtime.lab.platforms.ssh import SshPlatform

    where = SshPlatform.parse(way)
    port = [] if where.port is None else ["-p", str(where.port)]
    user = "" if where.user is None else f"{where.user}@"
    return ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", *port, "--", f"{user}{where.host}"]


def read_ways(words: list[str]) -> dict[str, str]:
    """Read the values of ``--guest-view``: ``GUEST=ssh:[USER@]HOST[:PORT]``, or ``own`` for those that need no way.

    Raises:
        UsageError: One is of another form.
    """
    ways = {}
    for word in words:
        if word == OWN:
            continue
        name, _, way = word.rpartition("=")
        if not name or not way.startswith("ssh:") or way == "ssh:":
            raise UsageError(
                f"--guest-view: {word!r} does not say how to reach which guest",
                hint=f"write GUEST=ssh:[USER@]HOST[:PORT], or {OWN} for guests that answer by themselves",
            )
        ssh_command(way)
        ways[name] = way
    return ways
