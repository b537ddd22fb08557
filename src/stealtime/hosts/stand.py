"""Hosts of a laboratory that receive machines, the guest that counts on them, and its client.

Two as a rule; others may be admitted, whose guests have the same standby: one host backs several.

The link between the hosts is TCP with mutual TLS over a veth pair. Demonstrations, measurements and tests stand on it.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psutil

from stealtime.hosts.blow import kill_protected, last_state
from stealtime.hosts.laboratory import CLIENT, GUEST_ADDRESS, GUEST_BRIDGE, GUEST_INTERFACE, Laboratory
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.protect.control import ControlClient, ControlError
from stealtime.protect.ending import ending_error
from stealtime.protect.endpoint import DEFAULT_PORT, StandbyHost
from stealtime.protect.host_file import HostFile, host_spec
from stealtime.protect.identity import make_identity
from stealtime.protect.members import prepare_member, start_host_daemon, start_member
from stealtime.protect.session import make_spec
from stealtime.protect.specification import write_document
from stealtime.protect.state import MemberFolder, State
from stealtime.protect.status import MemberStatus
from stealtime.protect.vm_file import Identity, Register, VmFile
from stealtime.vocabulary.errors import StealtimeError

HOSTS = ("a", "b")
STANDBY = HOSTS[1]
"""Backs the guests of every other host."""
COUNTER_PORT = 7000
COUNTER = (f"tcp={COUNTER_PORT}", f"udp={COUNTER_PORT}", "memory=16MiB", "dirty=50/10ms")
"""What the guest runs unless it is told otherwise."""

PATIENT_TIMING = {"active_deadline": "1s", "standby_timeout": "1600ms", "register_deadline": "4s"}
"""An overloaded host must not end the protection between our look at it and a blow: that would be a second fault, and
rightly the machine's end. A death is seen at once all the same, by its closed connection."""
EMULATED_TIMING = {
    "heartbeat": "200ms",
    "active_deadline": "4s",
    "standby_timeout": "6s",
    "register_deadline": "20s",
    "qemu_deadline": "60s",
}
"""Deadlines for a host that is itself emulated, where a guest's epoch takes a hundred times as long."""

PATIENCE_S = 120.0
"""A translated guest boots in a few seconds on an idle host."""
_POLL_S = 0.02
_LAST_LINES = 25

Found = TypeVar("Found")


class NotProtectedError(StealtimeError):
    """A host died, or would have, when its guest was just not protected, as on a crowded host."""


class Stand:
    """Two hosts or more, ready to receive machines.

    Args:
        laboratory: The networks; it stands.
        register: Decides who may be active; None: one in a folder.
        allow_faults: Whether members may be told to break themselves.
    """

    def __init__(self, laboratory: Laboratory, *, register: Register | None = None, allow_faults: bool = False) -> None:
        self.laboratory = laboratory
        self.state = State(laboratory.folder / "state")
        self.register = register or Register(folder=self.state.register)
        self.allow_faults = allow_faults
        self.hosts: list[StandbyHost] = []
        for name in HOSTS:
            self.admit(name)

    def admit(self, name: str) -> None:
        """Have one more host of the laboratory receive machines."""
        self.hosts.append(self.describe(name))
        self.start_daemon(name)

    def dismiss(self, name: str) -> None:
        """End all that runs on a host, which receives no machines any more."""
        self.hosts = [host for host in self.hosts if host.name != name]
        self.laboratory.power_off(name)

    def describe(self, name: str) -> StandbyHost:
        """Write what the daemon of a host is told; give how it is reached."""
        endpoint = f"tcp:{self.laboratory.host(name).address('replication')}:{DEFAULT_PORT}"
        self.tell(name, listen=endpoint, identity=self.identity(name))
        return StandbyHost(name=name, endpoint=endpoint)

    def tell(self, name: str, **daemon: Any) -> None:
        """Write what the daemon of a host is told when it is started next."""
        told = HostFile(
            name=name, bridge=GUEST_BRIDGE, register_=self.register, allow_faults=self.allow_faults, **daemon
        )
        write_document(self.state.host(name).config, host_spec(told, self.state))

    def start_daemon(self, name: str) -> None:
        """Have a host receive machines: at first, and after its power came back.

        Raises:
            StealtimeError: The laboratory has ended.
        """
        self.refuse_ended()
        start_host_daemon(self.state.host(name), surroundings=self.laboratory.host(name).surroundings)

    def refuse_ended(self) -> None:
        """See that the laboratory still stands: who only asks for a member's folder would make it anew.

        Raises:
            StealtimeError: It has ended.
        """
        if self.laboratory.has_ended:
            raise StealtimeError("the laboratory has ended, and its hosts with it")

    def identity(self, name: str, node: str | None = None) -> Identity:
        """Give the certificate of a host that lives in a node; it is made when it is asked for first."""
        address = self.laboratory.host(node or name).address("replication")
        return make_identity(self.laboratory.folder / "identity", name, [address])

    def last_words(self) -> str:
        """Give the end of all logs, which go with the laboratory."""
        logs = sorted(self.state.path.glob("*/*.log")) + sorted(self.state.path.glob("*/*/member.log"))
        return "\n".join(
            f"--- {log}\n" + "\n".join(log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]) for log in logs
        )


