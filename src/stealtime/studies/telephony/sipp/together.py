"""Several SIPps that are started one after the other and run at the same time.

Each looks for a local port from the usual one on. Over TCP two that look at the same moment may both be given the same
one (``SO_REUSEADDR``, socket(7)): the second that listens there is refused and ends, and its share of a load is never
offered. So the next one is started when the last one listens.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from stealtime.hosts.client import Client
from stealtime.studies.telephony.sipp.ports import listening
from stealtime.studies.telephony.sipp.program import Sipp, SippOrder, start_sipp
from stealtime.vocabulary.errors import StealtimeError

_LISTENS_WITHIN_S = 10.0
_POLL_S = 0.01


@contextlib.contextmanager
def started_together(client: Client, orders: Sequence[SippOrder], folder: Path) -> Iterator[list[Sipp]]:
    """Start SIPps that run at the same time; those that still run at the end are ended.

    Args:
        client: Where they run.
        orders: What each of them does.
        folder: For their files, a folder for each.

    Raises:
        StealtimeError: SIPp is not installed, or one neither listens nor ends within 10 s.
    """
    running: list[Sipp] = []
    try:
        for number, order in enumerate(orders):
            # Over UDP each gets a port of its own, whenever it looks.
            is_waited_for = order.transport != "udp" and number + 1 < len(orders)
            before = listening(client) if is_waited_for else set[int]()
            running.append(start_sipp(client, order, folder / f"generator-{number}"))
            if is_waited_for:
                _await_port(client, running[-1], before)
        yield running
    finally:
        for sipp in running:
            sipp.end()


def _await_port(client: Client, sipp: Sipp, before: set[int]) -> None:
    """Wait until a SIPp has its port; one that has ended tells by itself what the matter was."""
    ends_at = time.monotonic() + _LISTENS_WITHIN_S
    while listening(client) <= before and not sipp.has_ended:
        if time.monotonic() > ends_at:
            raise StealtimeError(f"SIPp did not listen within {_LISTENS_WITHIN_S:g} s: {sipp.log_tail()}")
        time.sleep(_POLL_S)
