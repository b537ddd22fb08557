"""A run beside published figures: maxima side by side, their ratios, and in words what agrees.

The paper's questions are ratios: how many times the paravirtual maximum the emulated one is, and what neighbours cost.
Ratios can be compared between machines of different age and speed; maxima cannot, they only stand side by side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stealtime.report.interval import REPETITIONS_MIN, Interval, ratio_of_repetitions
from stealtime.studies.latency.analysis.clock_resolution import clock_resolution_ns
from stealtime.studies.latency.analysis.model import CellSummary, RunSummary, TrialSummary
from stealtime.studies.latency.published.comparison_model import (
    BareRow,
    GrowthRow,
    Judgement,
    Maximum,
    MeanRow,
    PublishedComparison,
    TableRow,
)
from stealtime.studies.latency.published.judgement import (
    RULE,
    OurRatio,
    judge,
    may_stand_together,
    not_judged,
    not_judged_for_scaling,
)
from stealtime.studies.latency.published.library import find_published, published_names
from stealtime.studies.latency.published.model import (
    NS_A_US,
    ROLES,
    BareFigure,
    Published,
    PublishedRow,
    Role,
    geometric_mean,
)
from stealtime.studies.latency.published.run_view import RunView
from stealtime.vocabulary.errors import ExitCode, StealtimeError
from stealtime.vocabulary.readings import Value

SAMPLES_MIN = 5_000
"""With fewer, less than five samples lie beyond the 99.9th percentile: the longest says little of a worst case."""
_HYPERVISOR_FACT = "hypervisor"
"""Under which a machine says whether its CPU reports a hypervisor (CPUID leaf 1, ECX bit 31)."""


def compare_with_published(summary: RunSummary, published: Published) -> PublishedComparison:
    """Put the untraced cells of a run beside published figures; nothing is read or written.

    Raises:
        StealtimeError: No cell of the run fits any of the figures; the exit code is then that of *not judged*.
    """
    view = RunView(summary, published)
    if not view.has_fitting_cells:
        raise StealtimeError(
            f"run {summary.run_id} (campaign {summary.campaign}) has no untraced cell of which {published.name} has "
            f"figures: its scenarios are {', '.join(published.scenarios)}, its tests {', '.join(published.tests)}",
            hint=f"measure one with `stealtime run {published.name} --short`",
            exit_code=ExitCode.NOT_JUDGED,
        )
    rows = [_table_row(view, row) for row in published.rows]
    return PublishedComparison(
        published=published.name,
        source=published.citation,
        their_system=f"{published.hypervisor}, {published.guest}, {published.hardware}",
        their_samples=published.samples,
        run_id=summary.run_id,
        campaign=summary.campaign,
        platforms=list(view.stand_ins),
        rule=RULE,
        bare=[_bare_row(bare, rows) for bare in published.bare],
        rows=rows,
        growth=_growth_rows(view, rows),
        means=[_mean_row(view, test, rows) for test in (*published.tests, "all")],
        differences=_differences(view, rows),
        remarks=list(published.remarks),
    )


def comparison_of_campaign(summary: RunSummary) -> PublishedComparison | None:
    """Compare a run whose campaign redoes a publication with it; None where it redoes none, or no cell fits."""
    if summary.campaign not in published_names():
        return None
    published = find_published(summary.campaign)
    return compare_with_published(summary, published) if RunView(summary, published).has_fitting_cells else None


@dataclass(frozen=True)
class _Ours:
    """The three views of one cell, in ns."""

    worst: float
    p50: float
    p9999: float | None


def _ours(test: str, measured: CellSummary | TrialSummary) -> _Ours | None:
    """Give what the paper calls maximum overhead (``tick``) or maximum switch latency, without a limit's pauses."""
    stats = measured.stats
    worst_ns = measured.worst_overhead_ns if test == "tick" else measured.worst_ns
    if stats is None or worst_ns is None:
        return None
    floor = stats.floor_ns if test == "tick" else 0.0
    p9999 = None if "p9999_ns" in stats.unresolved or stats.p9999_ns - floor > worst_ns else stats.p9999_ns - floor
    return _Ours(worst_ns, stats.p50_ns - floor, p9999)