class StandGuest:
    """A guest that the hosts of a stand can keep.

    Args:
        stand: Where.
        name: Of the machine; the register remembers the last one of a name.
        number: One of several at once; the address follows from it.
        known_as: By which name its host goes in the register: members of one name share a folder, as on one host.
        node: The host where it begins.
        machine: What runs in it, and what is different from the usual machine, as in ``VM.toml``.
    """

    def __init__(
        self, stand: Stand, name: str, *, number: int = 0, known_as: str = "a", node: str = "a", **machine: Any
    ) -> None:
        self.stand = stand
        self.known_as = known_as
        self._node = node
        self._hosts = tuple(dict.fromkeys((known_as, *HOSTS)))
        self.ip_address = guest_address(number)
        hosts = {host.name: host for host in stand.hosts}
        self.vm = VmFile.model_validate(
            {
                "name": name,
                "network": {
                    "bridge": GUEST_BRIDGE,
                    "address": GUEST_INTERFACE.replace(GUEST_ADDRESS, self.ip_address),
                    # That of the guest before it at this address: the client has not forgotten it.
                    "mac": f"52:54:00:77:00:{number:02x}",
                },
                # Its standby, then where it begins, which it comes back to.
                "standby_hosts": [
                    hosts[name].model_dump() for name in dict.fromkeys((STANDBY, known_as)) if name in hosts
                ],
                "identity": stand.identity(known_as, node).model_dump(),
                "register": stand.register.model_dump(),
                "allow_faults": stand.allow_faults,
                **machine,
            }
        )

    def start(self) -> psutil.Process:
        """Start its member where it begins, which boots it; does not wait."""
        folder = self.member(self.known_as)
        prepare_member(folder, make_spec(self.vm, self.stand.state, self.known_as))
        return start_member(folder, surroundings=self.stand.laboratory.host(self._node).surroundings)

    def member(self, name: str) -> MemberFolder:
        """Give the folder of its member on a host.

        Raises:
            StealtimeError: The laboratory has ended.
        """
        self.stand.refuse_ended()
        return self.stand.state.host(name).member(self.vm.name)

    def control(self, name: str) -> ControlClient:
        """Talk with its member on a host."""
        return ControlClient(self.member(name).control_socket)

    def status(self, name: str) -> MemberStatus | None:
        """Give what its member on a host says, or None if there is nobody."""
        try:
            return self.control(name).status()
        except ControlError:
            return None

    def running(self, name: str) -> MemberStatus | None:
        """Give what its member on a host says, if it runs there, protected or not."""
        status = self.status(name)
        return status if status is not None and status.role in ("solo", "active") else None

    def events(self, name: str) -> list[dict[str, Any]]:
        """Give what its members on a host wrote about themselves."""
        return [json.loads(line) for line in self.member(name).events.read_text().splitlines()]

    def refuse_end(self) -> None:
        """See that it lives, on whichever host.

        Raises:
            StealtimeError: None of its members does.
        """
        folders = [self.member(name) for name in self._hosts]
        if not any(folder.lives() for folder in folders):
            what = f"the member of {self.vm.name!r} on the host {self.known_as!r} ended"
            # Its log goes with the laboratory.
            error = ending_error(what, folders[0].log, "what all members wrote last is with this error")
            error.add_note(self.stand.last_words())
            raise error

    def await_ready(self, unlike: frozenset[int] = frozenset(), within_s: float = PATIENCE_S) -> MemberStatus:
        """Wait until it is protected (in mode ``off``: until it runs); give what its active member says.

        Args:
            unlike: Members (pids) that must not be among those that protect it.
            within_s: How long.

        Raises:
            StealtimeError: It does not come that far.
        """
        seen: list[MemberStatus | None] = []

        def find() -> MemberStatus | None:
            self.refuse_end()
            seen[:] = [self.status(name) for name in self._hosts]
            members = [member for member in seen if member is not None]
            if self.vm.mode == "off":
                return next((member for member in members if member.role == "solo"), None)
            protecting = [member for member in members if member.protected]
            active = [member for member in protecting if member.role == "active"]
            is_it = len(protecting) == len(HOSTS) and len(active) == 1 and not {one.pid for one in protecting} & unlike
            return active[0] if is_it else None

        return self.await_that(find, lambda: f"{self.vm.name} is not protected: {seen}", within_s)

    def states_since(self, active: MemberStatus, from_ns: int) -> list[str]:
        """Give the states that a member entered since a moment: it was not protected all the time if there are any."""
        return [
            str(event["state"])
            for event in self.events(active.host)
            if event["event"] == "state" and event["pid"] == active.pid and int(event["monotonic_ns"]) >= from_ns
        ]

    def continued_ns(self, host: str, after_ns: int) -> int:
        """Give when it first went on, on a host, after a moment."""
        times = [int(event["monotonic_ns"]) for event in self.events(host) if event["event"] == "guest-continued"]
        return min(at_ns for at_ns in times if at_ns > after_ns)

    def await_taken(self, host: str, within_s: float) -> MemberStatus:
        """Wait until it runs where it was taken over; give what its member there says.

        Raises:
            StealtimeError: It is not taken over.
        """
        return self.await_that(
            lambda: status if (status := self.running(host)) and status.resume_ns is not None else None,
            lambda: f"{host} did not take {self.vm.name} over",
            within_s,
        )

    def kill_member(self, active: MemberStatus) -> int:
        """Kill its active member by SIGKILL when it is protected; give when, in ns of the monotonic clock.

        Raises:
            NotProtectedError: It left that member before the blow.
        """
        if active.pid is None:
            raise StealtimeError(f"the member on {active.host} does not say its pid")
        member, folder = psutil.Process(active.pid), self.member(active.host)

        def still() -> None:
            if self.await_ready().pid != member.pid:
                raise NotProtectedError(f"the guest left {active.host} before the blow")

        return kill_protected(member, lambda: last_state(folder, member.pid) == "Protected", still)

    def stop(self) -> None:
        """End it on all hosts, the standby first, so that it does not take over."""
        for name in (STANDBY, self.known_as):
            status = self.status(name)
            if status is not None and status.pid is not None:
                os.kill(status.pid, signal.SIGKILL)
        for name in (STANDBY, self.known_as):
            folder = self.member(name)
            self.await_that(lambda folder=folder: not folder.lives(), lambda: f"{self.vm.name} does not end")  # type: ignore[misc]

    def await_that(
        self, find: Callable[[], Found | None], otherwise: Callable[[], str], within_s: float = PATIENCE_S
    ) -> Found:
        """Wait until something is found (not None, not false).

        Raises:
            StealtimeError: It does not come.
        """
        deadline = time.monotonic() + within_s
        while not (found := find()):
            if time.monotonic() > deadline or self.stand.laboratory.has_ended:
                raise self.failure(otherwise())
            time.sleep(_POLL_S)
        return found

    def failure(self, message: str) -> StealtimeError:
        """Give an error with what the members said last as a note."""
        error = StealtimeError(message)
        error.add_note(self.stand.last_words())
        return error


