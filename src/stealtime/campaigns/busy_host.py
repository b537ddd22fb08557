"""Is this host busy just before a run? A warning, and a remark in the run's document; nothing is refused for it."""

from stealtime.campaigns.claims import claimed_cpus_of, measured_cpus_of
from stealtime.campaigns.planner import Plan
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.scenarios.cpu_claims import held_by_others
from stealtime.lab.strangers.before_run import finding_of, look_before
from stealtime.vocabulary.cpu_lists import format_cpus
from stealtime.vocabulary.findings import Finding


def findings_before(plan: Plan) -> list[Finding]:
    """Look at the CPUs that a plan measures on, for less than half a second; nothing of a plan for other hosts."""
    cpus = measured_cpus_of(plan)
    if not cpus:
        return []
    busy = finding_of(look_before(cpus))
    return [*([busy] if busy is not None else []), *_kept_house(plan)]


def _kept_house(plan: Plan) -> list[Finding]:
    """Say that our control plane or emulators run where another run measures, which nobody is refused for."""
    placements = [
        plan.placement(boot.platform, boot.scenario) for boot in plan.boots if not traits_of(boot.platform).is_remote
    ]
    own = {cpu for one in placements for cpu in (*one.housekeeping_cpus, *one.emulator_cpus)}
    own -= set(claimed_cpus_of(plan))
    return [
        Finding(
            code="beside_another_run",
            level="limits",
            text=f"{holder.words}, where this run has its control plane and emulators: each disturbs the other",
            hint=f"wait for its end, or keep this run off CPU {format_cpus(holder.cpus)} (taskset)",
        )
        for holder in held_by_others(own)
    ]


def sentence_of(finding: Finding) -> str:
    """Give a finding as the terminal shows it."""
    return finding.text if finding.hint is None else f"{finding.text}\nhint: {finding.hint}"
