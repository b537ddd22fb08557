"""Placing: from a scenario and this host's CPUs to who runs where. Pure.

"All" means all CPUs that there are. Where that differs from the host of the paper, the placement says how; where the
scenario would lose its meaning, it is skipped with the reason.
"""

from dataclasses import dataclass, replace

from stealtime.lab.platforms.share import DEFAULT_WEIGHT, Share
from stealtime.lab.processors import CpuSets
from stealtime.lab.scenarios.cpus import parse_cpus
from stealtime.lab.scenarios.model import NeighbourSpec, Scenario
from stealtime.lab.scenarios.placement import CpuSet, PlacedNeighbour, Placement, ScenarioSkipped
from stealtime.vocabulary.cpu_lists import format_cpus
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.findings import Finding


def place(scenario: Scenario, host_cpus: CpuSet, measured_cpu: int | None, sets: CpuSets | None = None) -> Placement:
    """Find who runs on which CPU of this host.

    Args:
        host_cpus: The CPUs that "all" means, in order.
        measured_cpu: The one to measure; None takes the last of those that the kernel keeps free, else of all:
            CPU 0 takes interrupts that the others are spared.
        sets: What else is known of the host's CPUs: which may be named though they are none of ``host_cpus``.

    Raises:
        UsageError: It names a CPU that does not exist or may not be used.
        ScenarioSkipped: This host has not what it needs; another scenario in its place would not be honest.
    """
    sets = sets or CpuSets(inherited=host_cpus, granted=host_cpus)
    nameable = tuple(sorted({*host_cpus, *sets.granted}))
    if measured_cpu is not None and measured_cpu not in nameable:
        raise UsageError(
            f"CPU {measured_cpu} does not exist or may not be used",
            hint=f"the kernel grants the CPUs {format_cpus(nameable)} here",
        )
    if measured_cpu is not None:
        host_cpus = tuple(sorted({*host_cpus, measured_cpu}))
    preferred = tuple(cpu for cpu in sets.preferred if cpu in host_cpus) or host_cpus
    kept_free = tuple(cpu for cpu in sets.kept_free if cpu in host_cpus)
    available = _Available(host_cpus, nameable)
    if len(host_cpus) < scenario.minimum_cpus:
        why = f": {scenario.too_few}" if scenario.too_few else ""
        raise ScenarioSkipped(
            f"{scenario.name} needs {_cpus(scenario.minimum_cpus)}, here {_are(len(host_cpus))}"
            f"{available.words(scenario.minimum_cpus)}{why}",
            hint=available.hint(scenario.minimum_cpus, "measure it on a machine with more CPUs"),
        )
    chosen = preferred[-1] if measured_cpu is None else measured_cpu
    # Those that the kernel keeps free come first: a virtual CPU belongs there rather than beside the control plane.
    order = (*kept_free, *(cpu for cpu in host_cpus if cpu not in kept_free))
    vcpu_cpus = _vcpu_cpus(scenario, order, chosen, available)
    measured = vcpu_cpus[-1]
    anchor = chosen if chosen in measured else measured[-1]
    taken = {cpu for cpus in vcpu_cpus for cpu in cpus}
    # Where all CPUs are taken, the control plane goes to the first but the measured one, as the paper's parent
    # partition was parked on core 0.
    # It keeps off the CPUs that the kernel keeps free, measured or not: what goes there by chance stays there.
    housekeeping = (
        tuple(cpu for cpu in host_cpus if cpu not in taken and cpu not in kept_free)
        or tuple(cpu for cpu in host_cpus if cpu not in taken)
        or tuple(cpu for cpu in host_cpus if cpu != anchor)[:1]
        or host_cpus
    )
    emulator = {"housekeeping": housekeeping, "measured": measured, "all": host_cpus}[scenario.emulator]
    placement = Placement(
        scenario=scenario.name,
        measured_cpu=anchor,
        vcpu_cpus=vcpu_cpus,
        emulator_cpus=emulator,
        housekeeping_cpus=housekeeping,
        share=scenario.share,
        priority=scenario.priority,
        neighbours=_neighbours(scenario, host_cpus, vcpu_cpus, available),
        hosts=scenario.hosts,
        findings=(*_shared_cpu(available, measured, housekeeping), *_roams_isolated(vcpu_cpus, sets)),
        scaled=_scaled(scenario, host_cpus),
    )
    return _with_all_weights(placement)


