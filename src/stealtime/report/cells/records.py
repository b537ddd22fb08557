"""From the records of the trials of a cell to what every study's figures have of it."""

from collections.abc import Sequence
from typing import Any

from stealtime.campaigns.strangers import findings_of
from stealtime.campaigns.validity import not_as_asked, reasons_of, too_short
from stealtime.report.cells.hypervisor import hypervisor_figures, median_figures
from stealtime.report.cells.surroundings import (
    Clock,
    MeasuredTrial,
    NeighbourFigures,
    PlacementFigures,
    TraceFigures,
)
from stealtime.report.strangers import strangers_figures
from stealtime.store.model import Alignment, NeighbourRecord, TrialRecord
from stealtime.store.run import Trial
from stealtime.vocabulary.clock_agreement import worst


def used_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Give the trials that a cell's figures are of: the valid ones; where none is, all that have a result.

    Args:
        trials: Of one cell, at least one.
    """
    invalid = reasons_of([trial.record for trial in trials])
    valid = [trial for trial, reasons in zip(trials, invalid, strict=True) if not reasons]
    return valid or [trial for trial in trials if trial.record.result is not None]


def measured_trials(records: Sequence[TrialRecord]) -> list[MeasuredTrial]:
    """Give what is told of each trial of a cell, in their order.

    Args:
        records: At least one.
    """
    return [
        MeasuredTrial(
            repetition=record.repetition,
            valid=not reasons,
            reasons=list(reasons),
            is_measured=record.result is not None,
            too_short=too_short(record),
            not_as_asked=not_as_asked(record),
            neighbours=[_neighbour_figures(one) for one in record.neighbours],
            trace=_trace_figures(record),
            hypervisor=hypervisor_figures(record),
        )
        for record, reasons in zip(records, reasons_of(records), strict=True)
    ]


def cell_figures(records: Sequence[TrialRecord], trials: Sequence[MeasuredTrial] | None = None) -> dict[str, Any]:
    """Give the fields of ``CellFigures`` that every study has.

    Args:
        records: Of all trials of the cell, at least one.
        trials: What is told of them, with what a study found besides; None where it found nothing.
    """
    told = measured_trials(records) if trials is None else trials
    cell = records[0].cell
    findings = [one for record in records if record.outcome is not None for one in record.outcome.findings]
    watched = [record.strangers for record in records if record.strangers is not None]
    findings += [finding for one in watched for finding in findings_of(one)]
    reasons = list(dict.fromkeys(reason for trial in told for reason in trial.reasons))
    used = [one for one in told if one.valid] or [one for one in told if one.is_measured]
    return {
        **dict(cell),
        "valid": not reasons,
        "reasons": reasons,
        "too_short": [f"repetition {one.repetition}: {one.too_short}" for one in told if one.too_short is not None],
        "not_as_asked": list(dict.fromkeys(text for one in told for text in one.not_as_asked)),
        "limits": list(dict.fromkeys(finding.text for finding in findings if finding.level == "limits")),
        "strangers": strangers_figures(watched),
        "scaled": next((record.placement.scaled for record in records if record.placement is not None), None),
        "clock": _clock_figures(records),
        "placement": _placement_figures(records),
        "hypervisor": median_figures([one.hypervisor for one in used if one.hypervisor is not None]),
        "trials": list(told),
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
