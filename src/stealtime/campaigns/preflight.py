"""All checks before anything starts, for ``run`` and ``run --dry-run`` alike.

What can be known beforehand must not be found after boots, or at the end of hours. A check takes an
:class:`stealtime.campaigns.intention.Intention`, raises where nothing should be started, and gives sentences that the
user should know before it is. It changes nothing, and takes a second at most. A new one goes into ``CHECKS``; its
function belongs to the file of its subject.
"""

import asyncio
from collections.abc import Callable, Sequence

from stealtime.campaigns import (
    keeping,
    kernels,
    loops,
    provenance,
    requests,
    resources,
    rights,
    thresholds,
)
from stealtime.campaigns.intention import Intention

Check = Callable[[Intention], Sequence[str]]
"""Raises ``StealtimeError`` (``UsageError`` where another command line would do) with a hint, or gives remarks."""

CHECKS: tuple[Check, ...] = (
    thresholds.refuse_unbounded,
    provenance.refuse_resumption,
    kernels.refuse_unusable_kernel,
    requests.refuse_what_agents_refuse,
    requests.refuse_disturbance_without_room,
    requests.refuse_threshold_without_samples,
    loops.refuse_loops_too_long,
    rights.refuse_lifting_without_rights,
    rights.refuse_shares_without_rights,
    rights.refuse_drivers_that_cannot_be_had,
    resources.refuse_machines_without_room,
    resources.refuse_cells_without_room,
    rights.refuse_folder_without_rights,
    keeping.tell_what_is_not_kept_in_part,
    resources.tell_which_cpus_were_inherited,
)
"""In the order in which they are made: the first that raises is the one that is told."""


async def check_before_start(intention: Intention) -> tuple[str, ...]:
    """Make all checks.

    Returns:
        Sentences about what does not prevent the run, but that should be known before it begins.

    Raises:
        StealtimeError: Something is known that would fail, or mean nothing, later.
    """
    remarks: list[str] = []
    for check in CHECKS:
        # In a thread: some read files, and a display goes on meanwhile.
        remarks += await asyncio.to_thread(check, intention)
    return tuple(dict.fromkeys(remarks))
