"""Users whom a server knows before any load: the state that protection then keeps, whoever registers besides.

They register as phones do, over one TCP connection, as fast as the server takes them: only so many are unanswered at a
time. Each is acknowledged, and some of them, spread over all, are asked for before each trial.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from stealtime.campaigns.telling import tell
from stealtime.studies.telephony.place.model import Place
from stealtime.studies.telephony.registrations.load import Load, finish_load, registering, unknown_users
from stealtime.studies.telephony.sipp.program import start_sipp
from stealtime.vocabulary.errors import StealtimeError

_NAMES = "user"
"""Phones of loads have others."""
_AT_ONCE = 1_000
"""Unanswered: so a server that holds its answers for 100 ms takes up to 10,000 a second."""
_OFFERED_PER_S = 20_000.0
"""More than any server here takes."""
_PART = 10_000
"""As many before it is told how far it is."""
_SLOWEST_PER_S = 100.0
"""A server that takes less than this is too slow for its state."""
_TRIES = 3
_RENEWED_AFTER_S = 1_800.0
"""They expire after an hour (``sipp/scenarios/register.xml``), in which the longest trial has to end."""
_ASKED_MAX = 500


class Enrolment:
    """Users that one server knows.

    Args:
        place: The server.
        users: How many; it is never used with another number.
    """

    def __init__(self, place: Place, users: int) -> None:
        self._place = place
        self._load = Load(transport="tcp-one", rate_per_s=_OFFERED_PER_S, count=max(1, users), names=_NAMES)
        self.users = users
        self._serials = count(1)
        self._registered_at_s: float | None = None

    def see_to(self, folder: Path) -> None:
        """See that the server knows them for half an hour at least: they register where they have not, or long ago.

        Args:
            folder: For the files of SIPp.

        Raises:
            StealtimeError: It does not take all of them, or has forgotten some.
        """
        if not self.users:
            return
        is_fresh = self._registered_at_s is not None and time.monotonic() - self._registered_at_s < _RENEWED_AFTER_S
        if not is_fresh:
            began_s, users = time.monotonic(), self._load.users
            for first in range(0, len(users), _PART):
                self._register(users[first : first + _PART], folder)
                done = min(first + _PART, len(users))
                tell(f"{done:,} of {len(users):,} users are registered, after {time.monotonic() - began_s:.0f} s")
            # Those who were first expire first.
            self._registered_at_s = began_s
        asked = some_of(self.users)
        if forgotten := unknown_users(self._place.client, self._place.address, asked, folder / self._next("known")):
            raise StealtimeError(
                f"of {len(asked)} registered users that the server was asked for it does not know {len(forgotten)}, "
                f"such as {forgotten[0]}",
                hint="was it started anew? What it wrote is in the log of the trial",
            )

    def _register(self, users: Sequence[str], folder: Path) -> None:
        left, said = list(users), ""
        for _ in range(_TRIES):
            order = replace(
                registering(self._load, self._place.address, left),
                rate_per_s=_OFFERED_PER_S,
                at_once=_AT_ONCE,
                limit_s=len(left) / _SLOWEST_PER_S,
            )
            try:
                registered = finish_load(start_sipp(self._place.client, order, folder / self._next("enrolled")))
            except StealtimeError as error:
                # As where the server has ended, and is started again.
                said = error.message
                continue
            left = [user for user in left if user not in registered.answered_ns]
            if not left:
                return
            said = registered.finished.said
        raise StealtimeError(
            f"of {len(users):,} users who were to be registered before the load the server did not take {len(left):,}, "
            f"such as {left[0]}: {said}",
            hint="was its memory full (what it wrote is in the log of the trial)? Give fewer as `registered`",
        )

    def _next(self, what: str) -> str:
        return f"{what}-{next(self._serials)}"


def some_of(users: int) -> list[str]:
    """Give the names of some hundred users, spread evenly over all who are registered before a load."""
    names = Load(transport="tcp-one", rate_per_s=_OFFERED_PER_S, count=users, names=_NAMES).users
    return [names[number * users // _ASKED_MAX] for number in range(_ASKED_MAX)] if users > _ASKED_MAX else names
