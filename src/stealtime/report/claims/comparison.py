"""A run beside published figures: side by side, their ratios, and in words what agrees.

Ratios can be compared between machines of different age and speed: how many times the paravirtual maximum the emulated
one is, what neighbours cost. Maxima themselves cannot, they only stand side by side.
"""

from collections.abc import Iterable, Iterator, Sequence

from stealtime.report.claims.document import (
    ClaimGroup,
    FigurePair,
    JudgedClaim,
    Judgement,
    MeanRow,
    PublishedComparison,
    RepeatedRow,
    TableRow,
    TestWords,
)
from stealtime.report.claims.judgement import (
    RULES,
    Ours,
    judge,
    may_stand_together,
    not_judged,
    not_judged_for_scaling,
)
from stealtime.report.claims.library import find_published, published_names
from stealtime.report.claims.model import Claim, ClaimSet, Published, PublishedRow, RuleName, geometric_mean
from stealtime.report.claims.periods import RULE as PERIOD_RULE
from stealtime.report.claims.periods import period_group
from stealtime.report.claims.run_view import RunView
from stealtime.report.interval import REPETITIONS_MIN, Interval, ratio_of_repetitions
from stealtime.report.summary import RunSummary
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
        tests = ", ".join(test.name for test in published.tests)
        raise StealtimeError(
            f"run {summary.run_id} (campaign {summary.campaign}) has no untraced cell of which {published.name} has "
            f"figures: its scenarios are {', '.join(published.scenarios)}, its tests {tests}",
            hint=f"measure one with `stealtime run {published.name} --short`",
            exit_code=ExitCode.NOT_JUDGED,
        )
    rows = {(row.scenario, row.test): _table_row(view, row) for row in published.rows}
    return PublishedComparison(
        published=published.name,
        source=published.citation,
        their_system=published.system,
        their_samples=published.samples,
        unit="count" if published.unit == "count" else "ns",
        run_id=summary.run_id,
        campaign=summary.campaign,
        platforms=view.stand_ins,
        tests=[
            TestWords(name=test.name, title=test.title, heading=test.heading, question=test.question)
            for test in published.tests
        ],
        rule="; ".join([*dict.fromkeys(RULES[one.rule] for one in published.claims), *_of_periods(published)]),
        repeated=[
            # It is the same in every table, which the published figures are checked for.
            RepeatedRow(
                test=one.test,
                source=one.source,
                heading=one.heading,
                figure=next(row for row in rows.values() if row.test == one.test).figure(one.machine),
            )
            for one in published.repeated
        ],
        # What is known as a ratio alone does not stand beside a figure of ours.
        rows=[row for row in rows.values() if row.test not in published.paired],
        groups=[
            *(_group(view, claims, rows) for claims in published.claims),
            *(period_group(view, claims, rows) for claims in published.periods),
        ],
        differences=list(_differences(view, list(rows.values()))),
        remarks=list(published.remarks),
    )


def _of_periods(published: Published) -> list[str]:
    return [PERIOD_RULE] if published.periods else []


def comparison_of_campaign(summary: RunSummary) -> PublishedComparison | None:
    """Compare a run whose campaign redoes a publication with it; None where it redoes none, or no cell fits."""
    if summary.campaign not in published_names():
        return None
    published = find_published(summary.campaign)
    return compare_with_published(summary, published) if RunView(summary, published).has_fitting_cells else None


def _figure_pair(view: RunView, row: PublishedRow, role: str) -> FigurePair:
    scenario = view.scenario_of(role, row)
    cell, ours = view.cell(scenario, row.test, role), view.measurement(scenario, row.test, role)
    scaled = None if cell is None else cell.scaled
    unusable = _why_unusable(view, row.test, scenario, role)
    return FigurePair(
        role=role,
        platform=view.platform(role),
        scenario=scenario,
        stands_alone=view.published.machine(role).stands_alone,
        theirs=view.published.figure(row, role),
        ours=None if ours is None else ours.value,
        ours_p50=None if ours is None else ours.p50,
        ours_p9999=None if ours is None else ours.p9999,
        ours_of_repetitions=[] if ours is None else list(ours.of_repetitions),
        samples=None if ours is None else ours.samples,
        scaled=scaled,
        unusable=unusable,
        is_only_scaled=scaled is not None and unusable == _scaled(scenario, scaled),
    )


