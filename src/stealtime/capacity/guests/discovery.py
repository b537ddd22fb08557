"""Finds the guests of this host, whoever started them.

A guest under KVM is known by what its process holds (``kvm_holders``). Guests of User-Mode Linux and of QEMU without
KVM are known by their command lines, and so are QEMU's of other users where this is not run as root.
"""

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from stealtime.capacity.counters.files import KernelFile, OpenFiles
from stealtime.capacity.guest import Guest
from stealtime.capacity.guests.command_line import presentable, read_guest, read_kvm_holder
from stealtime.capacity.guests.kvm_holders import count_vcpus

_SETTLED_SAMPLES = 5
"""A process that is being started is another program first: it is looked at again so many times."""
_LIST_AGAIN_SAMPLES = 10
_HOLDERS_AGAIN_SAMPLES = 60
"""A process that waits to be told to make a guest (Firecracker does) is another one only then: each is looked at again
so seldom, a few with every sample."""
_VHOST = re.compile(r"vhost-(\d+)$")
"""How the kernel calls a thread that moves data for a guest: before Linux 6.4 it is none of the guest's process."""
_LOADAVG_BYTES = 96
_START_FIELD = 19
"""Field 22 of proc_pid_stat(5), counted behind the name."""


class Discovery:
    """Looks at each process a few times, and after that only at new ones.

    Processes are listed where the kernel has given an id away since they were: the last one stands in
    proc_loadavg(5). It is that of the reader's own PID namespace, so they are listed now and then anyway.

    Args:
        proc: The kernel's ``/proc``.
        files: Counts the descriptors.
    """

    def __init__(self, proc: Path, files: OpenFiles) -> None:
        self._proc = os.fspath(proc)
        self._files = files
        self._load: KernelFile | None = None
        self._looks: dict[int, int] = {}
        self._guests: dict[int, Guest] = {}
        self._last_pid = b""
        self._until_list = 0
        self._programs_at_once = 1
        self._found: dict[tuple[int, int], Guest] = {}
        self._programs: list[int] = []
        """Those that are no guest, in turn."""
        self._vhosts: dict[int, int] = {}
        """The guest's process, by that of the kernel's thread."""

    def find(self) -> dict[tuple[int, int], Guest]:
        """Give the guests that run now, by key; one that has ended since the last look may still be among them.

        Raises:
            OSError: There is no ``/proc``.
        """
        last_pid = self._read_last_pid()
        self._until_list -= 1
        if self._until_list <= 0 or not last_pid or last_pid != self._last_pid:
            self._list()
            is_settled = all(looks >= _SETTLED_SAMPLES for pid, looks in self._looks.items() if pid not in self._guests)
            self._until_list = _LIST_AGAIN_SAMPLES if is_settled else 0
            self._last_pid = last_pid
        self._look_again()
        return self._found

    def helpers(self, pid: int) -> Collection[int]:
        """Give the threads that the kernel runs for a guest outside of its process."""
        return [thread for thread, owner in self._vhosts.items() if owner == pid] if self._vhosts else ()

    def close(self) -> None:
        if self._load is not None:
            self._load.close()
            self._load = None

    def _read_last_pid(self) -> bytes:
        try:
            if self._load is None:
                self._load = self._files.open(f"{self._proc}/loadavg")
            return self._load.read_short(_LOADAVG_BYTES).rpartition(b" ")[2]
        except OSError:
            return b""

    def _list(self) -> None:
        pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208 - it is hot
        for known in (self._looks, self._guests, self._vhosts):
            for pid in known.keys() - pids:
                del known[pid]
        for pid in pids:
            looks = self._looks.get(pid, 0)
            if pid in self._guests or looks >= _SETTLED_SAMPLES:
                continue
            self._looks[pid] = looks + 1
            if (guest := self._look(pid)) is not None:
                self._guests[pid] = guest
        self._programs = [pid for pid in self._programs if pid in self._looks]
        self._found = {guest.key: guest for guest in self._guests.values()}

    def _look_again(self) -> None:
        """See whether one of the programs that are no guest has become one since."""
        if not self._programs:
            self._programs = [pid for pid in self._looks if pid not in self._guests and pid not in self._vhosts]
            self._programs_at_once = -(-len(self._programs) // _HOLDERS_AGAIN_SAMPLES)
        turn, self._programs = self._programs[: self._programs_at_once], self._programs[self._programs_at_once :]
        for pid in turn:
            if pid not in self._guests and count_vcpus(self._proc, pid) and (guest := self._look(pid)) is not None:
                self._guests[pid] = guest
                self._found = {**self._found, guest.key: guest}

    def forget(self, guest: Guest) -> None:
        """Look at a process id anew: the guest that had it has ended."""
        self._guests.pop(guest.pid, None)
        self._looks.pop(guest.pid, None)
        self._until_list = 0

    def _look(self, pid: int) -> Guest | None:
        try:
            with open(f"{self._proc}/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - it is hot
                argv = file.read().decode("utf-8", "replace").rstrip("\0").split("\0")
        except OSError:
            return None  # it ended meanwhile
        if not argv[0]:
            self._look_at_kernel_thread(pid)
            return None
        found = self._guest_of(pid, argv)
        return None if found is None else replace(found, name=self._name_apart(presentable(found.name), pid))

    def _name_apart(self, name: str, pid: int) -> str:
        """Give a name that no other guest has; one may be called as another one would be told apart."""
        taken = {other.name for other_pid, other in self._guests.items() if other_pid != pid}
        while name in taken:
            name = f"{name}-{pid}"
        return name

    def _guest_of(self, pid: int, argv: Sequence[str]) -> Guest | None:
        if count_vcpus(self._proc, pid):
            return read_kvm_holder(pid, self._started_ticks(pid), argv, self._folder(pid))
        guest = read_guest(pid, 0, argv)
        if guest is None or (guest.kind == "uml" and self._is_child_of_uml(pid)):
            return None
        return read_guest(pid, self._started_ticks(pid), argv, self._folder(pid))

    def _look_at_kernel_thread(self, pid: int) -> None:
        try:
            with open(f"{self._proc}/{pid}/comm", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - it is hot
                name = file.read().strip()
        except OSError:
            return  # it ended meanwhile
        if (vhost := _VHOST.match(name)) is not None:
            self._vhosts[pid] = int(vhost[1])

    def _is_child_of_uml(self, pid: int) -> bool:
        """Tell whether a process of User-Mode Linux is one in which its guest's programs run."""
        parent = self._stat_fields(pid)[1:2]
        if not parent or parent[0] == b"0":
            return False
        try:
            argv = Path(f"{self._proc}/{int(parent[0])}/cmdline").read_text(errors="replace").rstrip("\0").split("\0")
        except OSError:
            return False
        above = read_guest(int(parent[0]), 0, argv)
        return above is not None and above.kind == "uml"

    def _started_ticks(self, pid: int) -> int:
        fields = self._stat_fields(pid)
        return int(fields[_START_FIELD]) if len(fields) > _START_FIELD else 0

    def _stat_fields(self, pid: int) -> list[bytes]:
        """Give the fields of its ``stat`` behind the name: the state is number 0, the parent number 1."""
        try:
            text = Path(f"{self._proc}/{pid}/stat").read_bytes()
        except OSError:
            return []
        return text[text.rfind(b")") + 1 :].split()

    def _folder(self, pid: int) -> Path:
        try:
            return Path(f"{self._proc}/{pid}/cwd").readlink()
        except OSError:
            return Path()
