"""Two hosts in network namespaces, guests that count on them, and a client: what ``make protect-demo`` shows, driven.

The link between the hosts is TCP with mutual TLS over a veth pair.
"""

import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psutil

from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.protect.control import ControlClient, ControlError
from stealtime.protect.endpoint import DEFAULT_PORT, StandbyHost
from stealtime.protect.host_file import HostFile, host_spec
from stealtime.protect.identity import make_identity
from stealtime.protect.laboratory import CLIENT, GUEST_ADDRESS, GUEST_BRIDGE, GUEST_INTERFACE, Laboratory
from stealtime.protect.laboratory_etcd import Etcd
from stealtime.protect.members import prepare_member, start_host_daemon, start_member
from stealtime.protect.session import make_spec
from stealtime.protect.specification import write_document
from stealtime.protect.state import MemberFolder, State
from stealtime.protect.status import MemberStatus
from stealtime.protect.vm_file import Register, VmFile

from .rows import Row, between, read_rows

HOSTS = ("a", "b")
DEMO_PROGRAM = ("tcp=7000", "udp=7000", "memory=16MiB", "dirty=50/10ms")
"""What the guest of ``make protect-demo`` runs."""

PATIENT_TIMING = {"active_deadline": "1s", "standby_timeout": "1600ms", "register_deadline": "4s"}
"""What a crowded machine needs, whose scheduler would else make a guest change its host while its pauses are measured.
Neither pause nor hold nor bytes depend on it; failovers do, and are measured with the defaults."""

_PORT = 7000
_PATIENCE_S = 120.0
_POLL_S = 0.02

Found = TypeVar("Found")

_serials = itertools.count()
"""Names of guests do not come again: the register remembers the last one of a name."""


class Stand:
    """Both hosts, ready to receive guests.

    Args:
        laboratory: The networks.
        with_etcd: Whether a real etcd decides who may be active; else a register in a folder.
    """

    def __init__(self, laboratory: Laboratory, *, with_etcd: bool = False) -> None:
        self.laboratory = laboratory
        self.state = State(laboratory.folder / "state")
        self.register = (
            # Its network is in namespaces that nobody else is in.
            Register(etcd=[Etcd(laboratory).url], insecure=True) if with_etcd else Register(folder=self.state.register)
        )
        self.hosts = [self._describe(name) for name in HOSTS]
        for name in HOSTS:
            self.start_daemon(name)

    def start_daemon(self, name: str) -> None:
        """Have a host receive machines."""
        start_host_daemon(self.state.host(name), surroundings=self.laboratory.host(name).surroundings)

    def identity(self, name: str, node: str | None = None) -> Any:
        """Give the certificate of a host that lives in a node; it is made when it is asked for first."""
        folder = self.laboratory.folder / "identity"
        return make_identity(folder, name, [self.laboratory.host(node or name).address("replication")])

    def last_words(self) -> str:
        """Give the end of all logs, which go with the laboratory."""
        names = ("*/*.log", "*/*/member.log", "*/*/console.log")
        logs = [log for name in names for log in sorted(self.state.path.glob(name))]
        return "\n".join(
            f"--- {log}\n" + "\n".join(log.read_text("utf-8", "replace").splitlines()[-4:]) for log in logs
        )

    def _describe(self, name: str) -> StandbyHost:
        endpoint = f"tcp:{self.laboratory.host(name).address('replication')}:{DEFAULT_PORT}"
        daemon = HostFile(
            name=name, listen=endpoint, bridge=GUEST_BRIDGE, identity=self.identity(name), register_=self.register
        )
        write_document(self.state.host(name).config, host_spec(daemon, self.state))
        return StandbyHost(name=name, endpoint=endpoint)


