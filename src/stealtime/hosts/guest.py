"""A guest that hosts keep, by the verbs of :class:`stealtime.hosts.host.Host`: on whichever hosts, it is one.

What hosts tell of moments is on their own clocks. It is brought to ours; how far it can be off goes with it.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from stealtime.hosts.clock_offset import ClockOffset, Moment
from stealtime.hosts.host import FaultKind, Host, NotProtectedError
from stealtime.hosts.waiting import PATIENCE_S, Waiting
from stealtime.protect.status import RUNS_NOW, MemberStatus
from stealtime.vocabulary.errors import StealtimeError

_TAKEN_WITHIN_S = 30.0
_PROTECTING = 2
"""Members: an active one and its standby."""


class ProtectionLostError(NotProtectedError):
    """The guest lost its standby while it was measured, as on a crowded host; it goes on, and gets another."""


@dataclass(frozen=True)
class Fault:
    """A host that died, in nanoseconds of our monotonic clock."""

    struck_ns: int
    detected_ns: int
    """The standby had won the register."""
    running_ns: int
    """The guest ran again."""
    died: str
    """Where several did, their names with commas between."""
    survived: str
    """As ``died``."""
    error_ns: int = 0
    """How far these moments can be off, where other hosts' clocks told them."""
    apart_ns: int = 0
    """Where several hosts died: how long after the first one the last one did."""


class Guest:
    """A guest that some hosts can keep.

    Args:
        hosts: Them; it begins at the first.
        machine: What it is, as in ``VM.toml``, but for what is the hosts' own. Its name was never used before: the
            register remembers it.
        ip_address: Its own.
        waiting: How its hosts are waited for, and who talks with it.
    """

    def __init__(self, hosts: Sequence[Host], machine: Mapping[str, Any], ip_address: str, waiting: Waiting) -> None:
        self.hosts = hosts
        self.name = str(machine["name"])
        self.mode = str(machine.get("mode", "net"))
        """How it is protected."""
        self.ip_address = ip_address
        self.waiting = waiting
        self._machine = machine

    @property
    def home(self) -> str:
        return self.hosts[0].name

    @property
    def mac(self) -> str:
        return str(self._machine["network"]["mac"])

    def start(self) -> None:
        self.hosts[0].start(self._machine)

    def members(self) -> list[MemberStatus]:
        """Give its members on all hosts.

        Raises:
            StealtimeError: It has ended, on whichever host.
        """
        seen = [host.look(self.name) for host in self.hosts]
        members = [one.member for one in seen if one.member is not None]
        ended = next((one.ended for one in seen if one.ended is not None), None)
        if ended is not None and not members:
            # Nobody has taken it over. In a laboratory its log goes with it.
            ended.add_note(self.waiting.log_tail())
            raise ended
        return members

    def running_members(self) -> list[MemberStatus]:
        """Give the member where it runs now, protected or not; does not wait."""
        seen = [host.look(self.name).member for host in self.hosts]
        return [member for member in seen if member is not None and member.role in RUNS_NOW]

    def await_ready(
        self,
        unlike: frozenset[int] = frozenset(),
        within_s: float = PATIENCE_S,
        on_status: Callable[[MemberStatus], None] = lambda _: None,
    ) -> MemberStatus:
        """Wait until it is protected (in mode ``off``: until it runs); give what its active member says.

        Args:
            unlike: Members (pids) that must not be among those that protect it.
            within_s: How long.
            on_status: Receives each answer of a member that has the machine.

        Raises:
            StealtimeError: It does not come that far.
        """
        seen: list[MemberStatus] = []

        def find() -> MemberStatus | None:
            seen[:] = self.members()
            for member in seen:
                if member.role in RUNS_NOW:
                    on_status(member)
            if self.mode == "off":
                return next((member for member in seen if member.role == "solo"), None)
            protecting = [member for member in seen if member.protected]
            active = [member for member in protecting if member.role == "active"]
            is_it = len(protecting) == _PROTECTING and len(active) == 1
            return active[0] if is_it and not {one.pid for one in protecting} & unlike else None

        return self.waiting.until(find, lambda: f"the guest {self.name} is not protected: {seen}", within_s)

    def states_since(self, active: MemberStatus, from_ns: int) -> list[str]:
        """Give the states that a member entered since a moment of our clock, but not what may have been before it.

        It was not protected all the time if there are any.
        """
        host = self._host(active.host)
        after_ns = host.clock().surely_after(from_ns)
        return [
            str(event["state"])
            for event in host.events(self.name, "state")
            if event["pid"] == active.pid and int(event["monotonic_ns"]) >= after_ns
        ]

    def check_protected(self, active: MemberStatus, from_ns: int) -> None:
        """See that it was protected all the time since a moment of our clock: only then its output was held.

        Args:
            active: The member that was active then.
            from_ns: The moment.

        Raises:
            ProtectionLostError: It was not. In the mode ``off`` it has nothing to lose.
        """
        entered = [] if self.mode == "off" else self.states_since(active, from_ns)
        if entered:
            raise ProtectionLostError(
                f"the guest {self.name} was not protected all the time while it was measured "
                f"(its member was {', '.join(entered)})",
                hint="this host is too busy for the default deadlines",
            )

    def clock_of(self, active: MemberStatus) -> ClockOffset:
        """Find where the clock of its active member's host stands."""
        return self._host(active.host).clock()

    def epochs_since(self, active: MemberStatus, from_ns: int) -> list[dict[str, int]]:
        """Give the rows of the epochs of its active member that began since a moment of our clock."""
        host = self._host(active.host)
        return host.epochs(self.name, host.clock().surely_after(from_ns))

    def states_after(self, active: MemberStatus, moment: Moment) -> list[tuple[str, Moment]]:
        """Give the states that a member entered after a moment, as far as clocks can tell, the earliest first."""
        host = self._host(active.host)
        clock = host.clock()
        states = [
            (str(event["state"]), clock.moment(int(event["monotonic_ns"])))
            for event in host.events(self.name, "state")
            if event["pid"] == active.pid
        ]
        return [(state, at) for state, at in states if at.may_follow(moment)]

    def lose_host(self, active: MemberStatus, kind: FaultKind = "killed") -> Moment:
        """Have the host of a member that protects it be lost; give when. The active one is lost when it is protected.

        Raises:
            NotProtectedError: It was not, or left that member before.
        """
        if active.pid is None:
            raise StealtimeError(f"the member on {active.host} does not say its pid")
        host = self._host(active.host)
        return host.clock().moment(host.die(self.name, active.pid, kind))

    def kill_unprotected(self) -> Moment:
        """Kill it where it begins, though nothing protects it; give when."""
        home = self.hosts[0]
        return home.clock().moment(home.kill(self.name))

    def await_taken(self, host: str, within_s: float = _TAKEN_WITHIN_S) -> MemberStatus:
        """Wait until it runs where it was taken over; give what its member there says.

        Raises:
            StealtimeError: It is not taken over.
        """
        there = self._host(host)

        def find() -> MemberStatus | None:
            member = there.look(self.name).member
            # It is active as soon as it may be, and has the duration once the guest runs.
            is_it = member is not None and member.role in RUNS_NOW and member.resume_ns is not None
            return member if is_it else None

        return self.waiting.until(find, lambda: f"{host} did not take {self.name} over", within_s)

    def first(self, host: str, event: str, after: Moment) -> Moment:
        """Give when a kind of event was first noted on a host after a moment.

        Raises:
            StealtimeError: The host does not say so.
        """
        there = self._host(host)
        clock = there.clock()
        moments = [clock.moment(int(one["monotonic_ns"])) for one in there.events(self.name, event)]
        later = [one for one in moments if one.may_follow(after)]
        if not later:
            raise self.waiting.failure(f"{host} does not say when {event} of {self.name} was")
        return min(later, key=lambda one: one.at_ns)

    def revive(self, host: str) -> None:
        self._host(host).revive()

    def other_host(self, name: str) -> str:
        return next(host.name for host in self.hosts if host.name != name)

    def end(self) -> None:
        """End it on all hosts, where it runs first: the other member then ends by itself."""
        try:
            running = {member.host for member in self.running_members()}
        except StealtimeError:
            running = set()  # a host is gone
        for host in sorted(self.hosts, key=lambda host: host.name not in running):
            host.end(self.name)

    def _host(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)


