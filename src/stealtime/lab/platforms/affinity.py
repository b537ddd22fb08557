"""CPU affinity of threads on the host: set, then read back from the kernel."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from stealtime.lab.platforms.failure import MachineError
from stealtime.lab.platforms.shown_ids import shown_process, threads_of
from stealtime.vocabulary.readings import STRICT

Role = Literal["vcpu", "emulator", "agent", "control", "neighbour"]


@dataclass(frozen=True)
class HostThread:
    """A thread of the host that belongs to a machine, and the CPUs it was seen to be allowed on."""

    __pydantic_config__ = STRICT

    role: Role
    name: str
    tid: int
    """As ``/proc`` shows it, and the kernel's trace where ``/proc`` is that of the initial PID namespace."""
    cpus: tuple[int, ...]
    """Read back from the kernel after it was set."""


def pin_thread(tid: int, cpus: Iterable[int]) -> None:
    """Let a thread run on these CPUs only.

    Raises:
        MachineError: The kernel refuses.
    """
    wanted = sorted(cpus)
    try:
        os.sched_setaffinity(tid, wanted)
    except OSError as error:
        raise MachineError(
            f"thread {tid} cannot be put on CPU {format_cpus(wanted)}: {error.strerror}",
            hint="choose CPUs that this process may use (`nproc`, `taskset -p $$`)",
        ) from error


def list_threads(pid: int, role_of: dict[int, Role] | None = None, default: Role = "emulator") -> list[HostThread]:
    """Give the threads of a process with the CPUs that the kernel allows them now; none if it is gone."""
    try:
        return list_shown_threads(shown_process(pid), role_of, default)
    except MachineError:
        return []


def list_shown_threads(
    shown: int | str, role_of: dict[int, Role] | None = None, default: Role = "emulator"
) -> list[HostThread]:
    """Give the threads of a process that goes by another id in ``/proc``; as :func:`list_threads`."""
    roles = role_of or {}
    threads = []
    for folder, tid in threads_of(shown):
        try:
            cpus = tuple(sorted(os.sched_getaffinity(tid)))
            name = (folder / "comm").read_text("utf-8", "replace").strip()
        except (ProcessLookupError, FileNotFoundError):
            continue  # it ended meanwhile
        threads.append(HostThread(role=roles.get(tid, default), name=name, tid=int(folder.name), cpus=cpus))
    return threads


def format_cpus(cpus: Iterable[int]) -> str:
    """Write CPUs as the kernel's tools do: ``0,2,3``."""
    return ",".join(str(cpu) for cpu in sorted(cpus))
