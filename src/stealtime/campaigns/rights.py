"""Whether this process has the rights that a plan needs, before the plan is begun."""

from stealtime.campaigns.intention import Intention
from stealtime.lab.platforms.cgroup import refuse_without_groups
from stealtime.lab.platforms.realtime_limit import why_not_liftable
from stealtime.lab.platforms.traits import traits_of
from stealtime.store.files import check_writable
from stealtime.store.writer import disk_errors
from stealtime.vocabulary.errors import WHAT_WORKS_HINT, StealtimeError


def refuse_lifting_without_rights(intention: Intention) -> list[str]:
    """See that RT throttling can be lifted on this host, if it is to be.

    Raises:
        StealtimeError: It cannot.
    """
    campaign = intention.plan.campaign
    natively = [boot for boot in intention.on_machines if traits_of(boot.platform).is_native]
    if any(campaign.lifts_rt_throttling(boot.platform) for boot in natively):
        reason = why_not_liftable()
        if reason is not None:
            raise StealtimeError(
                f"RT throttling cannot be lifted on this host: {reason}",
                hint=f"run the same command as root, or leave --lift-rt-throttling out{WHAT_WORKS_HINT}",
            )
    return []


def refuse_shares_without_rights(intention: Intention) -> list[str]:
    """See that CPU groups can be made, if a machine or a neighbour is to have a share.

    Raises:
        CpuGroupError: They cannot.
    """
    for boot in intention.on_machines:
        placement = intention.plan.placement(boot.platform, boot.scenario)
        shares = [placement.share, *(neighbour.share for neighbour in placement.neighbours)]
        if any(share is not None for share in shares) and not traits_of(boot.platform).is_remote:
            refuse_without_groups()
    return []


def refuse_drivers_that_cannot_be_had(intention: Intention) -> list[str]:
    """Ask each driver of the plan whether it can be set up.

    Raises:
        StealtimeError: One cannot; with its reason.
    """
    for boot, driver in intention.driven:
        driver.refuse(boot, intention.plan.placement(boot.platform, boot.scenario))
    return []


def refuse_folder_without_rights(intention: Intention) -> list[str]:
    """See that the run can be written where it is to be.

    Raises:
        DiskError: It cannot.
    """
    folder = intention.runs_folder if intention.resume is None else intention.resume.folder
    with disk_errors(folder):
        check_writable(folder)
    return []