def _why_unusable(view: RunView, test: str, scenario: str, role: str) -> str | None:
    platform, cell = view.platform(role), view.cell(scenario, test, role)
    ours = view.measurement(scenario, test, role)
    if scenario in view.summary.skipped:
        return f"the scenario {scenario} was skipped: {view.summary.skipped[scenario]}"
    if platform is None:
        return f"no platform of this run stands for the {role} machine"
    if cell is None or ours is None:
        return _not_measured(view, platform, scenario, test)
    if not cell.is_measured:
        return f"{platform} failed in {scenario}: {'; '.join(cell.reasons) or 'it has no samples'}"
    if not cell.valid:
        return f"{platform} is invalid in {scenario}: {'; '.join(cell.reasons)}"
    if ours.samples is not None and ours.samples < SAMPLES_MIN:
        theirs = view.published.samples
        return (
            f"{platform} has {ours.samples:,} samples in {scenario}, of which a maximum says too little: "
            f"{SAMPLES_MIN:,} are needed" + ("" if theirs is None else f", theirs are of {theirs:,}")
        )
    if ours.unusable is not None:
        return f"the maximum of {platform} in {scenario} with {test} {ours.unusable}"
    return None if cell.scaled is None else _scaled(scenario, cell.scaled)


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
    return TableRow(
        scenario=row.scenario,
        number=row.number,
        neighbours=row.neighbours,
        test=row.test,
        source=row.source,
        figures=[_figure_pair(view, row, role) for role in view.published.roles],
    )


_Rows = dict[tuple[str, str], TableRow]


def _group(view: RunView, claims: ClaimSet, rows: _Rows) -> ClaimGroup:
    judged = [(claim, _judged_claim(view, claims, claim, rows)) for claim in view.published.claims_of(claims)]
    tests = [*(test.name for test in view.published.tests), "all"]
    return ClaimGroup(
        kind=claims.kind,
        title=claims.title,
        claims=[one for _, one in judged],
        means_title=claims.means,
        means=[] if claims.means is None else [_mean_row(view, test, judged, rows) for test in tests],
    )


def _judged_claim(view: RunView, claims: ClaimSet, claim: Claim, rows: _Rows) -> JudgedClaim:
    row, base_row = claim.row, claim.base_row
    sides = _sides(claim, rows)
    sources = [row.source] if base_row is None else list(dict.fromkeys((row.source, base_row.source)))
    return JudgedClaim(
        kind=claims.kind,
        scenario=row.scenario,
        number=row.number,
        test=row.test,
        role=claim.machine,
        platform=sides[0].platform,
        base_scenario=None if base_row is None else base_row.scenario,
        base_number=None if base_row is None else base_row.number,
        base_role=None if base_row is None else claim.base_machine,
        base_test=base_row.test if base_row is not None and claims.kind == "tests" else None,
        source=", ".join(sources),
        judgement=_judge(claims.rule, claim.figure, sides, _resolution(view, row.test, sides)),
    )


def _sides(claim: Claim, rows: _Rows) -> list[FigurePair]:
    """Give our figure, and that of its base if it has one."""
    value = rows[claim.row.scenario, claim.row.test].figure(claim.machine)
    if claim.base_row is None:
        return [value]
    return [value, rows[claim.base_row.scenario, claim.base_row.test].figure(claim.base_machine)]


def _resolution(view: RunView, test: str, sides: Sequence[FigurePair]) -> float:
    """Give the unit of the coarsest clock that any of some figures of a test was measured with."""
    found = [view.measurement(one.scenario, test, one.role) for one in sides]
    return max((one.resolution for one in found if one is not None), default=0.0)


def _judge(rule: RuleName, theirs: float, sides: Sequence[FigurePair], resolution: float) -> Judgement:
    """Judge our figure or ratio; it is given also where it may not be judged."""
    reasons = list(dict.fromkeys(one.unusable for one in sides if one.unusable is not None))
    ours = _figure_of(sides[0]) if rule == "figure" else _ratio_of(sides[0], sides[1], resolution)
    if ours is None:
        return not_judged(theirs, None, "; ".join(reasons) or "ours is 0, and a ratio needs positive values")
    if not reasons:
        return judge(theirs, ours, rule)
    if all(one.unusable is None or one.is_only_scaled for one in sides):
        return not_judged_for_scaling(theirs, ours, "; ".join(reasons), rule)
    return not_judged(theirs, ours, "; ".join(reasons))


def _figure_of(one: FigurePair) -> Ours | None:
    values = [value for value in one.ours_of_repetitions if value > 0.0]
    if one.ours is None or one.ours <= 0.0 or not values:
        return None
    return Ours(one.ours, None, None, Interval(one.ours, min(values), max(values)))


def _ratio_of(value: FigurePair, base: FigurePair, resolution: float) -> Ours | None:
    ratio = _ratio(value.ours, base.ours)
    if ratio is None:
        return None
    interval = _interval(value.ours_of_repetitions, base.ours_of_repetitions, resolution)
    return Ours(
        ratio if interval is None else interval.value,
        _ratio(value.ours_p9999, base.ours_p9999),
        None if value.samples is None or base.samples is None else (value.samples, base.samples),
        interval,
    )