class Guest:
    """A guest that counts, first on host ``a``.

    Args:
        stand: Where.
        number: One of several at once; the address follows from it.
        known_as: By which name its host goes in the register: members of one name share a folder, as on one host.
        machine: What is different from the guest of the demonstration, as in ``VM.toml``.
    """

    def __init__(self, stand: Stand, *, number: int = 0, known_as: str = "a", **machine: Any) -> None:
        self.stand = stand
        self.known_as = known_as
        address = GUEST_ADDRESS.rpartition(".")
        self._address = f"{address[0]}.{int(address[2]) + number}"
        self.vm = VmFile.model_validate(
            {
                "name": f"counter{next(_serials)}",
                "program": "counter",
                "program_arguments": list(DEMO_PROGRAM),
                "network": {
                    "bridge": GUEST_BRIDGE,
                    "address": GUEST_INTERFACE.replace(GUEST_ADDRESS, self._address),
                    # That of the guest before it at this address: the client has not forgotten it.
                    "mac": f"52:54:00:77:00:{number:02x}",
                },
                "standby_hosts": [
                    host.model_dump() for host in reversed(stand.hosts) if host.name == "b" or known_as == "a"
                ],
                "identity": stand.identity(known_as, "a").model_dump(),
                "register": stand.register.model_dump(),
                "timing": PATIENT_TIMING,
                **machine,
            }
        )

    def start(self) -> None:
        """Start its member on ``a``; does not wait."""
        folder = self.member(self.known_as)
        prepare_member(folder, make_spec(self.vm, self.stand.state, self.known_as))
        start_member(folder, surroundings=self.stand.laboratory.host("a").surroundings)

    def await_ready(self, unlike: frozenset[int] = frozenset()) -> MemberStatus:
        """Wait until it is protected (in mode ``off``: until it runs); give what its active member says.

        Args:
            unlike: Members (pids) that must not be among those that protect it.
        """

        def find() -> MemberStatus | None:
            members = [status for name in (self.known_as, "b") if (status := self.status(name)) is not None]
            if self.vm.mode == "off":
                return next((status for status in members if status.role == "solo"), None)
            protecting = [status for status in members if status.protected]
            if len(protecting) < len(HOSTS) or {status.pid for status in protecting} & unlike:
                return None
            return next((status for status in protecting if status.role == "active"), None)

        return self.await_that(find, f"{self.vm.name} is not ready")

    def await_answer(self) -> None:
        """Wait until the program in the guest answers."""
        self.ask("status", wait_s=_PATIENCE_S)

    def ask(self, question: str, wait_s: float = 10.0) -> dict[str, Any]:
        """Ask the counter over TCP."""
        argv = [str(find_agent()), "ask", f"{self._address}:{_PORT}", question, "--wait", f"{wait_s:g}s"]
        asking = self.stand.laboratory.start(CLIENT, argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output, said = asking.communicate(timeout=2 * wait_s + 10)
        if asking.returncode != 0:
            raise SystemExit(f"{question}: {said.decode().strip()}\n{self.stand.last_words()}")
        return dict(json.loads(output))

    @contextmanager
    def counting(self, flows: int = 1) -> Iterator[dict[str, Any]]:
        """Count with it over TCP and UDP; what the client has seen is in the document after the end."""
        address = f"{self._address}:{_PORT}"
        argv = [str(find_agent()), "count", "--tcp", address, "--udp", address, "--flows", str(flows)]
        argv += ["--json", "--quiet", "--until-closed", "--wait", f"{_PATIENCE_S:g}s"]
        client = self.stand.laboratory.start(CLIENT, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        seen: dict[str, Any] = {}
        try:
            yield seen
            output, _ = client.communicate(timeout=_PATIENCE_S)
            if not output:
                raise SystemExit(f"the client gave no result\n{self.stand.last_words()}")
            seen.update(json.loads(output))
        finally:
            if client.poll() is None:
                client.kill()
                client.wait()

    def member(self, name: str) -> MemberFolder:
        """Give the folder of its member on a host."""
        return self.stand.state.host(name).member(self.vm.name)

    def status(self, name: str) -> MemberStatus | None:
        """Give what its member on a host says, or None if there is nobody."""
        try:
            return ControlClient(self.member(name).control_socket).status()
        except ControlError:
            return None

    def rows(self, from_ns: int = 0, to_ns: int = 1 << 63) -> list[Row]:
        """Give its epochs on its first host that began in a time."""
        return between(read_rows(self.member(self.known_as).epochs), from_ns, to_ns)

    def events(self, host: str) -> list[dict[str, Any]]:
        """Give what its members on a host have written down."""
        lines = (self.member(host).path / "events.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def losses(self, from_ns: int, to_ns: int) -> list[int]:
        """Give when its active member on the first host lost its standby, in a time."""
        lost = [event for event in self.events(self.known_as) if event.get("state") == "Reclaiming"]
        return [at_ns for event in lost if from_ns <= (at_ns := int(event["monotonic_ns"])) < to_ns]

    def epochs_for(self, seconds: float) -> list[Row]:
        """Wait, and give the epochs that began meanwhile."""
        from_ns = time.monotonic_ns()
        time.sleep(seconds)
        to_ns = time.monotonic_ns()
        # A row is written when the epoch's output is released.
        self.await_that(
            lambda: (rows := self.rows()) and rows[-1]["begin_ns"] > to_ns,
            f"{self.vm.name} has no epochs any more",
        )
        return self.rows(from_ns, to_ns)

    def stop(self) -> None:
        """End it on all hosts."""
        end_all([self])

    def await_that(self, find: Callable[[], Found | None], otherwise: str) -> Found:
        """Wait until something is found (not None, not false).

        Raises:
            SystemExit: It does not come.
        """
        found = poll(find, _PATIENCE_S)
        if found is None:
            raise SystemExit(f"{otherwise}\n{self.stand.last_words()}")
        return found


def poll(find: Callable[[], Found | None], within_s: float) -> Found | None:
    """Look for something again and again; None if it is not found (or only what is false) in time."""
    deadline = time.monotonic() + within_s
    while not (found := find()):
        if time.monotonic() > deadline:
            return None
        time.sleep(_POLL_S)
    return found


def end_all(guests: Sequence[Guest]) -> None:
    """End guests on all hosts at once, standbys first, so that none of them takes over."""
    for guest in guests:
        for name in ("b", guest.known_as):
            status = guest.status(name)
            if status is not None and status.pid is not None:
                os.kill(status.pid, signal.SIGKILL)
    for guest in guests:
        for name in ("b", guest.known_as):
            folder = guest.member(name)
            guest.await_that(lambda folder=folder: not folder.lives(), f"{folder.path} does not end")  # type: ignore[misc]


def cpu_s(pid: int) -> float:
    """Give the CPU time that a process has used, user and system, without its children."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