def lose_host(
    guests: Sequence[Guest], active: Sequence[MemberStatus], survived: Sequence[str], kind: FaultKind
) -> Fault:
    """Have the hosts of some guests be lost when each is protected; give when the last of them runs again.

    Several hosts are lost at once: none waits for the end of another one.

    Args:
        guests: Them.
        active: The active member of each.
        survived: The host that takes over each.
        kind: How they are lost.

    Raises:
        StealtimeError: It does not; ``NotProtectedError`` where a guest left its host before the fault.
    """
    by_host: dict[str, list[tuple[Guest, MemberStatus]]] = {}
    for guest, one in zip(guests, active, strict=True):
        by_host.setdefault(one.host, []).append((guest, one))

    def strike(host: str) -> Moment:
        return min((guest.lose_host(one, kind) for guest, one in by_host[host]), key=lambda moment: moment.at_ns)

    with ThreadPoolExecutor(len(by_host)) as at_once:
        strikes = list(at_once.map(strike, by_host))
    struck = min(strikes, key=lambda one: one.at_ns)
    taken = [guest.await_taken(host) for guest, host in zip(guests, survived, strict=True)]
    continued = [guest.first(host, "guest-continued", struck) for guest, host in zip(guests, survived, strict=True)]
    running = max(continued, key=lambda one: one.at_ns)
    resume_ns = max(status.resume_ns or 0 for status in taken)
    return Fault(
        struck_ns=struck.at_ns,
        detected_ns=running.at_ns - resume_ns,
        running_ns=running.at_ns,
        died=", ".join(by_host),
        survived=", ".join(dict.fromkeys(survived)),
        error_ns=struck.error_ns + running.error_ns,
        apart_ns=max(one.at_ns for one in strikes) - struck.at_ns,
    )
