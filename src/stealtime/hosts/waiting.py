"""Waiting for what somebody else does."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from stealtime.hosts.client import Client
from stealtime.vocabulary.errors import StealtimeError

POLL_S = 0.02
PATIENCE_S = 180.0
"""A translated guest boots in a few seconds on an idle host; the first copy of all memory may go over a slow link."""

Found = TypeVar("Found")


def poll(find: Callable[[], Found | None], within_s: float, poll_s: float = POLL_S) -> Found | None:
    """Look for something again and again; None if it is not found (or only what is false) in time."""
    deadline = time.monotonic() + within_s
    while not (found := find()):
        if time.monotonic() > deadline:
            return None
        time.sleep(poll_s)
    return found


@dataclass(frozen=True)
class Waiting:
    """Waits for what happens on hosts, as long as it is worth it.

    Attributes:
        client: Who would talk with the guests; what has no client any more is not waited for.
        log_tail: Gives the end of all logs.
        poll_s: How often to look.
    """

    client: Client
    log_tail: Callable[[], str]
    poll_s: float = POLL_S

    def until(
        self, find: Callable[[], Found | None], otherwise: Callable[[], str], within_s: float = PATIENCE_S
    ) -> Found:
        """Wait until something is found (not None, not false).

        Raises:
            StealtimeError: It does not come.
        """
        deadline = time.monotonic() + within_s
        while not (found := find()):
            if time.monotonic() > deadline or self.client.has_ended:
                raise self.failure(otherwise())
            time.sleep(self.poll_s)
        return found

    def failure(self, message: str) -> StealtimeError:
        """Give an error with what was written last as a note."""
        error = StealtimeError(message)
        error.add_note(self.log_tail())
        return error