def _maximum(view: RunView, row: PublishedRow, role: Role) -> Maximum:
    scenario = view.scenario_of(role, row)
    cell = view.cell(scenario, row.test, role)
    scaled = None if cell is None else cell.scaled
    unusable = _why_unusable(view, row.test, scenario, role)
    ours = None if cell is None else _ours(row.test, cell)
    return Maximum(
        role=role,
        platform=view.platform(role),
        scenario=scenario,
        theirs_ns=row.maximum_ns(role),
        ours_ns=None if ours is None else ours.worst,
        ours_p50_ns=None if ours is None else ours.p50,
        ours_p9999_ns=None if ours is None else ours.p9999,
        ours_of_repetitions_ns=[] if cell is None else _of_repetitions(row.test, cell),
        samples=None if cell is None or cell.stats is None else cell.stats.count,
        scaled=scaled,
        unusable=unusable,
        is_only_scaled=scaled is not None and unusable == _scaled(scenario, scaled),
    )


def _why_unusable(view: RunView, test: str, scenario: str, role: Role) -> str | None:
    platform, cell = view.platform(role), view.cell(scenario, test, role)
    if scenario in view.summary.skipped:
        return f"the scenario {scenario} was skipped: {view.summary.skipped[scenario]}"
    if platform is None:
        return f"no platform of this run stands for the {role} machine"
    if cell is None:
        return _not_measured(view, platform, scenario, test)
    if cell.stats is None:
        return f"{platform} failed in {scenario}: {'; '.join(cell.reasons) or 'it has no samples'}"
    if not cell.valid:
        return f"{platform} is invalid in {scenario}: {'; '.join(cell.reasons)}"
    if cell.stats.count < SAMPLES_MIN:
        return (
            f"{platform} has {cell.stats.count:,} samples in {scenario}, of which a maximum says too little: "
            f"{SAMPLES_MIN:,} are needed, theirs are of {view.published.samples:,}"
        )
    if cell.comparable_worst_ns is None:
        return f"the maximum of {platform} in {scenario} with {test} {_held_back_words(cell)}"
    return None if cell.scaled is None else _scaled(scenario, cell.scaled)


def _held_back_words(cell: CellSummary) -> str:
    held_back = cell.held_back
    if held_back is None or held_back.rest_max_overhead_ns is None:
        return "is not known: a limit of the kernel explains every sample"
    return (
        f"({held_back.rest_max_overhead_ns / 1e6:.3g} ms) may hold a pause of {held_back.cause} "
        f"(up to {held_back.pause_ns / 1e6:g} ms)"
    )


def _not_measured(view: RunView, platform: str, scenario: str, test: str) -> str:
    """Say of how much there is nothing: where a whole scenario is missing, not each of its cells."""
    if not view.is_measured(scenario):
        return f"the scenario {scenario} was not measured"
    if not view.is_measured(scenario, platform):
        return f"{platform} was not measured in {scenario}"
    return f"{platform} was not measured in {scenario} with {test}"


def _scaled(scenario: str, how: str) -> str:
    return f"the scenario {scenario} was scaled: {how}"


def _table_row(view: RunView, row: PublishedRow) -> TableRow:
    maxima = [_maximum(view, row, role) for role in ROLES]
    _, emulated, paravirt = maxima
    return TableRow(
        scenario=row.scenario_name,
        number=row.scenario,
        neighbours=row.neighbours,
        test=row.test,
        table=row.table,
        maxima=maxima,
        emulated_over_paravirt=_judge_maxima(
            row.emulated_over_paravirt, emulated, paravirt, _resolution_ns(view, row.test, emulated, paravirt)
        ),
    )


