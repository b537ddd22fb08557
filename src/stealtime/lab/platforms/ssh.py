"""Another machine over ssh: the agent is copied there, serves on the session's streams, and is removed.

asyncssh with the user's own known hosts, keys and ``~/.ssh/config``. The host must be x86-64 Linux: the agent is one
static file of machine code. What a login shell prints of its own accord (a banner, a reminder) is told from our own
output by lines around the latter, ``ssh_shell``.
"""

import asyncio
import contextlib
import logging
import os
import shlex
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from stealtime.lab.platforms.affinity import HostThread
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.cgroup import CpuGroup
from stealtime.lab.platforms.failure import MachineError, log_tail, read_tail
from stealtime.lab.platforms.kvm_counters import CountersLook
from stealtime.lab.platforms.machine import NO_TSC_OFFSET, boot_record
from stealtime.lab.platforms.model import Availability, BootRecord, Machine, MachineRequest
from stealtime.lab.platforms.ssh_name import SshName
from stealtime.lab.platforms.ssh_shell import ASK_HOST, MarkedShell, RemoteHost, parse_host
from stealtime.lab.processors import CpuSets
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.readings import Absent, Facts, Reading
from stealtime.wire.connection import AgentConnection

logger = logging.getLogger(__name__)

_CONNECT_WITHIN_S = 15.0
_COMMAND_WITHIN_S = 20.0
_END_WITHIN_S = 5.0
_KEEPALIVES = 3
"""Unanswered, before a host is taken for lost, as ``ServerAliveCountMax`` of ssh_config(5)."""
_SHOWN_LETTERS = 200
_MAKE_FOLDER = 'umask 077 && mktemp -d "${TMPDIR:-/tmp}/stealtime-XXXXXXXX"'


