"""The CPUs that a run claims while it measures, and waiting for another run that has some of them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from stealtime.campaigns.planner import Plan
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.cpu_claims import CpuClaims, CpusClaimedError
from stealtime.vocabulary.errors import StealtimeError

logger = logging.getLogger(__name__)

_AGAIN_AFTER_S = 0.5


def measured_cpus_of(plan: Plan) -> tuple[int, ...]:
    """Give the CPUs of this host that machines of a plan measure on; those of hosts over ssh are not this one's."""
    placements = [
        plan.placement(boot.platform, boot.scenario) for boot in plan.boots if not traits_of(boot.platform).is_remote
    ]
    return tuple(sorted({cpu for one in placements for cpus in one.vcpu_cpus for cpu in cpus}))


def claimed_cpus_of(plan: Plan) -> tuple[int, ...]:
    """Give these CPUs and those of the neighbours, whose load would disturb another run, and be disturbed by it."""
    placements = [
        plan.placement(boot.platform, boot.scenario) for boot in plan.boots if not traits_of(boot.platform).is_remote
    ]
    of_neighbours = {cpu for one in placements for neighbour in one.neighbours for cpu in neighbour.cpus}
    return tuple(sorted(of_neighbours.union(measured_cpus_of(plan))))


async def _pause(claimed_by: CpusClaimedError) -> None:
    try:
        await asyncio.sleep(_AGAIN_AFTER_S)
    except asyncio.CancelledError:
        names = ", ".join(holder.what for holder in claimed_by.holders)
        raise StealtimeError(f"interrupted while waiting for {names}; nothing was measured") from None


@asynccontextmanager
async def claimed(
    plan: Plan, what: str, *, wait: bool, tell: Callable[[str], None] = lambda _: None
) -> AsyncIterator[CpuClaims]:
    """Hold the CPUs of a plan until the context is left.

    Args:
        plan: Of the run.
        what: Who says to hold them, as long as the run has no id.
        wait: Whether to wait for who has one of them.
        tell: Is given a sentence whenever it changes who is waited for.

    Raises:
        CpusClaimedError: Another run has one of them, and is not waited for.
    """
    claims = CpuClaims(claimed_cpus_of(plan), what)
    told: str | None = None
    while True:
        try:
            claims.take()
        except CpusClaimedError as error:
            if not wait:
                raise
            sentence = "waiting: " + "; ".join(holder.words for holder in error.holders)
            if sentence != told:
                tell(told := sentence)
            await _pause(error)
            continue
        except OSError as error:
            # Where nobody can claim, nobody is refused: strangers are found by what they use.
            logger.debug("CPUs cannot be claimed: %s", error)
        break
    try:
        yield claims
    finally:
        claims.release()
