"""Whether the memory holds the machines of a plan and what they work on, and which CPUs the plan takes."""

from stealtime.campaigns.intention import Intention
from stealtime.campaigns.planned import PlannedCell
from stealtime.campaigns.registry import parameters_of, probes
from stealtime.lab.memory import read_memory_room, refuse_machine_of
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.neighbour_load import refuse_too_much_memory
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.quantities import approximate_size

_BYTES_A_SAMPLE = 4
"""At least; a gap before it takes as many."""


def refuse_machines_without_room(intention: Intention) -> list[str]:
    """See that a guest, its neighbours and the blocks that they copy fit into the memory that may still be used.

    Raises:
        UsageError: They do not; the kernel would kill one of them, or this process.
    """
    memory_bytes = intention.plan.campaign.memory_bytes
    if any(traits_of(boot.platform).is_guest for boot in intention.on_machines):
        refuse_machine_of(memory_bytes, read_memory_room())
    for boot in intention.on_machines:
        # The memory of a host over ssh is not known here.
        if not traits_of(boot.platform).is_remote:
            placement = intention.plan.placement(boot.platform, boot.scenario)
            refuse_too_much_memory(placement, memory_bytes if traits_of(boot.platform).is_guest else None)
    return []


def refuse_cells_without_room(intention: Intention) -> list[str]:
    """See that each machine has the memory that its cells work on.

    Raises:
        UsageError: One has less.
    """
    campaign, room = intention.plan.campaign, read_memory_room()
    for boot in intention.on_machines:
        traits = traits_of(boot.platform)
        if traits.is_remote or (room is None and not traits.is_guest):
            continue
        has_bytes = campaign.memory_bytes if traits.is_guest or room is None else room.bytes
        for planned in boot.cells:
            needs_bytes = _needed_bytes(planned, campaign.checkpoint_ns)
            if needs_bytes > has_bytes:
                cell = planned.cell
                raise UsageError(
                    f"{probes()[cell.probe].describe(cell.parameters)} takes {approximate_size(needs_bytes)} of "
                    f"memory, and {boot.platform} has {approximate_size(has_bytes)}",
                    hint="give the guests more `memory`, or measure what takes less"
                    if traits.is_guest
                    else "measure what takes less, or end something on this host",
                )
    return []


def _needed_bytes(planned: PlannedCell, checkpoint_ns: int) -> int:
    """Give what a trial works on, and its memory of samples where their number is given and they are not taken away."""
    probe = probes()[planned.cell.probe]
    keeps_all = probe.result.comes_in_parts and planned.duration_ns <= checkpoint_ns
    samples = planned.max_samples if keeps_all and planned.max_samples is not None else 0
    return parameters_of(planned.cell).memory_bytes + _BYTES_A_SAMPLE * samples


def tell_which_cpus_were_inherited(intention: Intention) -> tuple[str, ...]:
    """Say it if this process, or a login over ssh, was started on fewer CPUs than it may have, and none was named."""
    return intention.plan.places.remarks
