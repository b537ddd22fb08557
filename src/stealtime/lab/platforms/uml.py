"""User-Mode Linux: a Linux kernel as a process of the host, its programs run directly on the CPU.

Debian's package ``user-mode-linux``. The guest's first serial line is one end of a socket pair whose other end is the
channel (about 78 MB/s); its console is the serial log. One virtual CPU; the time-stamp counter is the host's own.
``crates/fpstate`` is preloaded into it: without it no program of a guest runs where the processor has AMX.
"""

import asyncio
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import cache, partial
from pathlib import Path

import psutil

from stealtime.lab.image.initramfs import Initramfs, pack_initramfs
from stealtime.lab.libraries import find_library
from stealtime.lab.platforms.affinity import HostThread, list_shown_threads
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.cgroup import CpuGroup
from stealtime.lab.platforms.failure import MachineError
from stealtime.lab.platforms.leftovers import clear_leftovers, make_short_folder
from stealtime.lab.platforms.machine import (
    BootedMachine,
    await_agent,
    boot_record,
    describe_end,
    end_machine,
    own_cpu_group,
)
from stealtime.lab.platforms.model import Availability, Machine, MachineRequest
from stealtime.lab.platforms.process import GuestProcess, guarded
from stealtime.lab.platforms.qemu_devices import DISK_FOLDER, back_devices, files_of
from stealtime.lab.platforms.shown_ids import shown_process
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.readings import Absent
from stealtime.wire.connection import READ_BYTES, AgentConnection

PROGRAM = "linux.uml"

_INSTALL_HINT = "install the package user-mode-linux"


class UmlPlatform:
    """Direct execution under a paravirtual kernel."""

    name = "uml"

    async def check(self) -> Availability:
        """Usable where the program runs and the agent is installed."""
        program = shutil.which(PROGRAM)
        if program is None:
            return Availability(usable=False, reason=f"the program {PROGRAM} is not installed", hint=_INSTALL_HINT)
        try:
            version = _kernel_version(program)
            find_agent()
            _find_fpstate()
        except StealtimeError as error:
            return Availability(usable=False, reason=error.message, hint=error.hint)
        return Availability(usable=True, reason=f"{program} is Linux {version}")

    @asynccontextmanager
    async def boot(self, request: MachineRequest) -> AsyncIterator[Machine]:
        clear_leftovers()
        if len(request.vcpu_cpus) != 1:
            raise UsageError(
                f"the platform uml has one virtual CPU, {len(request.vcpu_cpus)} were asked for",
                hint="use a scenario with vcpus = 1 for this platform",
            )
        async with own_cpu_group(request) as group, self._boot_in(request, group) as machine:
            yield machine

    @asynccontextmanager
    async def _boot_in(self, request: MachineRequest, group: CpuGroup | None) -> AsyncIterator[Machine]:
        program = shutil.which(PROGRAM)
        if program is None:
            raise StealtimeError(f"the program {PROGRAM} is not installed", hint=_INSTALL_HINT)
        initramfs = pack_initramfs(find_agent())
        serial_log, emulator_log = request.folder / "serial.log", request.folder / "emulator.log"
        if unknown := [one.model.name for one in request.devices if one.model.name != "ubd"]:
            raise UsageError(
                f"a guest of User-Mode Linux cannot have the device model {unknown[0]!r}",
                hint="see the models of each platform in docs/devices.md",
            )
        ours, theirs = socket.socketpair()
        files = ExitStack()
        temporary = make_short_folder()
        process: GuestProcess | None = None
        connection: AgentConnection | None = None
        graceful = False
        try:
            backed = await asyncio.to_thread(back_devices, request.devices, DISK_FOLDER, files)
            with theirs, serial_log.open("wb") as console, _find_fpstate().open("rb") as fpstate:
                argv = uml_arguments(
                    program,
                    memory_bytes=request.memory_bytes,
                    initramfs=initramfs.path,
                    channel=theirs.fileno(),
                    temporary=temporary,
                    fpstate=fpstate.fileno(),
                )
                argv += disk_arguments(files_of(backed))
                started = time.monotonic()
                # All of it is the guest: the kernel's process and one process for each of its address spaces.
                process = await GuestProcess.start(
                    guarded(
                        argv,
                        cpus=request.vcpu_cpus[0],
                        pid_namespace=True,
                        cgroups=[] if group is None else [group.path],
                    ),
                    name=PROGRAM,
                    log=emulator_log,
                    stdout=console,
                    pass_fds=(theirs.fileno(), fpstate.fileno(), *files_of(backed)),
                )
            reader, writer = await asyncio.open_connection(sock=ours, limit=READ_BYTES)
            connection = AgentConnection(
                reader, writer, peer=self.name, describe_end=partial(describe_end, process, serial_log)
            )
            hello = await await_agent(self.name, connection, process, request, (serial_log, emulator_log))
            yield BootedMachine(
                platform=self.name,
                connection=connection,
                boot=boot_record(process.argv, started, _facts(program, initramfs)),
                measured_cpus=(0,),
                cpu_group=group,
                serial_log=serial_log,
                agent_facts=hello.facts,
                process=process,
                list_threads=partial(_list_threads, process.pid),
                count_exits=Absent(absent="User-Mode Linux runs as processes of the host, without a hypervisor"),
            )
            graceful = True
        finally:
            try:
                if process is not None and connection is not None:
                    await end_machine(connection, process, graceful=graceful)
                elif process is not None:
                    await process.end()
            finally:
                ours.close()
                files.close()
                shutil.rmtree(temporary, ignore_errors=True)


