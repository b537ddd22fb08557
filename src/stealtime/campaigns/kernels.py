"""Whether the guests of a plan have a kernel, before one is booted."""

from stealtime.campaigns.intention import Intention
from stealtime.lab.image.kernel import check_kernel
from stealtime.lab.platforms.traits import traits_of


def refuse_unusable_kernel(intention: Intention) -> list[str]:
    """See that the kernel that was chosen exists and is one, if a planned guest boots it.

    Raises:
        UsageError: It is not there, or no kernel.
    """
    if any(traits_of(boot.platform).boots_chosen_kernel for boot in intention.on_machines):
        check_kernel(intention.plan.campaign.kernel)
    return []
