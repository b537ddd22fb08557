"""A guarded child process: it ends with the control plane, however that ends.

Everything is started through ``stealtime-agent guard``, which asks the kernel to kill the child when its parent dies
(``PR_SET_PDEATHSIG``). That is bound to the *thread* that started it, so start processes from the event loop's thread,
never from a worker. A session of its own keeps Ctrl-C in the terminal away from the child: the control plane decides.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, BinaryIO, TypedDict, Unpack

import psutil

from stealtime._core import owner_of
from stealtime.lab.platforms.affinity import format_cpus
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.failure import MachineError

RUN_MARK = "STEALTIME_RUN"
"""The environment variable by which a later start knows our children, and whose they are."""

_END_PATIENCE_S = 5.0
"""SIGKILL takes ms; a process in an uninterruptible sleep may need longer."""


def run_mark() -> str:
    """Give the value of ``RUN_MARK`` for this control plane (``crates/owner`` says what stands in it)."""
    return owner_of()


def guarded(
    argv: Sequence[str], *, cpus: Iterable[int], pid_namespace: bool = False, cgroups: Iterable[Path] = ()
) -> list[str]:
    """Give the command line that runs ``argv`` on ``cpus`` so that it dies with this process.

    Args:
        argv: The command.
        cpus: Where all its threads start.
        pid_namespace: Also let all its descendants die with it; their pids then differ inside.
        cgroups: The control groups that it enters first.
    """
    options = [*(["--pid-namespace"] if pid_namespace else [])]
    for group in cgroups:
        options += ["--cgroup", str(group)]
    return [str(find_agent()), "guard", *options, "--", "taskset", "--cpu-list", format_cpus(cpus), *argv]


class StartedWith(TypedDict, total=False):
    """What a process is given by who starts it; streams are as of ``subprocess.Popen``, and none by default."""

    stdin: int
    stdout: int | IO[bytes]
    stderr: int | IO[bytes]
    environment: Mapping[str, str]
    """What it has beside our own environment."""


def start_marked(argv: Sequence[str], **given: Unpack[StartedWith]) -> psutil.Popen:
    """Start a process that a later start knows as ours; who starts it ends it."""
    return psutil.Popen(
        argv,
        stdin=given.get("stdin", subprocess.DEVNULL),
        stdout=given.get("stdout", subprocess.DEVNULL),
        stderr=given.get("stderr", subprocess.DEVNULL),
        env={**os.environ, **given.get("environment", {}), RUN_MARK: run_mark()},
        start_new_session=True,
    )


class GuestProcess:
    """A running child."""

    def __init__(self, process: asyncio.subprocess.Process, argv: Sequence[str], name: str) -> None:
        self._process = process
        self.argv = tuple(argv)
        self.name = name

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        name: str,
        log: Path,
        stdin: int = asyncio.subprocess.DEVNULL,
        stdout: int | BinaryIO = asyncio.subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
    ) -> "GuestProcess":
        """Start a command line as ``guarded`` gives it.

        Args:
            argv: The command line.
            name: The program's name, for messages.
            log: Where its standard error goes.
            stdin: As for ``asyncio.create_subprocess_exec``.
            stdout: Likewise.
            pass_fds: Descriptors that it inherits under the same numbers.

        Raises:
            MachineError: It cannot be started.
        """
        try:
            with log.open("wb") as stderr:
                process = await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=tuple(pass_fds),
                    env={**os.environ, RUN_MARK: run_mark()},
                    start_new_session=True,
                )
        except OSError as error:
            raise MachineError(f"{name} cannot be started: {error}") from error
        return cls(process, argv, name)

    @property
    def pid(self) -> int:
        """The process id of the guard, or of what the guard has become."""
        return self._process.pid

    @property
    def streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Its standard output and input, where both are pipes."""
        if self._process.stdout is None or self._process.stdin is None:
            raise ValueError(f"{self.name} was not started with pipes")
        return self._process.stdout, self._process.stdin

    def exit_text(self) -> str | None:
        code = self._process.returncode
        if code is None:
            return None
        # A guard with a PID namespace gives 128 + signal, as a shell does.
        number = -code if code < 0 else code - 128 if code > 128 else 0
        if number in signal.valid_signals():
            return f"{self.name} was ended by {signal.Signals(number).name}"
        return f"{self.name} ended with exit code {code}"

    async def wait(self, within_s: float) -> bool:
        """Wait for its end; tell whether it came in time."""
        try:
            async with asyncio.timeout(within_s):
                await self._process.wait()
        except TimeoutError:
            return False
        return True

    async def end(self, grace_s: float = 0.0) -> None:
        """See to it that it is gone: let it end by itself for ``grace_s``, then kill it."""
        if grace_s > 0 and await self.wait(grace_s):
            return
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        if not await self.wait(_END_PATIENCE_S):
            raise MachineError(f"{self.name} (pid {self.pid}) does not end, even by SIGKILL")