def _bare_row(bare: BareFigure, rows: Sequence[TableRow]) -> BareRow:
    """The bare machine's figure is the same in every table, which the published figures are checked for."""
    same = next(row for row in rows if row.test == bare.test)
    return BareRow(test=bare.test, table=bare.table, maximum=same.maximum("bare"))


def _of_repetitions(test: str, cell: CellSummary) -> list[float]:
    return [ours.worst for trial in cell.trials if trial.valid and (ours := _ours(test, trial)) is not None]


def _resolution_ns(view: RunView, test: str, *maxima: Maximum) -> float:
    """Give the unit of the coarsest clock that any of some maxima of a test was measured with."""
    cells = [view.cell(one.scenario, test, one.role) for one in maxima]
    return clock_resolution_ns(*(cell for cell in cells if cell is not None))


def _judge_maxima(theirs: float, value: Maximum, base: Maximum, resolution_ns: float) -> Judgement:
    """Judge the ratio of two of our maxima; the ratio is given also where it may not be judged."""
    reasons = list(dict.fromkeys(one.unusable for one in (value, base) if one.unusable is not None))
    ratio = _ratio(value.ours_ns, base.ours_ns)
    if ratio is None or value.samples is None or base.samples is None:
        return not_judged(theirs, None, "; ".join(reasons) or "ours is 0, and a ratio needs positive values")
    interval = _interval(value.ours_of_repetitions_ns, base.ours_of_repetitions_ns, resolution_ns)
    ours = OurRatio(
        ratio if interval is None else interval.value,
        _ratio(value.ours_p9999_ns, base.ours_p9999_ns),
        (value.samples, base.samples),
        interval,
    )
    if not reasons:
        return judge(theirs, ours)
    if all(one.unusable is None or one.is_only_scaled for one in (value, base)):
        return not_judged_for_scaling(theirs, ours, "; ".join(reasons))
    return not_judged(theirs, ours, "; ".join(reasons))


def _interval(values: Sequence[float], bases: Sequence[float], resolution_ns: float) -> Interval | None:
    """Give the ratio of typical maxima with its interval, if there are enough repetitions and none is 0."""
    if min(len(values), len(bases)) < REPETITIONS_MIN or min(*values, *bases) <= 0.0:
        return None
    return ratio_of_repetitions(bases, values, same_session=True, resolution=resolution_ns)


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base is not None and min(value, base) > 0.0 else None


def _growth_rows(view: RunView, rows: Sequence[TableRow]) -> list[GrowthRow]:
    by_key = {(row.scenario, row.test): row for row in rows}
    results = []
    for pair in view.published.growth:
        for test in view.published.tests:
            base, contended = by_key[pair.base, test], by_key[pair.contended, test]
            for role in ROLES[1:]:
                value, reference = contended.maximum(role), base.maximum(role)
                resolution_ns = _resolution_ns(view, test, value, reference)
                results.append(
                    GrowthRow(
                        base=pair.base,
                        base_number=base.number,
                        contended=pair.contended,
                        contended_number=contended.number,
                        test=test,
                        role=role,
                        platform=value.platform,
                        growth=_judge_maxima(value.theirs_ns / reference.theirs_ns, value, reference, resolution_ns),
                    )
                )
    return results


