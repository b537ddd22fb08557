"""SIPp's file of statistics (``-trace_stat``): names of columns, then a line each second; the last one counts.

Columns that end in ``(C)`` are cumulative.
"""

import csv
from collections.abc import Iterable
from dataclasses import astuple, dataclass

from stealtime.vocabulary.errors import StealtimeError


@dataclass(frozen=True)
class SippCounts:
    """What SIPp counted over its life."""

    created: int
    successful: int
    failed: int
    retransmissions: int
    gave_up: int
    """Of the failed calls, those that were not answered, through all retransmissions or until their time was over."""
    unexpected: int
    """Of the failed calls, those that got an answer that was not expected."""
    reconnects: int
    """TCP connections that failed."""

    @classmethod
    def sum(cls, counts: Iterable["SippCounts"]) -> "SippCounts":
        """Add up what several SIPps counted."""
        return cls(*map(sum, zip(*map(astuple, counts), strict=True)))


def parse_statistics(text: str) -> SippCounts:
    """Read the last line of a file of statistics.

    Raises:
        StealtimeError: It has no line, or a column is missing.
    """
    rows = [row for row in csv.reader(text.splitlines(), delimiter=";") if row]
    if len(rows) < 2:
        raise StealtimeError("SIPp's statistics hold no line")
    last = dict(zip(rows[0], rows[-1], strict=False))

    def count(*names: str) -> int:
        try:
            return sum(int(last[f"{name}(C)"]) for name in names)
        except (KeyError, ValueError) as error:
            raise StealtimeError(f"SIPp's statistics lack what they should hold: {error}") from error

    return SippCounts(
        created=count("OutgoingCall"),
        successful=count("SuccessfulCall"),
        failed=count("FailedCall"),
        retransmissions=count("Retransmissions"),
        gave_up=count("FailedMaxUDPRetrans", "FailedTimeoutOnRecv"),
        unexpected=count("FailedUnexpectedMessage", "FailedCallRejected"),
        reconnects=count("FailedTcpConnect", "FailedTcpClosed"),
    )
