"""Whether the guests of a plan have a kernel, before one is booted."""

from stealtime.campaigns.intention import Intention
from stealtime.campaigns.model import USABLE, Campaign
from stealtime.lab.image.kernel import check_kernel
from stealtime.lab.platforms.traits import traits_of
from stealtime.vocabulary.errors import UsageError

_DEFAULT = Campaign.model_fields["kernel"].default


def refuse_unusable_kernel(intention: Intention) -> list[str]:
    """See that the kernel that was chosen exists and is one, and that a planned guest boots it.

    Returns:
        That none does, where the machines were left to us.

    Raises:
        UsageError: It is not there, or no kernel, or none of the machines that were named boots it.
    """
    campaign = intention.plan.campaign
    if any(traits_of(boot.platform).boots_chosen_kernel for boot in intention.on_machines):
        check_kernel(campaign.kernel)
        return []
    if campaign.kernel == _DEFAULT and not intention.is_kernel_named:
        return []
    nobody = f"the kernel {campaign.kernel!r} was chosen, and no machine of this run boots it"
    if USABLE in campaign.platforms:
        return [f"{nobody}: only QEMU's do, and none is usable here"]
    raise UsageError(
        nobody, hint="add a machine of QEMU (`stealtime doctor` shows which are usable), or choose no kernel"
    )