class CountingGuest(StandGuest):
    """A guest that counts, first on host ``a``; its arguments are those of every guest."""

    def __init__(
        self, stand: Stand, name: str = "counter", *, number: int = 0, known_as: str = "a", **machine: Any
    ) -> None:
        counter = {"program": "counter", "program_arguments": list(COUNTER)}
        super().__init__(stand, name, number=number, known_as=known_as, **{**counter, **machine})
        self.address = f"{self.ip_address}:{COUNTER_PORT}"

    def ask(self, question: str, within_s: float = PATIENCE_S) -> dict[str, Any]:
        """Ask the counter over TCP.

        Raises:
            StealtimeError: It does not answer.
        """
        argv = [str(find_agent()), "ask", self.address, question, "--wait", f"{within_s:g}s"]
        asking = self.stand.laboratory.start(CLIENT, argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output, said = asking.communicate(timeout=2 * within_s + 10)
        if asking.returncode != 0:
            raise self.failure(f"{self.vm.name} does not answer {question}: {said.decode('utf-8', 'replace').strip()}")
        return dict(json.loads(output))


class Client:
    """Counts with a guest over TCP and UDP until it is told to end.

    Args:
        guest: What it counts with.
        flows: How many counts it keeps going over TCP, and over UDP.
        options: More of ``stealtime-agent count``.
        stderr: Where it says how it goes.
    """

    def __init__(self, guest: CountingGuest, flows: int = 1, *options: str, stderr: Any = subprocess.DEVNULL) -> None:
        self._guest = guest
        argv = [str(find_agent()), "count", "--tcp", guest.address, "--udp", guest.address, "--flows", str(flows)]
        argv += ["--json", "--until-closed", "--wait", f"{PATIENCE_S:g}s", *options]
        self.process = guest.stand.laboratory.start(
            CLIENT, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        )

    def end(self) -> dict[str, Any]:
        """Have it end; give what it has seen.

        Raises:
            StealtimeError: It gave no result.
        """
        output, _ = self.process.communicate(timeout=2 * PATIENCE_S)
        try:
            return dict(json.loads(output))
        except ValueError as error:
            raise self._guest.failure(f"the client gave no result and ended with {self.process.returncode}") from error


def guest_address(number: int) -> str:
    """Give the address of one of several guests."""
    network, _, last = GUEST_ADDRESS.rpartition(".")
    return f"{network}.{int(last) + number}"


def other(name: str) -> str:
    """Give the other host."""
    return HOSTS[1 - HOSTS.index(name)]


def poll(find: Callable[[], Found | None], within_s: float, poll_s: float = _POLL_S) -> Found | None:
    """Look for something again and again; None if it is not found (or only what is false) in time."""
    deadline = time.monotonic() + within_s
    while not (found := find()):
        if time.monotonic() > deadline:
            return None
        time.sleep(poll_s)
    return found