def _interval(values: Sequence[float], bases: Sequence[float], resolution: float) -> Interval | None:
    """Give the ratio of typical maxima with its interval, if there are enough repetitions and none is 0."""
    if min(len(values), len(bases)) < REPETITIONS_MIN or min(*values, *bases) <= 0.0:
        return None
    return ratio_of_repetitions(bases, values, same_session=True, resolution=resolution)


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base is not None and min(value, base) > 0.0 else None


def _mean_row(view: RunView, test: str, judged: Sequence[tuple[Claim, JudgedClaim]], rows: _Rows) -> MeanRow:
    own = [(claim, one) for claim, one in judged if test in (one.test, "all")]
    # Not only those that were judged: what its own few repetitions cannot decide counts in a mean of many.
    used = [(claim, one) for claim, one in own if _is_usable(_sides(claim, rows), one.judgement)]
    mean_of_theirs = geometric_mean([claim.figure for claim, _ in own])
    same = geometric_mean([claim.figure for claim, _ in used]) if used else None
    if same is None:
        mean = not_judged(mean_of_theirs, None, f"none of the {len(own)} ratios could be judged")
    else:
        judgements = [one.judgement for _, one in used]
        tails = [one.ours_p9999 for one in judgements if one.ours_p9999 is not None]
        tail = geometric_mean(tails) if len(tails) == len(used) else None
        sides = [_sides(claim, rows) for claim, _ in used]
        values, bases = (_means_of_repetitions([pair[side] for pair in sides]) for side in (0, 1))
        resolution = max(_resolution(view, claim.row.test, pair) for (claim, _), pair in zip(used, sides, strict=True))
        interval = _interval(values, bases, resolution)
        ours = interval.value if interval is not None else geometric_mean([one.ours for one in judgements if one.ours])
        mean = judge(same, Ours(ours, tail, None, interval))
    first = judged[0][1]
    return MeanRow(
        test=test,
        of=f"{first.role}/{first.base_role}",
        theirs=mean_of_theirs,
        theirs_count=len(own),
        theirs_of_the_same=same,
        mean=mean,
        ours_count=len(used),
    )


def _is_usable(sides: Sequence[FigurePair], judgement: Judgement) -> bool:
    """Tell whether nothing stands against a ratio but how far its repetitions differ."""
    is_whole = judgement.ours is not None and all(one.unusable is None for one in sides)
    return is_whole and may_stand_together([one.samples for one in sides if one.samples is not None])


def _means_of_repetitions(figures: Sequence[FigurePair]) -> list[float]:
    """Give the geometric mean over figures of each repetition: its own spread, whatever they have in common."""
    columns = zip(*(one.ours_of_repetitions for one in figures), strict=False)
    return [geometric_mean(column) if min(column) > 0.0 else 0.0 for column in columns]


def _differences(view: RunView, rows: Sequence[TableRow]) -> Iterator[str]:
    published = view.published
    used = [one for row in rows for one in row.figures if one.ours is not None]
    counts = [one.samples for one in used if one.samples is not None]
    yield from published.differences
    if counts and published.samples is not None:
        ours = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
        yield (
            f"their figures are maxima of {published.samples:,} samples, ours of {ours}: a maximum can only grow "
            "with their number"
        )
    hypervisor = view.summary.host.get(_HYPERVISOR_FACT)
    if isinstance(hypervisor, Value) and hypervisor.value:
        yield "our host is itself a virtual machine: what its own host takes is in every figure of ours"
    yield from _other_durations(view)
    yield from _distinct(f"{one.scenario} was scaled: {one.scaled}" for one in used if one.scaled is not None)
    yield from (f"{name} was skipped: {why}" for name, why in view.summary.skipped.items())
    yield from view.limits
    for machine in published.machines:
        stood = _distinct(one.scenario for one in used if machine.stands_alone and one.role == machine.role)
        if stood:
            yield (
                f"the {machine.words}'s figures stand in every table, as theirs do: ours are from {', '.join(stood)}"
            )
    if view.traced:
        yield f"traced cells left out, because of the tracing overhead: {view.traced}"


def _other_durations(view: RunView) -> Iterator[str]:
    """Tell of each parameter that is nearest to theirs, and another one."""
    for test in view.published.tests:
        if (nearest := test.nearest) is None:
            continue
        cells = [view.cell(name, test.name, role) for name in view.published.scenarios for role in view.published.roles]
        found = {cell.parameters.get(nearest.parameter) for cell in cells if cell is not None}
        for own_ns in sorted(one for one in found if isinstance(one, int) and one != nearest.value_ns):
            yield f"our {nearest.words} lasts {own_ns / 1000:g} us, theirs {nearest.value_ns / 1000:g} us"


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