@dataclass
class SshPlatform:
    """A machine that is reached over ssh."""

    name: str
    host: str
    user: str | None = None
    port: int | None = None

    @classmethod
    def parse(cls, name: str) -> "SshPlatform":
        parsed = SshName.parse(name)
        return cls(name=name, host=parsed.host, user=parsed.user, port=parsed.port)

    async def check(self) -> Availability:
        """Usable where we can log in and the machine is x86-64 Linux; leaves nothing there."""
        try:
            find_agent()
            async with self.connect() as connection:
                host = await self._look(connection)
        except StealtimeError as error:
            return Availability(usable=False, reason=error.message, hint=error.hint)
        return Availability(usable=True, reason=f"{self.host} is {host.system}", cpus=host.cpus)

    @asynccontextmanager
    async def boot(self, request: MachineRequest) -> AsyncIterator[Machine]:
        if request.share is not None:
            raise UsageError(
                f"the platform {self.name} cannot be held to a share ({request.share.words})",
                hint="shares are made on the host of the control plane; use a scenario without one",
            )
        content = await asyncio.to_thread(find_agent().read_bytes)
        log = request.folder / "agent.log"
        started = time.monotonic()
        async with self.connect() as connection:
            host = await self._look(connection)
            async with self._remote_folder(connection) as folder:
                remote_agent = f"{folder}/stealtime-agent"
                await self._copy(connection, content, remote_agent)
                # The shell there removes the folder too: a connection that is lost takes our own removal with it.
                remove = shlex.quote(f"rm -rf -- {shlex.quote(folder)}")
                command = f"trap {remove} EXIT; {shlex.quote(remote_agent)} serve"
                self._watch_the_link(connection, host, request)
                async with self._serving(connection, command, log, request.boot_timeout_s) as process:
                    channel = AgentConnection(
                        _Reader(process.stdout),
                        _Writer(process.stdin),
                        peer=self.name,
                        describe_end=lambda: _describe_end(process, log),
                    )
                    try:
                        hello = await channel.hello(request.boot_timeout_s)
                    except StealtimeError as error:
                        raise MachineError(
                            f"the agent on {self.host} did not start: {error.message}; {log_tail(log)}",
                            hint=f"is {folder} on a file system that forbids execution (noexec)? "
                            "TMPDIR of the remote shell names another place",
                            serial_tail=read_tail(log),
                        ) from error
                    try:
                        yield _SshMachine(
                            platform=self.name,
                            connection=channel,
                            boot=boot_record((command,), started, {"host": self.host, "system": host.system}),
                            measured_cpus=request.vcpu_cpus[-1],
                            serial_log=None,
                            emulator_trace=None,
                            agent_facts=hello.facts,
                            process=process,
                        )
                    finally:
                        await channel.shutdown()

    async def run_agent(self, arguments: Sequence[str], on_line: Callable[[str], None]) -> tuple[int, str]:
        """Copy the agent there, run it once, remove it, and give its exit code and standard output.

        Args:
            arguments: Of the agent, which ends by itself, or when its standard input is closed with the connection.
            on_line: Is told each line of its standard error.

        Raises:
            MachineError: It cannot be run there.
        """
        content = await asyncio.to_thread(find_agent().read_bytes)
        async with self.connect() as connection:
            await self._look(connection)
            async with self._remote_folder(connection) as folder:
                remote_agent = f"{folder}/stealtime-agent"
                await self._copy(connection, content, remote_agent)
                shell = MarkedShell()
                remove = shlex.quote(f"rm -rf -- {shlex.quote(folder)}")
                script = f"trap {remove} EXIT; {shlex.join([remote_agent, *arguments])}"
                try:
                    process = await connection.create_process(shell.command(script), encoding=None)
                    output, _ = await asyncio.gather(process.stdout.read(), _tell_lines(process.stderr, on_line))
                    await process.wait_closed()
                except (asyncssh.Error, OSError) as error:
                    raise self._error(f"the agent on {self.host} was lost: {error}", "is the link cut?") from error
        told = shell.output(_text(output))
        if told is None or process.exit_status is None:
            said = _exit_text(process) or "the session is closed"
            raise self._error(f"the agent on {self.host} told nothing: {said}", f"is {folder} mounted noexec?")
        return process.exit_status, told

    @asynccontextmanager
    async def connect(self, lost_after_s: float | None = None) -> AsyncIterator[asyncssh.SSHClientConnection]:
        """Log in there.

        Args:
            lost_after_s: How long a host that answers nothing is waited for; it is asked three times meanwhile. None:
                nothing is asked, so that a machine that is measured has nothing more to do.

        Raises:
            MachineError: The host cannot be reached, is not the one that is known, or refuses us.
        """
        options: dict[str, Any] = {"connect_timeout": _CONNECT_WITHIN_S, "login_timeout": _CONNECT_WITHIN_S}
        if self.user is not None:
            options["username"] = self.user
        if self.port is not None:
            options["port"] = self.port
        if lost_after_s is not None:
            options["keepalive_interval"] = lost_after_s / (_KEEPALIVES + 1)
            options["keepalive_count_max"] = _KEEPALIVES
        try:
            connection = await asyncssh.connect(self.host, **options)
        except asyncssh.HostKeyNotVerifiable as error:
            raise self._error(
                f"the key of {self.host} is not trusted: {error.reason}",
                f"connect once with `ssh {self.address}` and compare the key",
            ) from error
        except asyncssh.PermissionDenied as error:
            raise self._error(
                f"{self.host} refuses the user {self.user or 'that ssh would take'}: {error.reason}",
                f"make `ssh {self.address} true` work without a password (ssh-copy-id)",
            ) from error
        except (TimeoutError, asyncssh.Error, OSError) as error:
            # The event loop puts its own text into `strerror`; the number is the kernel's word.
            number = error.errno if isinstance(error, OSError) else None
            why = os.strerror(number) if number else getattr(error, "reason", "") or str(error) or "no answer"
            raise self._error(
                f"{self.host} cannot be reached over ssh: {why}", f"look whether `ssh {self.address} true` works"
            ) from error
        async with connection:
            yield connection

    async def _look(self, connection: asyncssh.SSHClientConnection) -> RemoteHost:
        said = await self._command(connection, ASK_HOST, "it cannot be asked what it is")
        host = parse_host(said)
        words = host.system.split()
        if len(words) != 3 or words[0] != "Linux" or words[2] not in ("x86_64", "amd64"):
            raise self._error(
                f"{self.host} is {host.system or 'silent'}, not x86-64 Linux", "measure an x86-64 Linux machine"
            )
        return host

    def _watch_the_link(
        self, connection: asyncssh.SSHClientConnection, host: RemoteHost, request: MachineRequest
    ) -> None:
        """Notice a link that is cut while a trial runs, and not only when it should be over."""
        if request.lost_after_s is None or not can_answer(request, host.cpus):
            return
        connection.set_keepalive(request.lost_after_s / (_KEEPALIVES + 1), _KEEPALIVES)
        # What is under way when the link breaks is sent again for a quarter of an hour otherwise (tcp(7)).
        link = connection.get_extra_info("socket")
        if link is not None:
            with contextlib.suppress(OSError):
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(request.lost_after_s * 1000))

    @asynccontextmanager
    async def _remote_folder(self, connection: asyncssh.SSHClientConnection) -> AsyncIterator[str]:
        folder = await self._command(connection, _MAKE_FOLDER, "no temporary folder can be made there")
        if not folder.startswith("/") or "\n" in folder:
            raise self._error(f"{self.host} answered {folder!r} instead of a folder", "does mktemp work there?")
        try:
            yield folder
        finally:
            # Also when we are being cancelled: nothing is left on other people's machines.
            await asyncio.shield(self._remove(connection, folder))

    async def _remove(self, connection: asyncssh.SSHClientConnection, folder: str) -> None:
        try:
            async with asyncio.timeout(_END_WITHIN_S):
                await connection.run(f"rm -rf -- {shlex.quote(folder)}", check=True)
        except (asyncssh.Error, OSError, TimeoutError) as error:
            logger.warning("the folder %s on %s was not removed: %s", folder, self.host, error)

    async def _copy(self, connection: asyncssh.SSHClientConnection, content: bytes, remote_agent: str) -> None:
        # Through the shell's standard input: not every server offers SFTP.
        quoted = shlex.quote(remote_agent)
        command = f"cat > {quoted} && chmod 700 {quoted}"
        await self._command(connection, command, "the agent cannot be copied there", content)

    async def _command(
        self, connection: asyncssh.SSHClientConnection, command: str, failure: str, content: bytes | None = None
    ) -> str:
        shell = MarkedShell()
        try:
            async with asyncio.timeout(_COMMAND_WITHIN_S):
                done = await connection.run(shell.command(command), input=content, encoding=None)
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise self._error(
                f"{failure} ({self.host}): {error or 'no answer'}", "is its login shell usable?"
            ) from error
        if done.exit_status != 0:
            said = _text(done.stderr) or f"exit status {done.exit_status}"
            raise self._error(f"{failure} ({self.host}): {said}", "is its temporary folder writable and not full?")
        output = shell.output(_text(done.stdout))
        if output is None:
            raise self._error(
                f"{failure} ({self.host}): its login shell did not run the command but said "
                f"{_text(done.stdout)[-_SHOWN_LETTERS:]!r}",
                f"does `ssh {self.address} 'echo yes'` say yes?",
            )
        return output

    @asynccontextmanager
    async def _serving(
        self, connection: asyncssh.SSHClientConnection, command: str, log: Path, within_s: float
    ) -> AsyncIterator["asyncssh.SSHClientProcess[bytes]"]:
        shell = MarkedShell()
        try:
            # asyncssh writes the remote standard error into the file as it comes.
            process = await connection.create_process(shell.opening(command), encoding=None, stderr=str(log))
        except (asyncssh.Error, OSError) as error:
            raise self._error(
                f"the agent cannot be started on {self.host}: {error}", "is its login shell usable?"
            ) from error
        try:
            # Frames begin after our own line; what the login shell says comes before. Without it the agent never
            # started, which its silence tells.
            with contextlib.suppress(asyncio.IncompleteReadError, TimeoutError):
                async with asyncio.timeout(within_s):
                    await process.stdout.readuntil(shell.beginning)
            yield process
        finally:
            with contextlib.suppress(asyncssh.Error, OSError, TimeoutError):
                process.close()
                async with asyncio.timeout(_END_WITHIN_S):
                    await process.wait_closed()

    @property
    def address(self) -> str:
        """What a person gives ``ssh`` to come there."""
        user = f"{self.user}@" if self.user else ""
        return f"{'-p ' + str(self.port) + ' ' if self.port else ''}{user}{self.host}"

    @staticmethod
    def _error(message: str, hint: str) -> MachineError:
        return MachineError(message, hint=hint)


