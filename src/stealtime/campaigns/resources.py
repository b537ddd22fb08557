"""Whether the host's memory holds the machines of a plan, and which of its CPUs the plan takes."""

from stealtime.campaigns.intention import Intention
from stealtime.lab.memory import read_memory_room, refuse_machine_of
from stealtime.lab.platforms.traits import traits_of


def refuse_guests_without_room(intention: Intention) -> list[str]:
    """See that a guest of the campaign fits into the memory that may still be used.

    Raises:
        UsageError: It does not; the kernel would kill it, or this process.
    """
    if any(traits_of(boot.platform).is_guest for boot in intention.on_machines):
        refuse_machine_of(intention.plan.campaign.memory_bytes, read_memory_room())
    return []


def tell_which_cpus_were_inherited(intention: Intention) -> tuple[str, ...]:
    """Say it if this process, or a login over ssh, was started on fewer CPUs than it may have, and none was named."""
    return intention.plan.places.remarks
