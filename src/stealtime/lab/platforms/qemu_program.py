"""The QEMU that is installed: where it is, which version, what its processors offer."""

import functools
import re
import shutil
import socket
import subprocess

from stealtime.lab.platforms.leftovers import temporary_folder
from stealtime.lab.platforms.process import GuestProcess, guarded
from stealtime.lab.platforms.qemu_monitor import QemuMonitor
from stealtime.vocabulary.errors import StealtimeError

PROGRAM = "qemu-system-x86_64"
INSTALL_HINT = "install the package qemu-system-x86"

_OLDEST_VERSION = (7, 2)
"""The oldest that our command lines were tried with (Debian 12); older ones may not know an option."""

_cpu_properties: dict[tuple[str, str], frozenset[str]] = {}


def find_qemu() -> str:
    """Give the path of QEMU.

    Raises:
        StealtimeError: It is not installed.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise StealtimeError(f"the program {PROGRAM} is not installed", hint=INSTALL_HINT)
    return program


@functools.cache
def qemu_version(program: str) -> str:
    """Give the version text of a QEMU binary: ``7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)``.

    Raises:
        StealtimeError: It cannot be run, or is too old for our command line.
    """
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StealtimeError(f"{program} cannot be run: {error}", hint=INSTALL_HINT) from error
    return parse_version(program, done.stdout)


def parse_version(program: str, said: str) -> str:
    """Read the first line of ``qemu-system-x86_64 --version``.

    Raises:
        StealtimeError: It holds no version, or one that is too old.
    """
    match = re.search(r"version ((\d+)\.(\d+)\S*(?: \([^)]*\))?)", said)
    if match is None:
        raise StealtimeError(f"{program} --version says {said.strip()!r}, which is not a version", hint=INSTALL_HINT)
    if (int(match.group(2)), int(match.group(3))) < _OLDEST_VERSION:
        oldest = ".".join(str(part) for part in _OLDEST_VERSION)
        raise StealtimeError(f"{program} is version {match.group(1)}, older than {oldest}", hint="install a newer QEMU")
    return match.group(1)


async def cpu_properties(program: str, cpu: int) -> frozenset[str]:
    """Ask QEMU which properties its processors have; asked once for each version.

    Args:
        program: The QEMU binary.
        cpu: Where the short-lived QEMU may run.

    Raises:
        StealtimeError: It cannot be asked.
    """
    key = (program, qemu_version(program))
    if key not in _cpu_properties:
        _cpu_properties[key] = await _ask_cpu_properties(program, cpu)
    return _cpu_properties[key]


async def _ask_cpu_properties(program: str, cpu: int) -> frozenset[str]:
    ours, theirs = socket.socketpair()
    argv = [program, "-machine", "none", "-nodefaults", "-no-user-config", "-display", "none"]
    argv += ["-chardev", f"socket,id=qmp,fd={theirs.fileno()}", "-mon", "chardev=qmp,mode=control"]
    monitor = QemuMonitor("stealtime-question")
    with temporary_folder() as folder, ours:
        with theirs:
            process = await GuestProcess.start(
                guarded(argv, cpus=(cpu,)),
                name="QEMU",
                log=folder / "emulator.log",
                pass_fds=(theirs.fileno(),),
            )
        try:
            await monitor.connect(ours)
            return await monitor.cpu_properties()
        finally:
            await process.end()
            await monitor.close()
