"""Whether a server was the same, and as protected, all the time while it was measured."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from stealtime.hosts.host import NotProtectedError
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.place.model import Place
from stealtime.vocabulary.errors import StealtimeError


@contextmanager
def steady(place: Place) -> Iterator[Sequence[MemberStatus]]:
    """See that a server stays what it was: else what was measured is something else. Gives the members of its guests.

    Raises:
        NotProtectedError: It lost its standby, or left its host: the trial may be tried again.
        StealtimeError: It ended.
    """
    members, from_ns = place.await_protected(), time.monotonic_ns()
    yield members
    place.check_protected(members, from_ns)
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
