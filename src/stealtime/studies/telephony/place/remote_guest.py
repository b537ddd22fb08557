"""A guest on two real hosts, which are lent to the campaign.

What hosts tell of moments is on their own clocks. It is brought to ours by asking for the time; how far it can be off
goes with it.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from stealtime.hosts.lent_hosts import LentHost
from stealtime.lab.scenarios.real_hosts import RealHosts
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.place.model import Mode
from stealtime.vocabulary.errors import StealtimeError

logger = logging.getLogger(__name__)

_POLL_S = 0.1
_RUNNING_ROLES = ("solo", "active")

Found = TypeVar("Found")


@dataclass(frozen=True)
class Loan:
    """Hosts that are lent to the campaign."""

    primary: LentHost
    """Where a server begins."""
    standby: LentHost
    terms: RealHosts
    """What the scenario says of them."""

    @property
    def hosts(self) -> tuple[LentHost, LentHost]:
        """Both."""
        return self.primary, self.standby

    def host(self, name: str) -> LentHost:
        """Give the one of a name in the register."""
        return next(host for host in self.hosts if host.name == name)

    def other(self, name: str) -> LentHost:
        """Give the other one."""
        return next(host for host in self.hosts if host.name != name)


@dataclass(frozen=True)
class ToldMoment:
    """A moment that another host told of, in nanoseconds of our monotonic clock."""

    at_ns: int
    error_ns: int


class RemoteGuest:
    """A guest that both hosts can keep.

    Args:
        loan: The hosts.
        name: Of the machine, never used before: the hosts' register remembers it.
        mode: How it is protected.
        machine: What it is, as in ``VM.toml``, but for what is the hosts' own.
        has_ended: Tells whether nothing is worth waiting for any more.
    """

    def __init__(
        self, loan: Loan, name: str, mode: Mode, machine: Mapping[str, Any], has_ended: Callable[[], bool]
    ) -> None:
        self._loan = loan
        self._name = name
        self.mode = mode
        self._has_ended = has_ended
        self._machine = {
            **machine,
            "name": name,
            "accelerator": loan.terms.accelerator,
            # Where it began comes last: it goes back there after a failover.
            "standby_hosts": [{"name": host.name, "endpoint": host.endpoint} for host in reversed(loan.hosts)],
        }

    def start(self) -> None:
        """Boot it; does not wait."""
        self._loan.primary.ask("start", machine=self._machine)

    def members(self) -> list[MemberStatus]:
        """Give its members on both hosts.

        Raises:
            StealtimeError: It has ended.
        """
        told = [host.ask("status", vm=self._name) for host in self._loan.hosts]
        members = [MemberStatus.model_validate(one["member"]) for one in told if one["member"] is not None]
        ended = next((one for one in told if "ended" in one), None)
        if ended is not None and not members:
            # Nobody has taken it over.
            raise StealtimeError(ended["ended"], hint=ended["hint"])
        return members

    def running(self) -> list[MemberStatus]:
        """Give the member where it runs now, protected or not."""
        return [member for member in self.members() if member.role in _RUNNING_ROLES]

    def await_ready(self, unlike: frozenset[int], within_s: float) -> MemberStatus:
        """Wait until it is protected (in mode ``off``: until it runs); give what its active member says.

        Args:
            unlike: Members (pids) that must not be among those that protect it.
            within_s: How long.

        Raises:
            StealtimeError: It does not come that far.
        """

        def find() -> MemberStatus | None:
            members = self.members()
            if self.mode == "off":
                return next((member for member in members if member.role == "solo"), None)
            protecting = [member for member in members if member.protected]
            active = [member for member in protecting if member.role == "active"]
            is_it = len(protecting) == len(self._loan.hosts) and len(active) == 1
            return active[0] if is_it and not {one.pid for one in protecting} & unlike else None

        return self._await(find, f"the guest {self._name} is not protected", within_s)

    def states_since(self, active: MemberStatus, from_ns: int) -> list[str]:
        """Give the states that a member entered since a moment of our clock, but not what may have been before it."""
        host = self._loan.host(active.host)
        offset = host.offset()
        after_ns = offset.theirs_ns(from_ns) + offset.error_at_ns(from_ns)
        return [
            str(event["state"])
            for event in self._events(host, "state")
            if event["pid"] == active.pid and int(event["monotonic_ns"]) >= after_ns
        ]

    def kill_member(self, active: MemberStatus) -> ToldMoment:
        """Kill its active member, and with it its QEMU, by SIGKILL when it is protected; give when.

        Raises:
            NotProtectedError: It was not, or left that member before.
        """
        host = self._loan.host(active.host)
        struck_ns = int(host.ask("kill", vm=self._name, pid=active.pid)["struck_ns"])
        return _told(host, struck_ns)

    def await_taken(self, host: LentHost, within_s: float) -> MemberStatus:
        """Wait until it runs where it was taken over; give what its member there says.

        Raises:
            StealtimeError: It is not taken over.
        """
        return self._await(
            lambda: next((one for one in self.running() if one.host == host.name and one.resume_ns is not None), None),
            f"{host.name} did not take {self._name} over",
            within_s,
        )

    def continued(self, host: LentHost, blow: ToldMoment) -> ToldMoment:
        """Give when it first went on, on a host, after a blow.

        Raises:
            StealtimeError: The host does not say so.
        """
        moments = [_told(host, int(event["monotonic_ns"])) for event in self._events(host, "guest-continued")]
        after = [one for one in moments if one.at_ns > blow.at_ns - blow.error_ns - one.error_ns]
        if not after:
            raise StealtimeError(f"{host.name} does not say when it let {self._name} go on")
        return min(after, key=lambda one: one.at_ns)

    def end(self) -> None:
        """End it on both hosts, where it runs first: the other member then ends by itself."""
        try:
            running = {member.host for member in self.running()}
        except StealtimeError:
            running = set()  # it has ended already, or a host is gone
        for host in sorted(self._loan.hosts, key=lambda host: host.name not in running):
            try:
                host.ask("end", vm=self._name)
            except StealtimeError as error:
                logger.warning("the server was not seen to end on %s: %s", host.address, error)

    def _events(self, host: LentHost, event: str) -> list[dict[str, Any]]:
        return list(host.ask("events", vm=self._name, event=event)["events"])

    def _await(self, find: Callable[[], Found | None], otherwise: str, within_s: float) -> Found:
        deadline = time.monotonic() + within_s
        while (found := find()) is None:
            if time.monotonic() > deadline or self._has_ended():
                raise StealtimeError(f"{otherwise} within {within_s:g} s", hint="see the log of the trial")
            time.sleep(_POLL_S)
        return found


def _told(host: LentHost, theirs_ns: int) -> ToldMoment:
    """Put a moment of a host's clock on ours; asked soon after it, little is lost to clocks that run apart."""
    offset = host.offset()
    at_ns = offset.ours_ns(theirs_ns)
    return ToldMoment(at_ns, offset.error_at_ns(at_ns))
