"""Real hosts, lent to us over ssh: ``stealtime protect serve`` runs on each, and answers what it is asked.

Its standard input is what holds the loan: when that ends, also because we were killed or our connection was lost, the
host ends our machines and removes our images. Sessions live on an event loop; questions come from other threads.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import shlex
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import asyncssh

import stealtime
from stealtime.hosts.clock_offset import ClockOffset, Exchange
from stealtime.hosts.host import CpuTimes, FaultKind, NotProtectedError, Seen
from stealtime.hosts.lending import SILENT_FOR_S, VERSION
from stealtime.lab.platforms.failure import log_tail, read_tail
from stealtime.lab.platforms.ssh import SshPlatform
from stealtime.lab.platforms.ssh_shell import MarkedShell
from stealtime.protect.ending import parse_log_tail
from stealtime.protect.status import MemberStatus
from stealtime.vocabulary.errors import StealtimeError

logger = logging.getLogger(__name__)

_BEGINS_WITHIN_S = 60.0
"""A slow host loads Python, and ends first what an earlier campaign left."""
_ANSWERS_WITHIN_S = 60.0
_LOST_AFTER_S = 20.0
"""A host that is overloaded is slow to answer a question; its ssh server and the network are not that slow."""
_COPIED_WITHIN_S = 900.0
_ENDS_WITHIN_S = 60.0
_EXITS_WITHIN_S = 5.0
_EXCHANGES = 16
_NOT_FOUND, _NOT_EXECUTABLE, _WRONG_USAGE = 127, 126, 2
"""Exit codes: of a shell (POSIX, 2.8.2), and of a stealtime that has no such command."""

Result = TypeVar("Result")


@dataclass
class LentHost:
    """A host that answers, by the verbs of :class:`stealtime.hosts.host.Host`."""

    address: str
    """Where ssh reaches it."""
    connection: asyncssh.SSHClientConnection
    process: "asyncssh.SSHClientProcess[str]"
    log: Path
    """What it says besides answers."""
    name: str = ""
    """In the register."""
    endpoint: str = ""
    """Where its daemon receives machines."""
    images: tuple[Path, ...] = ()
    """The folders that its machines may boot from."""
    qemu: str = ""
    """Its version."""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def ask(self, command: str, *, within_s: float = _ANSWERS_WITHIN_S, **fields: Any) -> dict[str, Any]:
        """Have it carry out a command, and give its answer; from another thread than that of the event loop.

        Raises:
            NotProtectedError: It says so.
            StealtimeError: It refuses, is gone, or does not answer.
        """
        return self._from_outside(self.exchange(command, within_s, **fields))

    def start(self, machine: Mapping[str, Any]) -> None:
        self.ask("start", machine=dict(machine))

    def look(self, vm: str) -> Seen:
        told = self.ask("status", vm=vm)
        if told["member"] is not None:
            return Seen(MemberStatus.model_validate(told["member"]))
        return Seen(None, StealtimeError(told["ended"], hint=told["hint"]) if "ended" in told else None)

    def events(self, vm: str, event: str) -> list[dict[str, Any]]:
        return list(self.ask("events", vm=vm, event=event)["events"])

    def epochs(self, vm: str, from_ns: int) -> list[dict[str, int]]:
        return list(self.ask("epochs", vm=vm, from_ns=from_ns)["epochs"])

    def die(self, vm: str, pid: int, kind: FaultKind) -> int:
        return int(self.ask("die", vm=vm, pid=pid, kind=kind)["struck_ns"])

    def kill(self, vm: str) -> int:
        return int(self.ask("kill", vm=vm)["struck_ns"])

    def revive(self) -> None:
        """End what stands still; a host that is gone is told of in the log."""
        self._ask_in_vain("revive")

    def end(self, vm: str) -> None:
        """End what is here of a guest; a host that is gone is told of in the log."""
        self._ask_in_vain("end", vm=vm)

    def cpu_times(self) -> CpuTimes:
        told = self.ask("cpu")
        return CpuTimes(told["server_ns"], told["host_ns"], told["standby_ns"])

    def clock(self) -> ClockOffset:
        return self._from_outside(self._offset())

    def copy(self, source: Path, target: Path) -> None:
        self._from_outside(self._copy(source, target))

    async def exchange(self, command: str, within_s: float, **fields: Any) -> dict[str, Any]:
        """Do as :meth:`ask` does, on the event loop."""
        number = next(self._numbers)
        question = json.dumps({"number": number, "command": command, **fields})
        answer: dict[str, Any] = {}
        try:
            async with asyncio.timeout(within_s), self._asking:
                self.process.stdin.write(f"{question}\n")
                # One that came too late for the question before is nobody's.
                while answer.get("number") != number:
                    line = await self.process.stdout.readline()
                    if not line.endswith("\n"):
                        raise await self._ended()
                    answer = json.loads(line)
        except TimeoutError:
            raise StealtimeError(
                f"{self.address} has not answered {command!r} within {within_s:g} s", hint="is the host overloaded?"
            ) from None
        except (asyncssh.Error, OSError) as error:
            # Who ends at once has closed its input before anything is asked: the connection is as it was.
            ended = await self._ended()
            if self.process.exit_status is not None:
                raise ended from error
            raise StealtimeError(
                f"the connection to {self.address} was lost: {error}", hint="is it still there?"
            ) from error
        if "error" in answer:
            kind = NotProtectedError if answer.get("not_protected") else StealtimeError
            raise kind(f"{answer['error']} (says {self.address})", hint=answer.get("hint"))
        return answer

    async def greet(self) -> None:
        told = await self.exchange("hello", _BEGINS_WITHIN_S)
        if (told["version"], told["stealtime"]) != (VERSION, stealtime.__version__):
            raise StealtimeError(
                f"{self.address} has stealtime {told['stealtime']}, and this machine {stealtime.__version__}",
                hint="install the same version on both",
            )
        self.name = told["host"]
        self.endpoint = _reachable(told["listen"], self.address)
        self.images = tuple(map(Path, told["images"]))
        self.qemu = told["qemu"]

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(SILENT_FOR_S / 4)
            with contextlib.suppress(StealtimeError):
                await self.exchange("clock", _ANSWERS_WITHIN_S)

    async def give_back(self) -> None:
        """Give it back, and wait until nothing of ours is left there."""
        if self.process.exit_status is not None:
            return  # it has ended by itself
        try:
            async with asyncio.timeout(_ENDS_WITHIN_S):
                self.process.stdin.write_eof()
                await self.process.wait_closed()
        except (asyncssh.Error, OSError, TimeoutError) as error:
            logger.warning("it was not seen that %s is as it was before: %s", self.address, error or "no answer")

    def _ask_in_vain(self, command: str, **fields: Any) -> None:
        try:
            self.ask(command, **fields)
        except StealtimeError as error:
            logger.warning("%s was not seen to %s its guests: %s", self.address, command, error)

    def _from_outside(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _offset(self) -> ClockOffset:
        exchanges = []
        for _ in range(_EXCHANGES):
            before_ns = time.monotonic_ns()
            told = await self.exchange("clock", _ANSWERS_WITHIN_S)
            exchanges.append(Exchange(before_ns, time.monotonic_ns(), told["monotonic_ns"]))
        return ClockOffset.of(exchanges)

    async def _copy(self, source: Path, target: Path) -> None:
        # Through the shell's standard input, as the agent: not every server offers SFTP.
        try:
            async with asyncio.timeout(_COPIED_WITHIN_S):
                done = await self.connection.run(f"cat > {shlex.quote(str(target))}", stdin=source, encoding=None)
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise StealtimeError(f"{source.name} cannot be copied to {self.address}: {error or 'no answer'}") from error
        if done.exit_status is None:
            raise StealtimeError(
                f"the connection to {self.address} was lost while {source.name} was copied", hint="is it still there?"
            )
        if done.exit_status != 0:
            said = done.stderr.decode("utf-8", "replace").strip() if isinstance(done.stderr, bytes) else done.stderr
            raise StealtimeError(
                f"{source.name} cannot be copied to {target} at {self.address}: {said}", hint="is there room for it?"
            )

    async def _ended(self) -> StealtimeError:
        # Its streams end a little before its exit code comes.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EXITS_WITHIN_S):
                await self.process.wait_closed()
        match self.process.exit_status:
            case code if code in (_NOT_FOUND, _NOT_EXECUTABLE):
                return StealtimeError(
                    f"stealtime is not to be found at {self.address}: {log_tail(self.log)}",
                    hint="install it there, or name its path as `stealtime` under [define.hosts]",
                )
            case code if code == _WRONG_USAGE:
                return StealtimeError(
                    f"the stealtime at {self.address} cannot lend its host: {log_tail(self.log)}",
                    hint=f"install version {stealtime.__version__} there, as on this machine",
                )
        reason, hint = parse_log_tail(read_tail(self.log).splitlines())
        if reason is not None:
            return StealtimeError(f"{reason} (says {self.address})", hint=hint)
        return StealtimeError(f"{self.address} answers no more; {log_tail(self.log)}", hint="is it still there?")


@asynccontextmanager
async def lent_hosts(platforms: Sequence[SshPlatform], program: str, folder: Path) -> AsyncIterator[list[LentHost]]:
    """Borrow hosts; leaving the context gives all of them back at once.

    Args:
        platforms: Where they are.
        program: ``stealtime`` there.
        folder: For what they say.

    Raises:
        StealtimeError: One of them is not to be had.
    """
    async with AsyncExitStack() as connections:
        hosts: list[LentHost] = []
        try:
            for number, platform in enumerate(platforms):
                connection = await connections.enter_async_context(platform.connect(lost_after_s=_LOST_AFTER_S))
                log, shell = folder / f"host-{number}.log", MarkedShell()
                try:
                    process = await connection.create_process(
                        shell.opening(f"exec {shlex.quote(program)} protect serve"), encoding="utf-8", stderr=str(log)
                    )
                    # Before our own line the login shell speaks. Without it nothing was started, which is told below.
                    with contextlib.suppress(asyncio.IncompleteReadError, TimeoutError):
                        async with asyncio.timeout(_BEGINS_WITHIN_S):
                            await process.stdout.readuntil(shell.beginning.decode())
                except (asyncssh.Error, OSError) as error:
                    raise StealtimeError(f"nothing can be started at {platform.host}: {error}") from error
                hosts.append(LentHost(platform.host, connection, process, log))
                await hosts[-1].greet()
            keeping = [asyncio.ensure_future(host.keep()) for host in hosts]
            try:
                yield hosts
            finally:
                for task in keeping:
                    task.cancel()
        finally:
            # Also when we are being cancelled: nothing is left on other people's machines.
            await asyncio.shield(asyncio.gather(*(host.give_back() for host in hosts)))


def _reachable(listen: str, address: str) -> str:
    """Give where a daemon is reached: one that listens on all its addresses has none of them in its own words."""
    for everywhere in ("tcp:0.0.0.0:", "tcp:[::]:"):
        if listen.startswith(everywhere):
            return f"tcp:{address}:{listen.removeprefix(everywhere)}"
    return listen
