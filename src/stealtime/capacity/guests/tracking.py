"""One guest's counters, sample after sample: its threads are listed anew when their number changes.

What changes seldom (where its virtual CPUs may run, which quotas hold) is looked up every ``_LOOK_AGAIN_SAMPLES``, and
when the guest begins to wait: by a quota that was set since, which must not pass for its host, or on other CPUs.
"""

import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from stealtime.capacity.counters.files import KernelFile, OpenFiles
from stealtime.capacity.counters.monitor import vcpu_threads
from stealtime.capacity.counters.parsers import NOTHING_YET, ThreadCounts, parse_runs_guest, parse_schedstat
from stealtime.capacity.counters.quota import read_throttled
from stealtime.capacity.guest import Guest, GuestThread
from stealtime.capacity.guests.roles import NAMELESS_HINT, UNSEEN_HINT, roles_by_kvm, roles_by_monitor, roles_by_name
from stealtime.capacity.guests.starvation import Starvation
from stealtime.capacity.sample import GuestSample, GuestView, ReadTwice, ThreadsRead
from stealtime.lab.platforms.cgroup import CpuHierarchy
from stealtime.lab.platforms.host_views import parse_guest_ticks
from stealtime.lab.platforms.quotas import Quota, group_of, quotas_above
from stealtime.vocabulary.cpu_lists import parse_cpu_list
from stealtime.vocabulary.readings import Absent

NO_COUNTS_HINT = "set the sysctl kernel.task_delayacct=1, or boot with `delayacct`; the kernel needs CONFIG_SCHED_INFO"
_LOOK_AGAIN_SAMPLES = 60
_LOOK_AGAIN_SOON_SAMPLES = 5
_WAITS_SHARE = 0.02
"""A guest whose virtual CPUs wait together for more of the time is looked at: something holds it back."""
_OTHERS_EVERY_SAMPLES = 5
"""Emulator and I/O threads are most of a guest's threads, and no rule needs them by the second."""
_NOT_TOLD = Absent(absent="the kernel did not tell where its virtual CPUs may run")
_OWN_LINKS = 2
"""Of a folder without folders in it; that of a process's threads holds none once the process has been reaped."""
_SCHEDSTAT_BYTES = 96
"""Three numbers of at most 20 digits."""


class GoneError(Exception):
    """The guest has ended."""


