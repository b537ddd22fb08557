"""The kernel's limit of real-time threads on this host: whether this process may lift it. The agent does."""

import os
from pathlib import Path

_LIMIT = Path("/proc/sys/kernel/sched_rt_runtime_us")
_NO_LIMIT = -1


def why_not_liftable(limit: Path = _LIMIT) -> str | None:
    """Say why RT throttling cannot be lifted on this host; None where it can be, or is lifted already.

    Args:
        limit: The kernel's file, in us of every period; -1 is no limit.
    """
    try:
        is_lifted = int(limit.read_text()) == _NO_LIMIT
    except (OSError, ValueError) as error:
        return f"{limit}: {error.strerror if isinstance(error, OSError) else error}"
    if is_lifted or os.access(limit, os.W_OK, effective_ids=True):
        return None
    return f"{limit} may not be written by user {os.geteuid()}"
