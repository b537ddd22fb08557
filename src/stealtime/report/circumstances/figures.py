"""From the records of trials to the figures of their circumstances."""

from collections.abc import Sequence
from typing import Any

from stealtime.report.circumstances.hypervisor import hypervisor_figures, median_figures
from stealtime.report.circumstances.model import (
    Clock,
    MeasuredTrial,
    NeighbourFigures,
    PlacementFigures,
    TraceFigures,
)
from stealtime.store.model import Alignment, NeighbourRecord, TrialRecord
from stealtime.vocabulary.clock_agreement import worst


def trial_circumstances(record: TrialRecord) -> dict[str, Any]:
    """Give the fields of ``MeasuredTrial`` that are about the surroundings of a trial."""
    return {
        "repetition": record.repetition,
        "neighbours": [_neighbour_figures(one) for one in record.neighbours],
        "trace": _trace_figures(record),
        "hypervisor": hypervisor_figures(record),
    }


def cell_circumstances(records: Sequence[TrialRecord], used: Sequence[MeasuredTrial]) -> dict[str, Any]:
    """Give the fields of ``MeasuredCell`` but for its trials and what is wrong with it.

    Args:
        records: Of all trials of the cell, at least one.
        used: Those that its figures are of.
    """
    cell = records[0].cell
    findings = [one for record in records if record.outcome is not None for one in record.outcome.findings]
    return {
        "platform": cell.platform,
        "scenario": cell.scenario,
        "probe": cell.probe,
        "parameters": cell.parameters,
        "traced": cell.traced,
        "limits": list(dict.fromkeys(finding.text for finding in findings if finding.level == "limits")),
        "clock": _clock_figures(records),
        "placement": _placement_figures(records),
        "scaled": next((record.placement.scaled for record in records if record.placement is not None), None),
        "hypervisor": median_figures([one.hypervisor for one in used if one.hypervisor is not None]),
    }


def _neighbour_figures(record: NeighbourRecord) -> NeighbourFigures:
    """Give what a neighbour achieved."""
    outcome = record.outcome
    return NeighbourFigures(
        name=record.name,
        kind=record.kind,
        platform=record.platform,
        load="same work" if record.load is None else record.load.kind.name,
        unit=outcome.unit if outcome is not None else None,
        rate_per_s=outcome.rate_per_s if outcome is not None else None,
        on_s=outcome.on_ns / 1e9 if outcome is not None else None,
    )


def _trace_figures(record: TrialRecord) -> TraceFigures | None:
    """Give how much was recorded; None if nothing was."""
    host = record.host_tracing
    machine = record.outcome.tracing if record.outcome is not None else None
    if host is None and machine is None:
        return None
    return TraceFigures(
        host_events=host.events if host is not None else None,
        host_lost=host.lost if host is not None else None,
        machine_events=machine.events if machine is not None else None,
        machine_lost=machine.lost if machine is not None else None,
    )


def _placement_figures(records: Sequence[TrialRecord]) -> PlacementFigures | None:
    """Give where the scenario put the machine; None where nothing was measured."""
    placement = next((record.placement for record in records if record.placement is not None), None)
    if placement is None:
        return None
    return PlacementFigures(
        vcpu_cpus=placement.vcpu_cpus,
        emulator_cpus=placement.emulator_cpus,
        quota_percent=placement.share.quota_percent if placement.share is not None else None,
        weight=placement.share.weight if placement.share is not None else None,
    )


def _clock_figures(records: Sequence[TrialRecord]) -> Clock | None:
    """Give what the samples are counted in, by the worst of all trials; None where nothing was measured."""
    clocks = [record.outcome.clock for record in records if record.outcome is not None]
    if not clocks:
        return None
    bounds = [bound for record in records if (bound := _error_bound_ns(record.alignment)) is not None]
    return Clock(
        name=clocks[0].name,
        units_per_s=clocks[0].units_per_s,
        tsc_hz=clocks[0].tsc_hz,
        source=clocks[0].tsc_hz_source,
        worst_disagreement_ppm=max((clock.check.disagreement_ppm for clock in clocks), key=abs),
        kernel=worst([record.clocks.kernel for record in records if record.clocks is not None]),
        host=worst([record.clocks.host for record in records if record.clocks is not None]),
        alignment_error_bound_ns=max(bounds, default=None),
    )


def _error_bound_ns(alignment: Alignment | None) -> float | None:
    if alignment is None:
        return None
    return float(max(alignment.before.error_ns, alignment.after.error_ns))
