"""A host of a server is lost under a load, whichever it is: what is told of it, and how the server is whole again."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stealtime.hosts.guest import Fault
from stealtime.hosts.host import FaultKind
from stealtime.hosts.standby_loss import StandbyLoss
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.parameters import CallVictim, SessionVictim
from stealtime.studies.telephony.place.guest import GuestPlace
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.place.separate_hosts import SeparateHostsPlace
from stealtime.studies.telephony.registrations.failover import first_answer_ns, make_whole, over_time, told_of
from stealtime.studies.telephony.results import Unprotected


class Loss(Protocol):
    """A host that is lost."""

    @property
    def struck_ns(self) -> int:
        """When, by our monotonic clock."""

    def mend(self) -> None:
        """Have a host that fell silent back, and wait until the server is protected again.

        Raises:
            StealtimeError: It does not come that far.
        """

    def told(self, answered_ns: Iterable[int]) -> dict[str, Any]:
        """Give what every result tells of it, when all is mended.

        Args:
            answered_ns: When users of the server were answered, in any order.
        """


@dataclass
class PrimaryLoss:
    """The host where a server ran."""

    place: Place
    active: Sequence[MemberStatus]
    """The members that were there."""
    fault: Fault
    victim: CallVictim = "primary"

    @property
    def struck_ns(self) -> int:
        return self.fault.struck_ns

    def mend(self) -> None:
        make_whole(self.place, self.active)

    def told(self, answered_ns: Iterable[int]) -> dict[str, Any]:
        # Results of registrations have the first as their default, and know no other.
        side = {} if self.victim == "primary" else {"victim": self.victim}
        return {**told_of(self.fault, answered_ns), **side}


@dataclass
class LossOfStandby:
    """The host that backed a server, which runs on."""

    place: GuestPlace
    active: Sequence[MemberStatus]
    """The members of its guests, then and now."""
    loss: StandbyLoss
    is_silent: bool
    back_ns: int | None = None
    """When the host that had fallen silent was there again."""

    @property
    def struck_ns(self) -> int:
        return self.loss.struck.at_ns

    def come_back(self) -> None:
        """Have a host that fell silent back, if it is not yet."""
        if self.is_silent and self.back_ns is None:
            self.place.revive()
            self.back_ns = time.monotonic_ns()

    def mend(self) -> None:
        self.come_back()
        self.place.await_protected(self.loss.pids)

    def told(self, answered_ns: Iterable[int]) -> dict[str, Any]:
        lapse, struck_ns, answered = self.place.lapse_after(self.active, self.loss), self.struck_ns, list(answered_ns)
        return {
            "host": self.loss.host,
            "victim": "standby",
            "fault_to_detection_ns": None,
            "fault_to_running_ns": None,
            "fault_to_answer_ns": first_answer_ns(answered, struck_ns, struck_ns),
            "clock_error_ns": lapse.error_ns,
            "over_time": over_time(answered, struck_ns),
            "unprotected": Unprotected(
                fault_to_noticed_ns=lapse.noticed_ns - struck_ns,
                fault_to_alone_ns=lapse.alone_ns - struck_ns,
                fault_to_protected_ns=lapse.protected_ns - struck_ns,
                fault_to_back_ns=None if self.back_ns is None else self.back_ns - struck_ns,
            ),
        }


def begin_at_home(place: Place) -> None:
    """Have a server whose sides have hosts of their own be where it began: a host that is lost is then one side's.

    Raises:
        StealtimeError: It does not come back from where it was taken over.
    """
    if isinstance(place, SeparateHostsPlace):
        place.go_home()


def lose_hosts(place: Place, victim: CallVictim, kind: FaultKind) -> Fault:
    """Have the host of a server be lost where it runs, or that of one of its sides.

    Raises:
        StealtimeError: It is not protected, or nobody took it over.
    """
    if victim == "primary":
        return place.lose_host(kind)
    if not isinstance(place, SeparateHostsPlace):
        raise TypeError(f"{place!r} has no host for {victim} alone")
    return place.lose_sides(victim, kind)


def lose(place: Place, active: Sequence[MemberStatus], victim: SessionVictim, kind: FaultKind) -> Loss:
    """Have a host of a server be lost.

    Args:
        place: The server; it is protected, or there is another one.
        active: The members of its guests.
        victim: Which host.
        kind: How.

    Raises:
        StealtimeError: It is not protected, or nobody took it over.
    """
    if victim != "standby":
        fault = lose_hosts(place, victim, kind)
        # The member of the other side is still there, and the same.
        lost = active if victim == "primary" else [one for one in active if one.host == fault.died]
        return PrimaryLoss(place, lost, fault, victim)
    if not isinstance(place, GuestPlace):
        raise TypeError(f"{place!r} has no standby")
    return LossOfStandby(place, active, place.lose_standby(active, kind), is_silent=kind == "silent")
