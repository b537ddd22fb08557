"""What limits the figures of guests that outlive their hosts, in whatever study."""

from collections.abc import Sequence
from typing import Any

from stealtime.report import notation


def limits_of_failovers(results: Sequence[Any]) -> list[str]:
    """Say how far moments may be off that other hosts' clocks told, and how often trials were begun anew.

    Args:
        results: Of the trials of a cell. Each has ``retries``, and ``clock_error_ns`` where a host died.
    """
    told = []
    if error_ns := max((getattr(one, "clock_error_ns", 0) for one in results), default=0):
        told.append(
            "fault, detection and running were told by the clocks of two other hosts: each is known to within "
            f"{notation.duration(error_ns, 3)}"
        )
    if retries := sum(one.retries for one in results):
        told.append(f"begun anew {retries}x, because the guest lost its standby meanwhile on this busy host")
    return told