class TrackedGuest:
    """A guest whose threads' counters are held open.

    Args:
        guest: As discovered.
        proc: The kernel's ``/proc``.
        files: Counts the descriptors.
        hierarchy: Where quotas are; None if there is no cpu controller.
    """

    def __init__(self, guest: Guest, proc: Path, files: OpenFiles, hierarchy: CpuHierarchy | None) -> None:
        self.guest = guest
        self.ask_guest: Callable[[], GuestView | Absent] | None = None
        """Asks the guest's own kernel, where that was wanted."""
        self.helpers: Callable[[], Collection[int]] = tuple
        """Gives the threads that the kernel runs for it outside of its process (vhost, before Linux 6.4)."""
        self._proc = proc
        self._files = files
        self._hierarchy = hierarchy
        self._open: dict[int, KernelFile] = {}
        self._folder: KernelFile | None = None
        self._vcpu_files: dict[int, KernelFile] = {}
        self._other_files: dict[int, KernelFile] = {}
        self._others = ThreadsRead(0, {})
        self._others_twice: ReadTwice | None = None
        self._until_others = 0
        self._began: frozenset[int] = frozenset()
        """Threads that were not there when they were listed before: they count from 0."""
        self._is_listed = False
        self._starvation = Starvation(self._state_of)
        self._is_counted = False
        """Whether its first thread was seen to have run: a kernel that counts goes on counting."""
        self.threads: tuple[GuestThread, ...] = ()
        """As of the last sample."""
        self._groups: dict[int | str, tuple[int, ...]] = {}
        self._last: dict[int, tuple[bytes, ThreadCounts]] = {}
        self._links: dict[int, int] = {}
        self._vcpus_told: list[int] | None = None
        self._found: dict[int, int] = {}
        self._may_change = False
        """Whether a virtual CPU may have gone unnoticed because it has not run yet."""
        self._allowed: frozenset[int] | Absent = _NOT_TOLD
        self._quotas: list[Quota] = []
        self._vcpus_read = ThreadsRead(0, {})
        self._until_waits = 0
        # Guests take turns: each looks again at another sample.
        self._until_look = guest.pid % _LOOK_AGAIN_SAMPLES
        self._has_looked = False

    def sample(self, at_ns: int) -> GuestSample:
        """Read its counters.

        Args:
            at_ns: The moment.

        Raises:
            GoneError: It has ended.
        """
        # Asking costs as much as reading the counters of two threads. QEMU's virtual CPUs stay, and one that does not
        # fails to be read; its other threads come and go, and are read as seldom. User-Mode Linux has a process for
        # each address space of its guest.
        if self.guest.kind == "uml" or self._until_others <= 1 or 0 not in self._groups:
            self._list_threads_if_changed()
        counts = self._read_counts(self._vcpu_files)
        if counts is None:
            self._links.clear()  # a thread was replaced by another: their number is the same
            self._list_threads_if_changed()
            counts = self._read_counts(self._vcpu_files) or {}
        self._read_others(at_ns)
        waits_anew = self._waits_anew(ThreadsRead(at_ns, counts))
        if self._until_look <= 0 or not self._has_looked or waits_anew:
            self._look()
        self._until_look -= 1
        return GuestSample(
            guest=self.guest,
            threads=self.threads,
            counts=counts,
            groups=self._groups,
            others=self._others_twice,
            unreadable=self._unreadable(counts),
            allowed_cpus=self._allowed,
            began=self._began if self.guest.kind == "uml" else frozenset(),
            starving=self._starvation.look(counts),
            throttled=None
            if self._hierarchy is None or not self._quotas
            else read_throttled(self._quotas, self._hierarchy),
            view=None if self.ask_guest is None else self.ask_guest(),
        )

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def _read_others(self, at_ns: int) -> None:
        self._until_others -= 1
        if self._until_others > 0:
            return
        counts = self._read_counts(self._other_files)
        if counts is None:
            self._links.clear()  # one was replaced by another: they are listed anew with the next sample
            counts = {tid: read for tid in self._other_files if (read := self._others.counts.get(tid)) is not None}
        has_first = self._others.at_ns < at_ns and bool(self._others.counts)
        # The second reading comes at once, so that there is a figure; then guests take turns.
        if not has_first:
            self._until_others = 1
        elif self._others_twice is None:
            self._until_others = 1 + self.guest.pid % _OTHERS_EVERY_SAMPLES
        else:
            self._until_others = _OTHERS_EVERY_SAMPLES
        before, self._others = self._others, ThreadsRead(at_ns, counts)
        # Listed as often as they are read, and just before.
        before = before._replace(counts={**dict.fromkeys(self._began, NOTHING_YET), **before.counts})
        self._others_twice = ReadTwice(before, self._others) if has_first else None

    def _read_counts(self, files: Mapping[int, KernelFile]) -> dict[int, ThreadCounts] | None:
        """Read each thread's counters; None if one of them has ended."""
        counts = {}
        is_whole = True
        pread, last = os.pread, self._last
        for tid, file in files.items():
            descriptor = file.descriptor
            try:
                text = (
                    file.read_short(_SCHEDSTAT_BYTES) if descriptor is None else pread(descriptor, _SCHEDSTAT_BYTES, 0)
                )
            except OSError:
                is_whole = False
                continue
            # Most threads of a guest sleep most of the time: what has not changed is not read again.
            known = last.get(tid)
            if known is None or known[0] != text:
                read = parse_schedstat(text)
                if read is None:
                    continue
                known = last[tid] = (text, read)
            counts[tid] = known[1]
        return counts if is_whole else None

    def _unreadable(self, counts: dict[int, ThreadCounts]) -> Absent | None:
        if self._is_counted and counts and 0 in self._groups:
            return None
        main = counts.get(self.guest.pid) or self._others.counts.get(self.guest.pid)
        self._is_counted = main is not None and any(main)
        if main is not None and not self._is_counted:
            path = f"{self._proc}/{self.guest.pid}/schedstat"
            return Absent(
                absent=f"{path} says 0 0 0 of a thread that ran: the kernel does not count ({NO_COUNTS_HINT})"
            )
        if self.guest.elsewhere is not None:
            return Absent(absent=self.guest.elsewhere)
        if not counts and not self._others.counts:
            return Absent(absent=f"no schedstat below {self._proc}/{self.guest.pid}/task can be read")
        if 0 not in self._groups:
            hint = UNSEEN_HINT if self.guest.kind == "kvm" else NAMELESS_HINT
            return Absent(absent=f"its virtual CPUs cannot be told from its other threads ({hint})")
        return None

    def _processes(self) -> list[int]:
        """Give its processes: one for QEMU; for User-Mode Linux also those that run the guest's programs."""
        pid = self.guest.pid
        if self.guest.kind != "uml":
            return [pid, *self.helpers()]
        try:
            children = (self._proc / str(pid) / "task" / str(pid) / "children").read_bytes()
        except OSError:
            children = b""
        return [pid, *map(int, children.split())]

    def _list_threads_if_changed(self) -> None:
        links: dict[int, int] = {}
        for pid in self._processes():
            try:
                links[pid] = self._links_of(pid)
            except OSError:
                if pid == self.guest.pid:
                    self.close()
                    raise GoneError from None
        if links == self._links:
            self._began = frozenset()
            return
        self._links = links
        self._list_threads(links)

    def _links_of(self, pid: int) -> int:
        """Count the links of the folder of a process's threads: two of its own, and one of each folder in it.

        Raises:
            OSError: The process is gone.
        """
        if pid != self.guest.pid:
            return os.stat(f"{self._proc}/{pid}/task").st_nlink  # noqa: PTH116 - it is hot
        if self._folder is None:
            self._folder = self._files.open(f"{self._proc}/{pid}/task")
        # The kernel has no need to look up a path that it was shown before.
        known = self._folder.descriptor
        links = (os.stat(self._folder.path) if known is None else os.fstat(known)).st_nlink  # noqa: PTH116
        if links <= _OWN_LINKS:
            raise ProcessLookupError(pid)
        return links

    def _list_threads(self, pids: Iterable[int]) -> None:
        found: dict[int, int] = {}
        for pid in pids:
            try:
                found.update((int(tid), pid) for tid in os.listdir(f"{self._proc}/{pid}/task"))  # noqa: PTH208
            except OSError:
                continue
        for tid in self._open.keys() - found.keys():
            self._open.pop(tid).close()
            self._last.pop(tid, None)
        for tid in found.keys() - self._open.keys():
            try:
                self._open[tid] = self._files.open(f"{self._proc}/{found[tid]}/task/{tid}/schedstat")
            except OSError:
                continue
        self._began = frozenset(found.keys() - self._found.keys()) if self._is_listed else frozenset()
        self._is_listed = True
        self._found = found
        self._give_roles()
        self._has_looked = False

    def _give_roles(self) -> None:
        self.threads = tuple(self._roles(self._found))
        self._groups = _grouped(self.threads)
        vcpus = {thread.tid for thread in self.threads if thread.vcpu is not None}
        self._vcpu_files = {tid: file for tid, file in self._open.items() if tid in vcpus}
        self._other_files = {tid: file for tid, file in self._open.items() if tid not in vcpus}

    def _roles(self, found: dict[int, int]) -> list[GuestThread]:
        if self.guest.kind == "uml":
            # One virtual CPU: at any moment either its kernel runs or one of the guest's processes.
            return [GuestThread(tid, "vcpu", 0) for tid in found]
        if self.guest.elsewhere is not None:
            return [GuestThread(tid, "emulator") for tid in found]
        names = {tid: self._text(f"{pid}/task/{tid}/comm").strip() for tid, pid in found.items()}
        threads = roles_by_name(names)
        if any(thread.role == "vcpu" for thread in threads):
            return threads
        if threads := roles_by_monitor(list(found), self._told_by_monitor()):
            return threads
        vcpus = [tid for tid, pid in found.items() if self._is_of_kvm(f"{pid}/task/{tid}")]
        self._may_change = True
        return roles_by_kvm(list(found), vcpus)

    def _is_of_kvm(self, thread: str) -> bool:
        """Tell whether a thread runs a guest under KVM, or waits inside KVM to do so."""
        ticks = parse_guest_ticks(self._text(f"{thread}/stat").encode())
        return bool(ticks) or parse_runs_guest(self._text(f"{thread}/syscall").encode())

    def _state_of(self, tid: int) -> bytes:
        text = self._text(f"{self._found.get(tid, self.guest.pid)}/task/{tid}/stat").encode()
        return text[text.rfind(b")") + 2 :][:1]

    def _told_by_monitor(self) -> list[int]:
        """Ask QEMU which of its nameless threads are virtual CPUs, once."""
        if self._vcpus_told is None:
            told = vcpu_threads(self.guest) if self.guest.monitor is not None else []
            self._vcpus_told = [] if isinstance(told, Absent) else told
        return self._vcpus_told

    def _look(self) -> None:
        if self._has_looked and self._may_change:
            self._give_roles()
        self._has_looked = True
        self._until_look = _LOOK_AGAIN_SOON_SAMPLES if self._may_change else _LOOK_AGAIN_SAMPLES
        vcpus = [thread.tid for thread in self.threads if thread.role == "vcpu"]
        if self.guest.kind == "uml":
            vcpus = vcpus[:1]  # all of them are one virtual CPU, and were started together
        self._allowed = frozenset().union(*map(self._allowed_cpus, vcpus)) or _NOT_TOLD
        self._quotas = self._find_quotas(vcpus)

    def _waits_anew(self, read: ThreadsRead) -> bool:
        """Tell whether its virtual CPUs have begun to wait, or go on waiting since some samples."""
        before, self._vcpus_read = self._vcpus_read, read
        waited_ns = sum(
            counts.wait_ns - before.counts[tid].wait_ns for tid, counts in read.counts.items() if tid in before.counts
        )
        if waited_ns <= _WAITS_SHARE * (read.at_ns - before.at_ns):
            self._until_waits = 0
            return False
        self._until_waits -= 1
        if self._until_waits > 0:
            return False
        self._until_waits = _LOOK_AGAIN_SOON_SAMPLES
        return True

    def _allowed_cpus(self, tid: int) -> frozenset[int]:
        for line in self._text(f"{self.guest.pid}/task/{tid}/status").splitlines():
            if line.startswith("Cpus_allowed_list:"):
                return frozenset(parse_cpu_list(line.partition(":")[2]))
        return frozenset()

    def _find_quotas(self, tids: list[int]) -> list[Quota]:
        if self._hierarchy is None:
            return []
        groups = {group_of(self._text(f"{self.guest.pid}/task/{tid}/cgroup"), self._hierarchy) for tid in tids}
        found = {one for group in groups if group is not None for one in quotas_above(group, self._hierarchy)}
        return sorted(found, key=lambda quota: quota.group)

    def _text(self, path: str) -> str:
        try:
            with open(f"{self._proc}/{path}", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - it is hot
                return file.read()
        except OSError:
            return ""  # the thread ended meanwhile, or is not ours to look at


def _grouped(threads: Iterable[GuestThread]) -> dict[int | str, tuple[int, ...]]:
    groups: dict[int | str, list[int]] = {}
    # Virtual CPUs in their order, then the others.
    for thread in sorted(threads, key=lambda thread: math.inf if thread.vcpu is None else thread.vcpu):
        groups.setdefault(thread.role if thread.vcpu is None else thread.vcpu, []).append(thread.tid)
    return {group: tuple(tids) for group, tids in groups.items()}