@dataclass(frozen=True)
class _Available:
    """The CPUs that there are for a process that may have been started on fewer than it may have."""

    cpus: CpuSet
    """Those that it was started on, and the one that was named."""
    nameable: CpuSet
    """Those that the kernel grants."""

    def words(self, needed: int) -> str:
        """Say that there are so few for this reason, where without it there would be enough."""
        if not self._would_do(needed):
            return ""
        return f", since the process is confined to CPU {format_cpus(self.cpus)} (taskset?)"

    def hint(self, needed: int, otherwise: str) -> str:
        """Say how to have that many CPUs, where that is known, and something else otherwise."""
        if not self._would_do(needed):
            return otherwise
        return f"start it without taskset: the kernel grants CPU {format_cpus(self.nameable)}"

    def _would_do(self, needed: int) -> bool:
        return len(self.cpus) < needed <= len(self.nameable)


def vcpus_of(scenario: Scenario, host_cpus: CpuSet) -> int:
    match scenario.vcpus:
        case "all":
            return len(host_cpus)
        case "half":
            return max(1, len(host_cpus) // 2)
        case count:
            return count


def _vcpu_cpus(scenario: Scenario, host_cpus: CpuSet, measured: int, available: _Available) -> tuple[CpuSet, ...]:
    vcpus = vcpus_of(scenario, host_cpus)
    if scenario.cpus == "all":
        return (tuple(sorted(host_cpus)),) * vcpus
    if scenario.cpus != "measured":
        return (tuple(sorted(parse_cpus(scenario.cpus, available.nameable))),) * vcpus
    others = [cpu for cpu in host_cpus if cpu != measured]
    if vcpus > len(host_cpus):
        raise ScenarioSkipped(
            f"{scenario.name} pins {vcpus} vCPUs to a CPU each, here {_are(len(host_cpus))}{available.words(vcpus)}",
            hint=available.hint(vcpus, 'let them roam (cpus = "all"), or measure it on a machine with more CPUs'),
        )
    return (*((cpu,) for cpu in others[: vcpus - 1]), (measured,))


def _neighbours(
    scenario: Scenario, host_cpus: CpuSet, vcpu_cpus: tuple[CpuSet, ...], available: _Available
) -> tuple[PlacedNeighbour, ...]:
    placed: list[PlacedNeighbour] = []
    for spec in scenario.neighbours:
        vcpus = len(vcpu_cpus) if spec.vcpus == "same" else spec.vcpus
        taken = len(vcpu_cpus) + sum(one.vcpus for one in placed)
        for number in range(_count(scenario, spec, available, taken, vcpus)):
            if spec.cpus == "in-turn":
                each = _in_turn(host_cpus, vcpu_cpus, range(taken + number * vcpus, taken + (number + 1) * vcpus))
            else:
                each = (_neighbour_cpus(scenario, spec, available, vcpu_cpus[-1]),) * vcpus
            placed.append(
                PlacedNeighbour(
                    name=f"neighbour {len(placed) + 1}",
                    kind=spec.kind,
                    load=spec.load,
                    cpus=tuple(sorted({cpu for cpus in each for cpu in cpus})),
                    share=_for_vcpus(spec.share, vcpus),
                    priority=spec.priority,
                    block_bytes=spec.block_bytes,
                    on_ns=spec.on_ns,
                    off_ns=spec.off_ns,
                    vcpu_cpus=each,
                )
            )
    return tuple(placed)


def _in_turn(host_cpus: CpuSet, vcpu_cpus: tuple[CpuSet, ...], numbers: range) -> tuple[CpuSet, ...]:
    """Give one CPU to each of some virtual CPUs.

    Args:
        host_cpus: All that there are.
        vcpu_cpus: Of the machine; those that it is pinned to come first.
        numbers: Of the virtual CPUs, those of the machine and of the neighbours before counted.
    """
    pinned = [cpus[0] for cpus in vcpu_cpus if len(cpus) == 1]
    order = [*pinned, *(cpu for cpu in host_cpus if cpu not in pinned)]
    return tuple((order[number % len(order)],) for number in numbers)


def _for_vcpus(share: Share | None, vcpus: int) -> Share | None:
    """Give the share of a machine whose quota was said for each of its virtual CPUs."""
    if share is None or share.quota_percent is None:
        return share
    return share.model_copy(update={"quota_percent": share.quota_percent * vcpus})


def _count(scenario: Scenario, spec: NeighbourSpec, available: _Available, taken: int, vcpus: int) -> int:
    """Give how many neighbours there are.

    Args:
        scenario: For the reason why it is skipped.
        spec: Says how many.
        available: The CPUs of the host.
        taken: Virtual CPUs of the machine and of the neighbours before.
        vcpus: Of each of these.
    """
    cpus = len(available.cpus)
    if spec.count in ("rest", "twice"):
        return max(0, ((2 if spec.count == "twice" else 1) * cpus - taken) // vcpus)
    if isinstance(spec.count, int):
        return spec.count
    if cpus == 1:
        raise ScenarioSkipped(
            f"{scenario.name} has a neighbour for each other CPU, and here is one CPU only{available.words(2)}",
            hint=available.hint(2, "measure it on a machine with more CPUs"),
        )
    return cpus - 1


def _neighbour_cpus(scenario: Scenario, spec: NeighbourSpec, available: _Available, measured: CpuSet) -> CpuSet:
    match spec.cpus:
        case "measured":
            return measured
        case "all":
            return available.cpus
        case "others":
            others = tuple(cpu for cpu in available.cpus if cpu not in measured)
            if not others:
                needed = len(measured) + 1
                raise ScenarioSkipped(
                    f"{scenario.name} keeps its neighbours off the CPUs that are measured, and those are all there are "
                    f"({format_cpus(available.cpus)}){available.words(needed)}",
                    hint=available.hint(
                        needed, 'give the neighbours cpus = "all", or measure it on a machine with more CPUs'
                    ),
                )
            return others
        case listed:
            return tuple(sorted(parse_cpus(listed, available.nameable)))


def _shared_cpu(available: _Available, measured: CpuSet, housekeeping: CpuSet) -> tuple[Finding, ...]:
    """Say it if the control plane runs where it is measured."""
    shared = [cpu for cpu in housekeeping if cpu in measured]
    if not shared:
        return ()
    if len(available.cpus) == 1:
        is_only = len(available.nameable) == 1
        (cpu,) = available.cpus
        why = f"CPU {cpu} is the only one" if is_only else f"the process is confined to CPU {cpu} (taskset?)"
        text = f"{why}, so the control plane runs on the measured CPU as well"
        hint = available.hint(2, "measure on a machine with two CPUs or more")
    else:
        text = (
            f"the control plane and the measured vCPU share CPU {format_cpus(shared)}: it may run on the CPUs "
            f"{format_cpus(measured)}"
        )
        hint = "it is quiet while a trial runs; `alone` keeps it off the measured CPU"
    return (Finding(code="shared_cpu", level="limits", text=text, hint=hint),)


def _roams_isolated(vcpu_cpus: tuple[CpuSet, ...], sets: CpuSets) -> tuple[Finding, ...]:
    """Say it if a virtual CPU may run on several CPUs between which the kernel moves nothing."""
    roaming = {cpu for cpus in vcpu_cpus if len(cpus) > 1 for cpu in cpus}
    isolated = tuple(sorted(roaming & set(sets.isolated)))
    if not isolated:
        return ()
    return (
        Finding(
            code="isolated_cpus_roamed",
            level="limits",
            text=f"the measured vCPU may run on CPU {format_cpus(isolated)}, which is isolated: the kernel moves "
            f"nothing to and from there, so it may stay where it began (it may run on the CPUs "
            f"{format_cpus(tuple(sorted(roaming)))})",
            hint="measure scenarios that roam on a host without isolcpus=",
        ),
    )


def _scaled(scenario: Scenario, host_cpus: CpuSet) -> str | None:
    if scenario.paper_number is None or len(host_cpus) == scenario.paper_cpus:
        return None
    changes = []
    if scenario.cpus == "all":
        changes.append(f"the vCPU may run on {_cpus(len(host_cpus))} instead of {scenario.paper_cpus}")
    for spec in scenario.neighbours:
        if spec.count == "others":
            here, there = len(host_cpus) - 1, scenario.paper_cpus - 1
            changes.append(f"{here} {'neighbour' if here == 1 else 'neighbours'} with {spec.load} instead of {there}")
        elif spec.cpus == "all" and isinstance(spec.count, int):
            idle, their_idle = (max(0, cpus - 1 - spec.count) for cpus in (len(host_cpus), scenario.paper_cpus))
            changes.append(f"{_cpus(idle)} left idle instead of {their_idle}")
    if not changes:
        return None
    return (
        f"the paper's host has {_cpus(scenario.paper_cpus)}, here {_are(len(host_cpus))} "
        f"({format_cpus(host_cpus)}): {', '.join(changes)}"
    )


def _with_all_weights(placement: Placement) -> Placement:
    """Give everybody a weight where one has one: weights are compared only between groups of one parent."""
    shares = [placement.share, *(neighbour.share for neighbour in placement.neighbours)]
    if not any(share is not None and share.weight is not None for share in shares):
        return placement
    return replace(
        placement,
        share=_with_weight(placement.share),
        neighbours=tuple(replace(neighbour, share=_with_weight(neighbour.share)) for neighbour in placement.neighbours),
    )


def _with_weight(share: Share | None) -> Share:
    if share is None:
        return Share(weight=DEFAULT_WEIGHT)
    return share if share.weight is not None else share.model_copy(update={"weight": DEFAULT_WEIGHT})


def _cpus(count: int) -> str:
    return "1 CPU" if count == 1 else f"{count} CPUs"


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"
