"""A protected guest on two hosts of the laboratory, a client that counts, and everything that can be done to them."""

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
from counting_guest import PATIENT_TIMING, CountingGuest
from disk_contents import format_of
from real_etcd import Etcd

from stealtime.hosts.counting import CountingClient
from stealtime.hosts.host import Seen
from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.namespace_testbed import EMULATED_TIMING, HOSTS, NamespaceTestbed, other
from stealtime.hosts.waiting import poll
from stealtime.protect.control import ControlError, MemberLeftError
from stealtime.protect.status import MemberStatus
from stealtime.protect.vm_file import Register
from stealtime.vocabulary.errors import StealtimeError

__all__ = [
    "HOSTS", "PATIENCE_S", "TIMING", "VM", "Counting", "TwoHosts", "assert_unharmed", "await_that", "etcd_or_skip",
    "keep_evidence", "laboratory_or_skip", "lives", "other",
]  # fmt: skip

VM = "counter"

TIMING: dict[str, str] = {
    "patient": PATIENT_TIMING,
    "default": {},
    "emulated": EMULATED_TIMING,
}[os.environ.get("STEALTIME_PROTECT_TIMING", "patient")]
"""The campaign of failovers holds with the default deadlines, too."""
PATIENCE_S = 240.0 if TIMING is EMULATED_TIMING else 60.0
"""A translated guest on an overloaded host; what is waited for comes within 2 s on an idle one."""
_POLL_S = 0.03

_PROTOCOLS = ("tcp", "udp")
_SILENT = re.compile(r"silent +([0-9.]+) s")
_ANSWERED_WITHIN_S = 0.5
"""The client shows its progress each second, with the longest present silence of all flows of a protocol."""

_KEPT_EVIDENCE = ("*.jsonl", "*.log", "*.csv", "*.json")
_standing: list[Laboratory] = []
"""Laboratories that are there now; see :func:`keep_evidence`."""

Found = TypeVar("Found")