def can_answer(request: MachineRequest, cpus: CpuSets | None) -> bool:
    """Tell whether a host's ssh server can answer while it is measured.

    It answers on a CPU that is not measured. Where there is no other, a busy probe under SCHED_FIFO may keep the server
    from answering for as long as the trial lasts, and silence would say nothing. One that may roam over several is a
    thread on one of them at a time; and what uses all of them at once is scheduled like the server, or leaves it time.

    Args:
        request: What is booted there.
        cpus: Of the host; None where it did not tell.
    """
    measured = set(request.vcpu_cpus[-1])
    has_others = cpus is not None and not measured.issuperset(cpus.granted)
    return has_others or len(measured) > 1 or not request.realtime


@dataclass(frozen=True)
class _Reader:
    """Where the agent's bytes come from; a link that is lost is the ``OSError`` that it would be on a socket."""

    stream: "asyncssh.SSHReader[bytes]"

    async def read(self, n: int = -1, /) -> bytes:
        try:
            return await self.stream.read(n)
        except asyncssh.Error as error:
            raise ConnectionResetError(str(error)) from error


@dataclass(frozen=True)
class _Writer:
    """Where bytes for the agent go, likewise."""

    stream: "asyncssh.SSHWriter[bytes]"

    def write(self, data: bytes, /) -> None:
        try:
            self.stream.write(data)
        except asyncssh.Error as error:
            raise ConnectionResetError(str(error)) from error

    async def drain(self) -> None:
        try:
            await self.stream.drain()
        except asyncssh.Error as error:
            raise ConnectionResetError(str(error)) from error

    def close(self) -> None:
        self.stream.close()