def _mean_row(view: RunView, test: str, rows: Sequence[TableRow]) -> MeanRow:
    theirs = [row.emulated_over_paravirt for row in view.published.rows if test in (row.test, "all")]
    # Not only those that were judged: what its own few repetitions cannot decide counts in a mean of many.
    used = [row for row in rows if test in (row.test, "all") and _is_usable(row)]
    mean_of_theirs = geometric_mean(theirs)
    if not used:
        because = f"none of the {len(theirs)} ratios could be judged"
        return MeanRow(
            test=test,
            theirs=mean_of_theirs,
            theirs_count=len(theirs),
            theirs_of_the_same=None,
            mean=not_judged(mean_of_theirs, None, because),
            ours_count=0,
        )
    judgements = [row.emulated_over_paravirt for row in used]
    same = geometric_mean([one.theirs for one in judgements])
    tails = [one.ours_p9999 for one in judgements if one.ours_p9999 is not None]
    tail = geometric_mean(tails) if len(tails) == len(used) else None
    emulated, paravirt = (_means_of_repetitions(used, role) for role in ROLES[1:])
    resolution_ns = max(_resolution_ns(view, row.test, *row.maxima[1:]) for row in used)
    interval = _interval(emulated, paravirt, resolution_ns)
    ours = interval.value if interval is not None else geometric_mean([one.ours for one in judgements if one.ours])
    return MeanRow(
        test=test,
        theirs=mean_of_theirs,
        theirs_count=len(theirs),
        theirs_of_the_same=same,
        mean=judge(same, OurRatio(ours, tail, None, interval)),
        ours_count=len(used),
    )


def _is_usable(row: TableRow) -> bool:
    """Tell whether nothing stands against the ratio of a row but how far its repetitions differ."""
    _, emulated, paravirt = row.maxima
    counts = (emulated.samples, paravirt.samples)
    return (
        emulated.unusable is None
        and paravirt.unusable is None
        and row.emulated_over_paravirt.ours is not None
        and may_stand_together(counts)
    )


def _means_of_repetitions(rows: Sequence[TableRow], role: Role) -> list[float]:
    """Give the geometric mean over rows of each repetition: its own spread, whatever the rows have in common."""
    values = [row.maximum(role).ours_of_repetitions_ns for row in rows]
    return [geometric_mean(column) if min(column) > 0.0 else 0.0 for column in zip(*values, strict=False)]


def _differences(view: RunView, rows: Sequence[TableRow]) -> list[str]:
    """Say in what our measurement is another one than theirs."""
    used = [one for row in rows for one in row.maxima if one.ours_ns is not None]
    counts = [one.samples for one in used if one.samples is not None]
    texts = [f"theirs is {view.published.hypervisor} on {view.published.hardware}, with {view.published.guest}"]
    if counts:
        ours = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
        texts.append(
            f"their figures are maxima of {view.published.samples:,} samples, ours of {ours}: a maximum can only grow "
            "with their number"
        )
    hypervisor = view.summary.host.get(_HYPERVISOR_FACT)
    if isinstance(hypervisor, Value) and hypervisor.value:
        texts.append("our host is itself a virtual machine: what its own host takes is in every figure of ours")
    texts += [f"our busy loop lasts {loop_ns / NS_A_US:g} us, theirs {view.published.tick_loop_us:g} us"
              for loop_ns in _other_loops(view)]  # fmt: skip
    texts += _distinct(f"{one.scenario} was scaled: {one.scaled}" for one in used if one.scaled is not None)
    texts += [f"{name} was skipped: {why}" for name, why in view.summary.skipped.items()]
    if view.throttled:
        texts.append(
            f"the kernel limited real-time threads on {', '.join(view.throttled)}: samples that this explains count "
            "for no maximum; --lift-rt-throttling measures without RT throttling"
        )
    bare = _distinct(one.scenario for one in used if one.role == "bare")
    if bare:
        texts.append(f"the bare machine's figures stand in every table, as theirs do: ours are from {', '.join(bare)}")
    if view.traced:
        texts.append(f"traced cells left out, because of the tracing overhead: {view.traced}")
    return texts


def _other_loops(view: RunView) -> list[int]:
    theirs_ns = round(view.published.tick_loop_us * NS_A_US)
    cells = [view.cell(name, "tick", role) for name in view.published.scenarios for role in ROLES]
    loops = {cell.parameters.get("loop_ns") for cell in cells if cell is not None}
    return sorted(loop_ns for loop_ns in loops if isinstance(loop_ns, int) and loop_ns != theirs_ns)


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
