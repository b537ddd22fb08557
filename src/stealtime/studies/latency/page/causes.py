"""From the traces of a run to whose fault its lost time is. One trial's traces are in memory at a time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from stealtime.lab.platforms.traits import traits_of
from stealtime.report.order import platform_order, probe_order, scenario_order
from stealtime.store.model import Cell
from stealtime.store.run import Run, Trial
from stealtime.studies.latency.analysis.model import Period, RunSummary
from stealtime.studies.latency.attribution import model
from stealtime.studies.latency.attribution.model import (
    AttributedSpike,
    Cause,
    PeriodicCause,
    TracingOverhead,
    TrialAttribution,
    Views,
)
from stealtime.studies.latency.content.cause_palette import FAMILIES, LOOKS, NOT_JUDGED, UNEXPLAINED
from stealtime.studies.latency.content.causes import (
    CauseLine,
    Causes,
    OverheadLine,
    ProbeCauses,
    Refused,
    Shift,
    StackPart,
    TracedCell,
    TraceFacts,
    View,
    WorstSpike,
)
from stealtime.studies.latency.page.spikes import cause_family, worst_spike
from stealtime.studies.latency.probes.catalogue import PROBES
from stealtime.studies.latency.wording import cause_wording
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Absent, Reading

WORST_A_CELL = 20
"""Spikes drawn as time lines, of all repetitions of a cell together."""

Attribute = Callable[[Trial], TrialAttribution]
Overheads = Callable[[Run], Sequence[TracingOverhead]]
Match = Callable[[list[Period], Trial], Sequence[PeriodicCause]]


@dataclass(frozen=True)
class _Attributed:
    """One repetition whose spikes have causes."""

    trial: Trial
    attribution: TrialAttribution
    measured_s: float


def gather_causes(
    run: Run,
    attribute: Attribute | None = None,
    overheads: Overheads | None = None,
) -> Causes:
    """Find whose fault the spikes of every traced cell of ``run`` are.

    Args:
        run: Its untraced trials are passed over.
        attribute: Splits the spikes of one trial into causes; what it refuses stands in the report with its reason.
            Without it the traces are used.
        overheads: Compares traced trials with untraced ones; without it their samples are used.
    """
    traced: dict[str, list[Trial]] = {}
    for trial in run.measured:
        if trial.record.cell.traced:
            traced.setdefault(trial.record.cell.name, []).append(trial)
    scenarios = scenario_order(trial.record.cell.scenario for trial in run.trials)
    ordered = sorted(
        traced.values(),
        key=lambda trials: (
            probe_order(trials[0].record.cell),
            scenarios.index(trials[0].record.cell.scenario),
            platform_order(trials[0].record.cell.platform),
        ),
    )
    cells = [gather_cell(trials, f"traced-{number}", attribute or _attribute) for number, trials in enumerate(ordered)]
    titles = dict.fromkeys(cell.probe for cell in cells)
    probes = tuple(
        ProbeCauses(f"causes-{number}", title, tuple(cell for cell in cells if cell.probe == title))
        for number, title in enumerate(titles)
    )
    seen = {part.family for cell in cells for part in cell.stack} | {UNEXPLAINED, NOT_JUDGED}
    costs, unknown_cost = _costs(run, overheads or _overheads) if traced else ([], None)
    return Causes(
        probes=probes,
        families=tuple(family for family in FAMILIES if family in seen),
        overheads=tuple(_overhead_line(cost) for cost in costs),
        overhead_absent_because=unknown_cost,
    )


def gather_periodic(
    summary: RunSummary,
    run: Run,
    match: Match | None = None,
) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """Match the periods that the samples show with traced events.

    Args:
        summary: Of the cells that are drawn: where both were measured, their samples are from trials without tracing.
        run: The first traced repetition of each cell is asked for what happened in its periods.
        match: Gives a cause for each of some periods; without it the traces are used.

    Returns:
        By platform, scenario and probe title: a sentence for each period.
    """
    traced: dict[str, Trial] = {}
    for trial in run.measured:
        if trial.record.cell.traced:
            traced.setdefault(trial.record.cell.untraced.name, trial)
    matched = {}
    for figures in summary.cells:
        cell = Cell(
            platform=figures.platform, scenario=figures.scenario, probe=figures.probe, parameters=figures.parameters
        )
        trial_of_cell = traced.get(cell.name)
        if not figures.periods or trial_of_cell is None:
            continue
        try:
            sentences = tuple(
                cause_wording.periodic_in_words(one) for one in (match or _match)(figures.periods, trial_of_cell)
            )
        except StealtimeError as error:
            sentences = (f"not matched with traced events: {error.message}",)
        matched[figures.platform, figures.scenario, PROBES[cell.probe].describe(cell.parameters)] = sentences
    return matched


def _costs(run: Run, overheads: Overheads) -> tuple[Sequence[TracingOverhead], str | None]:
    """Give what tracing cost, or why it is not known."""
    try:
        return overheads(run), None
    except StealtimeError as error:
        return (), error.message


def _attribute(trial: Trial) -> TrialAttribution:
    # Imported here, as in the two below: a report of a run without traces needs none of it.
    from stealtime.studies.latency.attribution.attribute import attribute_trial

    return attribute_trial(trial, worst=WORST_A_CELL)


def _overheads(run: Run) -> Sequence[TracingOverhead]:
    from stealtime.studies.latency.attribution.tracing_overhead import tracing_overheads

    return tracing_overheads(run)


def _match(periods: list[Period], trial: Trial) -> Sequence[PeriodicCause]:
    from stealtime.studies.latency.attribution.periodic_causes import periodic_causes

    return periodic_causes(periods, trial)


def gather_cell(trials: Sequence[Trial], identity: str, attribute: Attribute) -> TracedCell:
    """Attribute the repetitions of one cell, at least one, and add them up."""
    attributed: list[_Attributed] = []
    refused: list[Refused] = []
    for trial in sorted(trials, key=lambda one: one.record.repetition):
        try:
            attributed.append(_Attributed(trial, attribute(trial), _measured_s(trial)))
        except StealtimeError as error:  # a verdict, or a damaged file: the other trials are not touched by that
            refused.append(Refused(trial.record.trial_id, error.message.rstrip("."), error.hint))
    cell = trials[0].record.cell
    results = [one.attribution for one in attributed]
    excess_ns = sum(one.excess_ns for one in results)
    not_judged_ns = sum(one.total_lost_ns - one.excess_ns for one in results)
    lines = _lines(results, excess_ns)
    return TracedCell(
        identity=identity,
        platform=cell.platform,
        scenario=cell.scenario,
        probe=PROBES[cell.probe].describe(cell.parameters),
        measured_s=sum(one.measured_s for one in attributed),
        spikes=sum(one.judged + one.not_judged for one in results),
        judged=sum(one.judged for one in results),
        not_judged=sum(one.not_judged for one in results),
        excess_ns=excess_ns,
        not_judged_ns=not_judged_ns,
        lines=lines,
        stack=_stack(lines, excess_ns, not_judged_ns),
        worst=_worst(attributed, identity),
        facts=tuple(_facts(one) for one in attributed),
        rule=next((one.rule for one in results), ""),
        refused=tuple(refused),
    )


def _lines(results: Iterable[TrialAttribution], excess_ns: float) -> tuple[CauseLine, ...]:
    """Add the causes of all repetitions up, the largest first; ``unexplained`` is last and always there."""
    causes: dict[Cause, CauseLine] = {}
    for result in results:
        for share in result.shares:
            before = causes.get(share.cause)
            lost_ns = share.lost_ns + (before.lost_ns if before else 0.0)
            causes[share.cause] = CauseLine(
                family=cause_family(share.cause),
                label=share.cause.label,
                lost_ns=lost_ns,
                share=lost_ns / excess_ns if excess_ns > 0 else 0.0,
                spikes=share.spikes + (before.spikes if before else 0),
                largest_ns=max(share.largest_ns, before.largest_ns if before else 0.0),
            )
    lines = list(causes.values())
    if not any(line.family == UNEXPLAINED for line in lines):
        lines.append(CauseLine(UNEXPLAINED, LOOKS[UNEXPLAINED].words, 0.0, 0.0, 0, 0.0))
    return tuple(sorted(lines, key=lambda line: (line.family == UNEXPLAINED, -line.lost_ns)))


def _stack(lines: Sequence[CauseLine], excess_ns: float, not_judged_ns: float) -> tuple[StackPart, ...]:
    """Give the pieces of the bar, a family each, from the inside to the outside."""
    whole_ns = excess_ns + not_judged_ns
    if whole_ns <= 0:
        return ()
    parts = []
    for family in FAMILIES:
        own = [line for line in lines if line.family == family and line.lost_ns > 0]
        lost_ns = not_judged_ns if family == NOT_JUDGED else sum(line.lost_ns for line in own)
        if lost_ns > 0:
            parts.append(StackPart(family, lost_ns, lost_ns / whole_ns, cause_wording.stack_label(family, own)))
    return tuple(parts)


def _worst(attributed: Sequence[_Attributed], identity: str) -> tuple[WorstSpike, ...]:
    """Choose the longest spikes of all repetitions."""
    spikes: list[tuple[AttributedSpike, _Attributed]] = [
        (spike, one) for one in attributed for spike in one.attribution.worst
    ]
    spikes.sort(key=lambda pair: -pair[0].duration_ns)
    return tuple(
        worst_spike(spike, one.trial.record.repetition, f"{identity}-spike-{number}", _tracks(spike, one.trial))
        for number, (spike, one) in enumerate(spikes[:WORST_A_CELL], start=1)
    )


def _tracks(spike: AttributedSpike, trial: Trial) -> tuple[str, ...]:
    """Natively host and machine are one; a guest has both tracks, also where one of them could not be traced."""
    if not traits_of(trial.record.cell.platform).is_native:
        return ("machine", "host")
    return tuple(dict.fromkeys(segment.track for segment in spike.segments)) or ("machine",)


def _facts(one: _Attributed) -> TraceFacts:
    attribution = one.attribution
    trace = attribution.trace
    return TraceFacts(
        repetition=one.trial.record.repetition,
        threshold_ns=attribution.threshold_ns,
        left_out=attribution.left_out,
        scaled=attribution.scaled,
        steal_at_most_ns=attribution.steal_at_most_ns,
        time_line=attribution.time_line.method,
        error_ns=attribution.time_line.error_ns,
        events=tuple(
            (whose, events, lost)
            for whose, events, lost in (
                ("host", trace.host_events, trace.host_lost),
                ("machine", trace.machine_events, trace.machine_lost),
            )
            if whose == "host" or not traits_of(one.trial.record.cell.platform).is_native
        ),
        steps=tuple(trace.steps),
        views=_views(attribution.views),
        agreement=attribution.views.agreement,
    )


def _views(views: Views) -> tuple[View, ...]:
    return (
        _view("guest steal", views.guest_steal),
        _view("host run_delay", views.host_run_delay),
        _view("traced off-CPU", views.traced_off_cpu),
    )


def _view(name: str, reading: Reading) -> View:
    if isinstance(reading, Absent):
        return View(name, None, reading.absent)
    value = reading.value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return View(name, float(value), None)
    return View(name, None, f"it reads {value!r}, which is not a duration")


def _overhead_line(cost: TracingOverhead) -> OverheadLine:
    floor, p999, maximum = (_shift(one) for one in (cost.floor_shift_ns, cost.p999_shift_ns, cost.max_shift_ns))
    words = cause_wording.overhead_in_words(cost.pairs, floor, p999, maximum)
    return OverheadLine(cost.cell, cost.pairs, floor, p999, maximum, words)


def _shift(shift: model.Shift) -> Shift:
    return Shift(shift.median_ns, shift.min_ns, shift.max_ns)


def _measured_s(trial: Trial) -> float:
    outcome = trial.record.outcome
    if outcome is None:
        return 0.0
    clock = outcome.clock
    return (clock.end.monotonic_raw_ns - clock.start.monotonic_raw_ns) / 1e9