def uml_arguments(
    program: str,
    *,
    memory_bytes: int,
    initramfs: Path,
    channel: int,
    temporary: Path,
    fpstate: int,
) -> list[str]:
    """Give the command line of a guest.

    Args:
        program: The UML kernel.
        memory_bytes: The guest's memory.
        initramfs: Its file system.
        channel: The descriptor, inherited by the process, that becomes ``/dev/ttyS0``.
        temporary: A folder with a short path for UML's own pid file and socket.
        fpstate: The descriptor, inherited by the process, of the library that is preloaded.
    """
    # Not by its path: the loader splits this variable at colons and spaces. What the user has it load stays.
    libraries = [f"/proc/self/fd/{fpstate}", *filter(None, [os.environ.get("LD_PRELOAD")])]
    return [
        *("env", f"LD_PRELOAD={':'.join(libraries)}"),
        program,
        f"mem={memory_bytes >> 20}M",
        f"initrd={initramfs}",
        f"uml_dir={temporary}",
        "umid=guest",
        "con=null",
        "con0=null,fd:1",
        "ssl=null",
        f"ssl0=fd:{channel}",
        "console=tty0",
        "noreboot",
        "panic=-1",
        "stealtime.channel=/dev/ttyS0",
    ]


def disk_arguments(disks: Sequence[int]) -> list[str]:
    """Give what a guest's command line has of disks, by the descriptors that the process inherits."""
    # As data: a guest that finds a file system header of its own would take it for one that is laid over another.
    return [f"ubd{number}d=/proc/self/fd/{descriptor}" for number, descriptor in enumerate(disks)]


def _find_fpstate() -> Path:
    return find_library(Path(__file__).parent, "stealtime_fpstate")


@cache
def _kernel_version(program: str) -> str:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StealtimeError(f"{program} cannot be run: {error}", hint=_INSTALL_HINT) from error
    if not (match := re.search(r"\d+\.\d+\S*", done.stdout)):
        raise StealtimeError(
            f"{program} --version says {done.stdout.strip()!r}, which is not a version", hint=_INSTALL_HINT
        )
    return match.group(0)


def _facts(program: str, initramfs: Initramfs) -> dict[str, str]:
    return {
        "accelerator": "direct execution (User-Mode Linux)",
        "kernel_image": program,
        "kernel_release": _kernel_version(program),
        "initramfs_sha256": initramfs.sha256,
    }


def kernel_threads(threads: Sequence[HostThread]) -> list[int]:
    """Give the threads of the guest's kernel: of the process that traces those which run the guest's programs."""
    tracers = {_tracer(thread.tid) for thread in threads}
    return sorted(thread.tid for thread in threads if thread.tid in tracers)


def _tracer(tid: int) -> int | None:
    try:
        status = Path(f"/proc/{tid}/status").read_text("utf-8", "replace")
    except OSError:
        return None  # it ended meanwhile
    found = re.search(r"^TracerPid:\s*(\d+)", status, re.MULTILINE)
    return int(found.group(1)) if found else None


def _list_threads(guard_pid: int) -> list[HostThread]:
    """Give the guest's threads: everything below the guard and the first process of its PID namespace."""
    try:
        descendants = psutil.Process(shown_process(guard_pid)).children(recursive=True)
    except (psutil.Error, MachineError):
        return []
    threads = []
    for process in descendants:
        try:
            is_guest = Path(process.exe()).name == PROGRAM
        except psutil.Error:
            continue  # it ended meanwhile
        if is_guest:
            threads.extend(list_shown_threads(process.pid, default="vcpu"))
    return threads
