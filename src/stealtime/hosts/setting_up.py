"""Setting up the hosts that a boot of a campaign needs: two in namespaces here, or those that its scenario names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from stealtime.campaigns.blocking_driver import entered_in_thread, in_thread_on
from stealtime.campaigns.planned import PlannedBoot
from stealtime.hosts.laboratory import Laboratory, refuse_without_root
from stealtime.hosts.lent_testbed import lent_testbed
from stealtime.hosts.namespace_testbed import HOSTS, NamespaceTestbed
from stealtime.hosts.testbed import Testbed
from stealtime.lab.platforms.qemu_flavour import paravirtual_accelerator
from stealtime.lab.scenarios.placement import Placement
from stealtime.protect.programs import find_pagetrack, find_replicator
from stealtime.vocabulary.errors import StealtimeError


def refuse_testbed() -> None:
    """See that hosts in namespaces can be had on this machine, without setting any up.

    Raises:
        StealtimeError: Rights or programs are missing.
    """
    refuse_without_root()
    find_replicator()
    find_pagetrack()


def accelerator_of(platform: str, what: str, usable: str = "the platform `paravirt`") -> str:
    """Give the accelerator of guests that hosts keep, on a platform of this machine.

    Args:
        platform: The platform.
        what: Is not to be had on others, as the beginning of a sentence.
        usable: Names those where it is.

    Raises:
        StealtimeError: The platform is another one.
    """
    accelerator = paravirtual_accelerator(platform)
    if accelerator is None:
        raise StealtimeError(f"{what} is not to be had as {platform}", hint=f"choose {usable}")
    return accelerator


def refuse_hosts(boot: PlannedBoot, placement: Placement, what: str) -> None:
    """See that two hosts can be set up, without doing so; real ones are asked later.

    Raises:
        StealtimeError: The platform has no such guests, or rights or programs are missing.
    """
    if placement.hosts is None:
        accelerator_of(boot.platform, what)
        refuse_testbed()


@asynccontextmanager
async def set_up_hosts(boot: PlannedBoot, placement: Placement, folder: Path, what: str) -> AsyncIterator[Testbed]:
    """Set up two hosts, or borrow those of the scenario.

    Args:
        boot: Its platform tells how guests run, or which host they begin on.
        placement: Of the scenario, which may name real hosts.
        folder: For logs.
        what: The guests are, for the error where they cannot be had.

    Raises:
        StealtimeError: They are not to be had.
    """
    if placement.hosts is not None:
        async with lent_testbed(boot.platform, placement.hosts, folder) as lent:
            yield lent
        return
    accelerator = accelerator_of(boot.platform, what)
    async with entered_in_thread(Laboratory(HOSTS)) as laboratory:
        yield await in_thread_on(placement, lambda: NamespaceTestbed(laboratory, accelerator=accelerator))