@dataclass
class _SshMachine:
    """See ``platforms.model.Machine``."""

    platform: str
    connection: AgentConnection
    boot: BootRecord
    measured_cpus: tuple[int, ...]
    serial_log: Path | None
    emulator_trace: Path | None
    agent_facts: Facts
    process: "asyncssh.SSHClientProcess[bytes]"
    cpu_group: CpuGroup | None = None

    def threads(self) -> list[HostThread]:
        """None of our own host: who measures there stands in the trial's placement."""
        return []

    def tsc_offset(self) -> Reading:
        return NO_TSC_OFFSET

    def exit_reason(self) -> str | None:
        return _exit_text(self.process)

    async def hypervisor_counters(self) -> CountersLook | Absent:
        """None: a virtual machine or not, its host is not ours to ask."""
        return Absent(absent="the host of a machine over ssh is not asked")


async def _tell_lines(stderr: "asyncssh.SSHReader[bytes]", on_line: Callable[[str], None]) -> None:
    async for line in stderr:
        on_line(_text(line))


def _exit_text(process: "asyncssh.SSHClientProcess[bytes]") -> str | None:
    if process.exit_signal is not None:
        return f"the agent was ended by SIG{process.exit_signal[0]}"
    if process.exit_status is not None:
        return f"the agent ended with exit code {process.exit_status}"
    return "the ssh session is closed" if process.is_closing() else None


async def _describe_end(process: "asyncssh.SSHClientProcess[bytes]", log: Path) -> str | None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2.0):
            await process.wait_closed()
    ended = _exit_text(process)
    return f"{ended}; {log_tail(log)}" if ended is not None else None


def _text(content: bytes | str | None) -> str:
    return content.decode(errors="replace").strip() if isinstance(content, bytes) else (content or "").strip()
