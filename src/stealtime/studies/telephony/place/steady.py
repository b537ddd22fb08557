"""Whether a server was the same, and as protected, all the time while it was measured."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from stealtime.hosts.stand import NotProtectedError, StandGuest
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.place.model import Place
from stealtime.vocabulary.errors import StealtimeError


@contextmanager
def steady(place: Place) -> Iterator[None]:
    """See that a server stays what it was: else what was measured is something else.

    Raises:
        NotProtectedError: It lost its standby, or left its host: the trial may be tried again.
        StealtimeError: It ended.
    """
    members, from_ns = place.await_protected(), time.monotonic_ns()
    yield
    place.refuse_lapse(members, from_ns)
    now = {member.pid for member in place.members()}
    for member in members:
        if member.pid in now:
            continue
        if member.protected:
            raise NotProtectedError(f"a guest of the server left {member.host} while it was measured")
        raise StealtimeError(
            f"a guest of the server on {member.host} ended while it was measured",
            hint="what it wrote last is in the log of the trial",
        )


def refuse_lapse(guests: Sequence[StandGuest], members: Sequence[MemberStatus], from_ns: int) -> None:
    """See that guests were protected all the time since a moment: their output was held only then.

    Args:
        guests: In the order of ``members``; those in the mode ``off`` have nothing to lose.
        members: Those that were active then.
        from_ns: The moment, of the monotonic clock.

    Raises:
        NotProtectedError: They were not.
    """
    refuse_states(
        [
            state
            for guest, member in zip(guests, members, strict=True)
            if guest.vm.mode != "off"
            for state in guest.states_since(member, from_ns)
        ]
    )


def refuse_states(lapsed: Sequence[str]) -> None:
    """See that members entered no other state while they were to protect.

    Raises:
        NotProtectedError: They did.
    """
    if lapsed:
        raise NotProtectedError(
            f"the server was not protected all the time while it was measured (its member was {', '.join(lapsed)})",
            hint="this host is too busy for the default deadlines",
        )