class TwoHosts(CountingGuest):
    """The guest runs on one of them and the other stands by; who does what changes with each failover.

    Args:
        laboratory: Where.
        etcd: Decides who may be active; None: a register in a folder.
        testbed: Hosts that are different from the usual ones.
        machine: What is different from the usual machine, as in ``VM.toml``.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        etcd: Etcd | None = None,
        *,
        testbed: NamespaceTestbed | None = None,
        **machine: Any,
    ) -> None:
        self.laboratory = laboratory
        self.etcd = etcd
        # The network `register` of a laboratory is in namespaces that nobody else is in.
        register = None if etcd is None else Register(etcd=[etcd.url], insecure=True)
        super().__init__(
            testbed or NamespaceTestbed(laboratory, register=register, allow_faults=True),
            VM,
            **{"timing": TIMING, **machine},
        )
        self.state = self.testbed.state
        self.killed_ns: dict[int, int] = {}
        """When we were sure that a member was gone, by its pid."""

    def boot(self) -> MemberStatus:
        """Boot the guest on ``a``; give what its member says when it is protected and answers."""
        self.start()
        status = self.settled()
        self.ask("status", PATIENCE_S)
        return status

    def boot_from(self, host: str, vm: str, image: Path) -> StealtimeError | None:
        """Start the machine on a host from an image, unprotected and under this name; give why it does not run."""
        home = self.testbed.host(host, host)
        disk = {"name": "data", "path": str(image), "format": format_of(image)}
        home.start({**self._machine, "name": vm, "mode": "off", "disks": [disk]})

        def find() -> Seen | None:
            seen = home.look(vm)
            runs = seen.member is not None and seen.member.role == "solo" and seen.member.qemu_pid is not None
            return seen if runs or seen.ended is not None else None

        return await_that(find, self.log_tail).ended

    def stop(self) -> None:
        """End the guest wherever it runs, so that the next one finds nothing of it."""
        for name in HOSTS:
            self.laboratory.power_off(name)

    def start_daemon(self, name: str) -> None:
        """Have a host receive machines after its power came back."""
        self.testbed.start_daemon(name)

    def log_tail(self) -> str:
        """Give the end of all logs, which go with the laboratory."""
        return self.testbed.log_tail()

    def pid(self, name: str) -> int:
        """Give the pid of the member on a host."""
        status = self.status(name)
        assert status is not None, f"no member on {name}"
        assert status.pid is not None
        return status.pid

    def settled(self, unlike: frozenset[int] = frozenset()) -> MemberStatus:
        """Wait until the machine is protected: one member active, the other ready to take over.

        Args:
            unlike: Members (pids) that must not be among them.
        """
        return self.await_ready(unlike, PATIENCE_S)

    def await_running(self, name: str) -> None:
        """Wait until the guest runs on a host, protected or not."""
        await_that(lambda: self.running(name), lambda: f"{name} does not take over\n{self.log_tail()}")

    def strike(self, action: str, point: str = "now", passes: int = 1) -> MemberStatus:
        """Break the active member or its guest while it is protected, without stopping anything before.

        The member does it to itself: between a look from outside and a fault an overloaded host may end the protection,
        and the fault would rightly end the machine. A member that stood still meanwhile would let its standby come to
        rest.

        Args:
            action: ``kill`` or ``kill-guest``.
            point: At which step of the protocol.
            passes: At which pass of it.

        Returns:
            Who was active.
        """
        while True:
            before = self.settled()
            if self.strikes(before.host, action, point, passes):
                return before

    def strikes(self, name: str, action: str, point: str = "now", passes: int = 1) -> bool:
        """Break the member on a host as :meth:`strike` does, or tell that its guest is not protected now."""
        try:
            self.control(name).fault(point, action, passes, only_protected=True)
        except MemberLeftError:
            return True
        except ControlError as error:
            if "not protected now" not in error.message:
                raise
            return False
        return True

    def await_fault(self, name: str, point: str, fault: Callable[[], object]) -> None:
        """Wait until a member that stands by has come to a step at which ``fault`` tells it to break."""
        log = self.state.host(name).log
        seen = log.stat().st_size
        fault()

        def has_come() -> bool:
            with log.open("rb") as file:
                file.seek(seen)
                return f"at {point}\n".encode() in file.read()

        await_that(has_come, lambda: f"{name} does not come to {point}\n{self.log_tail()}", poll_s=0.002)

    def kill_active(self) -> MemberStatus:
        """Kill the active member as :meth:`strike` does, and wait until its process is gone; give who was active."""
        before = self.strike("kill")
        assert before.pid is not None
        self.await_end(before.pid)
        return before

    def kill(self, pid: int) -> None:
        """End a process by SIGKILL; an active member by :meth:`kill_active`, which sees that it is protected then."""
        os.kill(pid, signal.SIGKILL)
        self.await_end(pid)

    def await_end(self, pid: int) -> None:
        """Wait until a process is gone."""
        await_that(lambda: not lives(pid), lambda: f"the process {pid} does not end\n{self.log_tail()}")
        self.killed_ns[pid] = time.monotonic_ns()

    def power_off(self, name: str) -> None:
        """Kill all processes of a host at once."""
        for pid in self.laboratory.power_off(name):
            self.killed_ns[pid] = time.monotonic_ns()

    def stand_still(self, pid: int) -> None:
        """Wait until a process has met SIGSTOP."""
        await_that(
            lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED,
            lambda: f"the process {pid} does not stop\n{self.log_tail()}",
        )


@contextmanager
def laboratory_or_skip(hosts: Sequence[str] = HOSTS, servers: Sequence[str] = ()) -> Iterator[Laboratory]:
    """Give a laboratory; where the kernel or the rights do not allow one, the tests are skipped with the reason."""
    laboratory = Laboratory(hosts, servers)
    try:
        laboratory.__enter__()
    except StealtimeError as error:
        pytest.skip(f"no laboratory here: {error.message}")
    _standing.append(laboratory)
    try:
        yield laboratory
    finally:
        _standing.remove(laboratory)
        laboratory.__exit__(None, None, None)


def etcd_or_skip(laboratory: Laboratory) -> Etcd:
    """Give a real etcd; where it is not installed, the tests are skipped with the reason."""
    try:
        return Etcd(laboratory)
    except StealtimeError as error:
        pytest.skip(f"no etcd here: {error.message}")


def keep_evidence() -> Path | None:
    """Copy what the members of all laboratories wrote, which goes with them; give the folder, if there is anything."""
    if not _standing:
        return None
    kept = Path(tempfile.mkdtemp(prefix="protect-evidence-"))
    for number, laboratory in enumerate(_standing):
        for pattern in _KEPT_EVIDENCE:
            for path in laboratory.folder.rglob(pattern):
                copy = kept / str(number) / path.relative_to(laboratory.folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
    return kept


class Counting:
    """A client that counts in the background.

    Args:
        hosts: What it counts with.
        flows: How many counts it keeps going over TCP, and over UDP.
        linear_timeouts: Whether TCP repeats at a steady pace: else it may notice the end of an outage later by as long
            as the outage was.
    """

    def __init__(self, hosts: TwoHosts, flows: int = 3, *, linear_timeouts: bool = False) -> None:
        self._hosts = hosts
        self._said: Path = hosts.laboratory.folder / "client.log"
        options = ("--check", *(["--linear-timeouts"] if linear_timeouts else []))
        with self._said.open("wb") as said:
            self._client = CountingClient(hosts, flows, *options, stderr=said)

    def await_answers(self) -> None:
        """Wait until each flow is answered, and assert that no answer so far contradicted another."""
        shown = len(self._progress())

        def is_answered() -> bool:
            lines = self._progress()[shown:]
            silent_s = [float(text) for text in _SILENT.findall(lines[-1])] if lines else []
            return len(silent_s) == len(_PROTOCOLS) and max(silent_s) < _ANSWERED_WITHIN_S

        await_that(is_answered, lambda: f"{self._progress()[-3:]}\n{self._hosts.log_tail()}")
        last = self._progress()[-1]
        assert last.endswith("violations 0"), f"{last}\n{self._hosts.log_tail()}"

    def end(self) -> dict[str, Any]:
        """Let it check the guest's memory, and give what it has seen."""
        return self._client.end()

    def _progress(self) -> list[str]:
        text = self._said.read_text()
        # The last line may still be written.
        return text[: text.rfind("\n") + 1].splitlines()


def assert_unharmed(seen: dict[str, Any]) -> None:
    """Assert that nothing that a client saw is missing, and that its connections lived."""
    assert seen["violations_total"] == 0, seen["violations"]
    assert seen["tcp_lived"] is True
    assert seen["check"]["mismatches"] == 0
    assert seen["check"]["verified"] > 0
    assert all(flow["acknowledged"] > 0 for flow in seen["flows"])


def await_that(
    find: Callable[[], Found | None],
    explain: Callable[[], str],
    poll_s: float = _POLL_S,
    within_s: float = PATIENCE_S,
) -> Found:
    """Wait until something is found (not None, not false)."""
    found = poll(find, within_s, poll_s)
    assert found, explain()
    return found


def lives(pid: int) -> bool:
    """Tell whether a process is there and has not ended."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
