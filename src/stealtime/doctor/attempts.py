"""Checks by trying, where nothing can be read: real-time priority, locked memory, performance counters, tracefs."""

import ctypes
import mmap
import os
import resource
import shutil
import struct
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from stealtime._core import hypervisor_signature
from stealtime.doctor.resting_memory import RestedPages, rest_pages
from stealtime.lab.processors import CpuSets, read_cpu_sets

_PERF_EVENT_OPEN_SYSCALL = 298  # x86-64, arch/x86/entry/syscalls/syscall_64.tbl
_PERF_ATTR_BYTES = 128  # PERF_ATTR_SIZE_VER7, include/uapi/linux/perf_event.h
_PERF_ATTR_DISABLED_EXCLUDE_KERNEL_AND_HYPERVISOR = 1 | 1 << 5 | 1 << 6
PERF_TYPES = {"hardware": 0, "software": 1}
"""``perf_event_attr.type``; config 0 of them is the CPU's cycles and the CPU's clock."""

KERNEL_FILE_SYSTEMS = {"tracefs": "/sys/kernel/tracing", "debugfs": "/sys/kernel/debug"}
"""Where the kernel keeps an empty folder for each of them."""


@dataclass(frozen=True)
class Attempt:
    """What came of trying: ``text`` is what the kernel said, or what was got."""

    succeeded: bool
    text: str
    hint: str | None = None
    """What would help, where that is known."""


class Attempts(Protocol):
    """The tries; the tests have their own, for machines that are not here."""

    def sched_fifo(self) -> Attempt: ...

    def realtime_priority_limit(self) -> int:
        """The soft limit RLIMIT_RTPRIO; -1 is unlimited."""
        ...

    def lock_memory(self, size_bytes: int) -> Attempt: ...

    def perf_event(self, kind: str) -> Attempt:
        """Try to open a counter of one of ``PERF_TYPES`` on this process."""
        ...

    def kernel_files(self, kind: str, names: Sequence[str]) -> Attempt:
        """Read files of one of ``KERNEL_FILE_SYSTEMS``, mounted out of everybody's sight if it is not mounted."""
        ...

    def program(self, name: str) -> Path | None: ...

    def run(self, argv: Sequence[str]) -> Attempt: ...

    def free_bytes(self, folder: Path) -> int:
        """Free space for this user where ``folder`` is or would be."""
        ...

    def hypervisor_signature(self) -> str | None:
        """The hypervisor that the CPU reports; None if it reports none."""
        ...

    def rest_pages(self) -> RestedPages:
        """Touch pages that rested for half a second."""
        ...

    def cpu_sets(self) -> CpuSets:
        """Which CPUs this process was started on, and which the kernel would let it have."""
        ...


class RealAttempts:
    """Tries on this machine and leaves nothing changed."""

    def sched_fifo(self) -> Attempt:
        """Set the policy of a thread that ends at once; Linux keeps a policy for each thread."""
        with ThreadPoolExecutor(max_workers=1) as short_lived:
            return short_lived.submit(_become_sched_fifo).result()

    def hypervisor_signature(self) -> str | None:
        return hypervisor_signature()

    def rest_pages(self) -> RestedPages:
        return rest_pages()

    def cpu_sets(self) -> CpuSets:
        """Ask for all of them on a thread that ends at once."""
        return read_cpu_sets()

    def realtime_priority_limit(self) -> int:
        """Read the soft limit of this process."""
        return resource.getrlimit(resource.RLIMIT_RTPRIO)[0]

    def lock_memory(self, size_bytes: int) -> Attempt:
        libc = ctypes.CDLL(None, use_errno=True)
        with mmap.mmap(-1, size_bytes) as memory:
            view = ctypes.c_char.from_buffer(memory)
            failed = libc.mlock(ctypes.byref(view), ctypes.c_size_t(size_bytes))
            del view  # an mmap with a view on it refuses to be closed
        if failed:
            return Attempt(succeeded=False, text=os.strerror(ctypes.get_errno()))
        return Attempt(succeeded=True, text=f"locked {size_bytes >> 20} MiB")

    def perf_event(self, kind: str) -> Attempt:
        """Open a counter, user space only, and close it."""
        libc = ctypes.CDLL(None, use_errno=True)
        attributes = bytearray(_PERF_ATTR_BYTES)
        struct.pack_into("<IIQ", attributes, 0, PERF_TYPES[kind], _PERF_ATTR_BYTES, 0)
        struct.pack_into("<Q", attributes, 40, _PERF_ATTR_DISABLED_EXCLUDE_KERNEL_AND_HYPERVISOR)
        buffer = (ctypes.c_char * _PERF_ATTR_BYTES).from_buffer(attributes)
        descriptor = libc.syscall(_PERF_EVENT_OPEN_SYSCALL, buffer, 0, -1, -1, ctypes.c_ulong(0))
        if descriptor < 0:
            return Attempt(succeeded=False, text=os.strerror(ctypes.get_errno()))
        os.close(descriptor)
        return Attempt(succeeded=True, text="opened")

    def kernel_files(self, kind: str, names: Sequence[str]) -> Attempt:
        """Read where it is mounted, else in a mount namespace that only the reader sees."""
        folder = KERNEL_FILE_SYSTEMS[kind]
        if os.path.ismount(folder):
            read = self.run(["cat", *(f"{folder}/{name}" for name in names)])
        else:
            script = f'mount -t {kind} {kind} {folder} && cd {folder} && exec cat "$@"'
            read = self.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *names])
        if not read.succeeded and read.text.startswith(("unshare:", "mount:")):
            return replace(read, hint="run as root, outside of any container: sudo stealtime doctor")
        if not read.succeeded and os.geteuid() != 0:
            return replace(read, hint="run as root: sudo stealtime doctor")
        return read

    def program(self, name: str) -> Path | None:
        """Look on PATH and in the folders of system programs, which are not on every user's PATH."""
        found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]))
        return Path(found) if found else None

    def run(self, argv: Sequence[str]) -> Attempt:
        """Run without input for at most ten seconds."""
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Attempt(succeeded=False, text=str(error))
        output = done.stdout if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"
        return Attempt(succeeded=done.returncode == 0, text=output.strip())

    def free_bytes(self, folder: Path) -> int:
        """Ask the nearest folder that is there."""
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free


def _become_sched_fifo() -> Attempt:
    lowest = os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO))
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, lowest)
    except OSError as error:
        return Attempt(succeeded=False, text=error.strerror or str(error))
    if os.sched_getscheduler(0) != os.SCHED_FIFO:
        return Attempt(succeeded=False, text="the kernel accepted the request but did not apply it")
    return Attempt(succeeded=True, text="a thread was SCHED_FIFO")
