"""The host that backs guests is lost: when they were not protected any more, and when they were again.

A standby notes no states of its own. Whether it protected the guest to the end, its active member tells.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stealtime.hosts.clock_offset import Moment
from stealtime.hosts.guest import Guest
from stealtime.hosts.host import FaultKind, NotProtectedError
from stealtime.protect.status import MemberStatus

_PROTECTED, _ALONE = "Protected", "Unprotected"
"""As ``crates/succession`` names states of an active member. Before it is alone it asks the register (Reclaiming)."""


@dataclass(frozen=True)
class StandbyLoss:
    """A host that backed guests, and is lost."""

    struck: Moment
    """When the first of its members was struck."""
    host: str
    pids: frozenset[int]
    """Its members, which protect nothing any more."""


@dataclass(frozen=True)
class Lapse:
    """What guests did that were not protected, in nanoseconds of our monotonic clock. Of several, the last one."""

    noticed_ns: int
    """When its active member had noticed."""
    alone_ns: int
    """When the register had said that it is alone: in ``net`` what it says is held until then."""
    protected_ns: int
    """When it was protected again."""
    error_ns: int
    """How far these moments, and that of the fault, can be off where other hosts' clocks told them."""


def lose_standby(guests: Sequence[Guest], active: Sequence[MemberStatus], kind: FaultKind) -> StandbyLoss:
    """Have the host that backs some guests be lost.

    Args:
        guests: They have the same standby.
        active: Their active members.
        kind: ``killed`` or ``silent``: a standby has no guest that could be moved away.

    Raises:
        NotProtectedError: A guest has no standby just now.
    """
    standbys = [_standby_of(guest, one) for guest, one in zip(guests, active, strict=True)]
    struck = [guest.lose_host(one, kind) for guest, one in zip(guests, standbys, strict=True)]
    pids = frozenset(one.pid for one in standbys if one.pid is not None)
    return StandbyLoss(min(struck, key=lambda one: one.at_ns), standbys[0].host, pids)


def lapse_after(guests: Sequence[Guest], active: Sequence[MemberStatus], loss: StandbyLoss) -> Lapse:
    """Tell how long guests, which are protected again, were not protected after a loss.

    Raises:
        StealtimeError: An active member does not say so.
    """
    each = [_lapse_of(guest, member, loss) for guest, member in zip(guests, active, strict=True)]
    noticed, alone, again = (max(moments, key=lambda one: one.at_ns) for moments in zip(*each, strict=True))
    error_ns = loss.struck.error_ns + max(one.error_ns for one in (noticed, alone, again))
    return Lapse(noticed.at_ns, alone.at_ns, again.at_ns, error_ns)


def _lapse_of(guest: Guest, member: MemberStatus, loss: StandbyLoss) -> tuple[Moment, Moment, Moment]:
    """Give when a guest's member noticed, when it was alone, and when the guest was protected again."""
    states = guest.states_after(member, loss.struck)

    def first(is_it: Callable[[str], bool], what: str, after: Moment | None = None) -> Moment:
        found = next((at for state, at in states if is_it(state) and (after is None or at.at_ns >= after.at_ns)), None)
        if found is None:
            raise guest.waiting.failure(f"{member.host} does not say when {guest.name} {what}")
        return found

    noticed = first(lambda state: state != _PROTECTED, "was not protected any more")
    alone = first(lambda state: state == _ALONE, "was alone", noticed)
    return noticed, alone, first(lambda state: state == _PROTECTED, "was protected again", alone)


def _standby_of(guest: Guest, active: MemberStatus) -> MemberStatus:
    found = [one for one in guest.members() if one.host != active.host and one.role == "standby" and one.protected]
    if not found:
        raise NotProtectedError(f"the guest {guest.name} had no standby when that was to be lost")
    return found[0]
