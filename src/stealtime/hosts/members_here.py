"""Members whose files are on this machine: what a host in a namespace and a lent host have in common."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psutil

from stealtime.hosts.clock_offset import SAME_CLOCK, ClockOffset
from stealtime.hosts.host import CpuTimes, FaultKind, NotProtectedError, Seen
from stealtime.hosts.killing import freeze_protected, kill_protected, was_protected
from stealtime.hosts.lent_machines import end_member
from stealtime.hosts.process_times import times_by_thread_ns, vcpu_threads
from stealtime.hosts.waiting import poll
from stealtime.protect.control import ControlClient, ControlError
from stealtime.protect.ending import ending_error
from stealtime.protect.epochs import read_epochs
from stealtime.protect.members import Surroundings, is_running, prepare_member, read_status, start_member
from stealtime.protect.specification import MemberSpec
from stealtime.protect.state import HostFolder, MemberFolder, State, recorded_process
from stealtime.protect.status import RUNS_NOW, Role
from stealtime.vocabulary.errors import StealtimeError

_PROTECTED_WITHIN_S = 50.0
"""A standby that was lost is replaced within a few seconds. A lent host has to answer within a minute."""

_PROTECTING: frozenset[Role] = frozenset({"active", "standby"})


@dataclass(frozen=True)
class HostProcess:
    """A process of the host side of guests, or a QEMU, which is also theirs."""

    pid: int
    vcpus: frozenset[int] = frozenset()
    """Ids of the threads that run a guest's virtual CPUs."""
    runs_guest: bool = False
    """Whether those run now, and do not only stand by."""
    stands_by: bool = False
    """Whether it is of a standby, or the daemon of a host that has nothing but standbys."""


class MembersHere:
    """The verbs of :class:`stealtime.hosts.host.Host`, but for how a guest is started.

    Args:
        state: Where members live.
        name: The host's.
        surroundings: Where its members are started; None: just here.
        logs: Says where what they wrote is to be found; None: its path, which outlives us.
    """

    def __init__(
        self, state: State, name: str, surroundings: Surroundings | None = None, logs: str | None = None
    ) -> None:
        self.state = state
        self.name = name
        self._surroundings = surroundings or Surroundings()
        self._logs = logs
        self._started: dict[str, psutil.Process] = {}
        self._frozen: list[psutil.Process] = []

    @property
    def folder(self) -> HostFolder:
        return self.state.host(self.name)

    def member(self, vm: str) -> MemberFolder:
        return self.folder.member(vm)

    def start_member(self, vm: str, spec: MemberSpec) -> None:
        folder = self.member(vm)
        prepare_member(folder, spec)
        self._started[vm] = started = start_member(folder, surroundings=self._surroundings)
        # It is our child: somebody has to hear of its end, or it seems to live.
        threading.Thread(target=started.wait, daemon=True).start()

    def look(self, vm: str) -> Seen:
        folder = self.member(vm)
        status = read_status(folder)
        if status.role != "gone":
            return Seen(status)
        started = self._started.get(vm)
        if started is None or is_running(started):
            return Seen(None)
        return Seen(None, ending_error(f"the member of {vm!r} on the host {self.name!r} ended", folder.log, self._logs))

    def events(self, vm: str, event: str) -> list[dict[str, Any]]:
        try:
            lines = self.member(vm).events.read_text().splitlines()
        except FileNotFoundError:
            return []
        return [one for one in map(json.loads, lines) if one["event"] == event]

    def epochs(self, vm: str, from_ns: int) -> list[dict[str, int]]:
        return read_epochs(self.member(vm).epochs, from_ns)

    def die(self, vm: str, pid: int, kind: FaultKind) -> int:
        """Kill a member that protects a guest, or stop it and its QEMU for good, or have the active one hand over."""
        folder = self.member(vm)
        control = ControlClient(folder.control_socket)

        def await_protected() -> None:
            status = poll(lambda: one if (one := control.status()).protected else None, _PROTECTED_WITHIN_S)
            if status is None or status.pid != pid or status.role not in _PROTECTING:
                raise NotProtectedError(f"the guest was not protected on {self.name!r} when its host was to die")

        strike = kill_protected if kind == "killed" else freeze_protected
        try:
            if kind == "planned":
                await_protected()
                struck_ns = time.monotonic_ns()
                control.failover()
                return struck_ns
            process = psutil.Process(pid)
            struck_ns = strike(process, lambda: was_protected(folder, pid), await_protected)
        except (ControlError, psutil.NoSuchProcess, ProcessLookupError) as error:
            raise NotProtectedError(f"the guest left {self.name!r} before its host was to die") from error
        if kind == "silent":
            self._frozen.append(process)
        return struck_ns

    def kill(self, vm: str) -> int:
        status, struck_ns = read_status(self.member(vm)), time.monotonic_ns()
        for pid in (status.pid, status.qemu_pid):
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return struck_ns

    def revive(self) -> None:
        """End the members that were stopped: their guests are elsewhere now."""
        frozen, self._frozen = self._frozen, []
        for process in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()  # its QEMU goes with it

    def end(self, vm: str) -> None:
        self._started.pop(vm, None)
        end_member(self.member(vm))

    def processes(self) -> list[HostProcess]:
        """Give the processes of its daemon, of all members here, and of their guests."""
        return processes_of(self.folder, self.folder.members())

    def cpu_times(self) -> CpuTimes:
        return cpu_times(self.processes())

    def clock(self) -> ClockOffset:
        return SAME_CLOCK


def processes_of(host: HostFolder, members: list[MemberFolder]) -> list[HostProcess]:
    """Give the processes of a host's daemon, of members here, and of their guests."""
    daemon = recorded_process(host.pid_file)
    seen = [read_status(folder) for folder in members]
    roles = {status.role for status in seen}
    found = [] if daemon is None else [HostProcess(daemon.pid, stands_by="standby" in roles and not roles & RUNS_NOW)]
    for status in seen:
        for pid in _family(status.pid):
            is_machine = pid == status.qemu_pid
            vcpus = vcpu_threads(pid) if is_machine else frozenset[int]()
            runs_guest = is_machine and status.role in RUNS_NOW
            found.append(HostProcess(pid, vcpus, runs_guest, stands_by=status.role == "standby"))
    return found


def cpu_times(processes: Iterable[HostProcess]) -> CpuTimes:
    """Read what guests that run have used, all their virtual CPUs together, and all else that is theirs.

    Raises:
        StealtimeError: A QEMU that runs a guest names none of its threads as a virtual CPU.
    """
    server_ns, host_ns, standby_ns = 0, 0, 0
    for process in processes:
        times_ns = times_by_thread_ns(process.pid)
        if process.runs_guest and times_ns and not process.vcpus:
            raise StealtimeError(
                f"none of the {len(times_ns)} threads of QEMU (pid {process.pid}) is named as a virtual CPU",
                hint="does its command line have -name NAME,debug-threads=on?",
            )
        vcpus_ns = sum(times_ns.get(tid, 0) for tid in process.vcpus) if process.runs_guest else 0
        server_ns += vcpus_ns
        host_ns += sum(times_ns.values()) - vcpus_ns
        standby_ns += sum(times_ns.values()) if process.stands_by else 0
    return CpuTimes(server_ns, host_ns, standby_ns)


def _family(pid: int | None) -> list[int]:
    if pid is None:
        return []
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []
