"""The weight of the host side: how much of the CPUs it gets where guests, phones and others want them, too.

The host side is what Xen has in domain 0: members, daemons, and the threads of QEMU that are no virtual CPU. It is put
into a CPU group with a weight; virtual CPUs stay outside. Version 1 of cgroups groups threads. Version 2 groups whole
processes, so there QEMU stays outside as a whole, and members and daemons alone are weighed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stealtime.hosts.members_here import HostProcess
from stealtime.hosts.process_times import times_by_thread_ns
from stealtime.lab.platforms.cgroup import CpuGroup
from stealtime.lab.platforms.failure import CpuGroupError
from stealtime.lab.platforms.quotas import group_of

_OWN_GROUPS = Path("/proc/self/cgroup")
_ROUNDS_MAX = 10
"""Of putting processes out of a group, each of which may have started another one."""


@dataclass(frozen=True)
class HostSide:
    """A group for the host side.

    Attributes:
        group: It, with its weight.
        outside: The group where virtual CPUs belong.
    """

    group: CpuGroup
    outside: Path

    @classmethod
    def of(cls, group: CpuGroup) -> "HostSide":
        """Have virtual CPUs stay where we are."""
        outside = group_of(_OWN_GROUPS.read_text(), group.hierarchy)
        return cls(group, group.hierarchy.root if outside is None else outside)

    @property
    def held(self) -> str:
        """What of the host side the group can hold, in words."""
        return "members and daemons" if self.group.hierarchy.version == 2 else "members, daemons and threads of QEMU"

    def take(self, processes: Iterable[HostProcess]) -> None:
        """Put the host side into the group, and virtual CPUs out of it.

        What is started later begins in the group of who starts it.

        Raises:
            CpuGroupError: The kernel refuses.
        """
        for process in processes:
            if self.group.hierarchy.version == 2:
                _move(process.pid, (self.outside if process.vcpus else self.group.path) / "cgroup.procs")
                continue
            for tid in times_by_thread_ns(process.pid):
                _move(tid, (self.outside if tid in process.vcpus else self.group.path) / "tasks")

    def release(self) -> None:
        """Put out of the group whatever is in it, also what was started by others since; it can then be removed.

        Raises:
            CpuGroupError: The kernel refuses.
        """
        processes = self.group.path / "cgroup.procs"
        # One that is just being started by another one may have come in meanwhile.
        for _ in range(_ROUNDS_MAX):
            found = processes.read_text().split()
            if not found:
                return
            for pid in found:
                _move(int(pid), self.outside / "cgroup.procs")


def _move(number: int, file: Path) -> None:
    try:
        file.write_text(str(number))
    except ProcessLookupError:
        pass  # it has ended meanwhile
    except OSError as error:
        raise CpuGroupError(
            f"{file} does not take {number}: {error.strerror}",
            hint="leave out host_weight, or run where CPU groups may be written",
        ) from error
