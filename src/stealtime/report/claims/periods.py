"""Claims about what comes again after a time: whether ours has the period that was published, and what removes it.

A period is found from the samples alone, in each repetition by itself (``docs/truth.md`` tells how often by chance).
"""

from collections.abc import Iterator, Mapping

from stealtime.report import notation
from stealtime.report.claims.document import ClaimGroup, FigurePair, JudgedClaim, Judgement, TableRow, Verdict
from stealtime.report.claims.measurement import SeenPeriods
from stealtime.report.claims.model import PeriodClaims, PublishedRow
from stealtime.report.claims.run_view import RunView
from stealtime.report.interval import REPETITIONS_MIN

SAME_PERIOD = 0.01
"""A period of ours is theirs if it is within this share of it: theirs is read off a drawing."""
CYCLES_MIN = 10
"""A repetition must have lasted for so many cycles to say that a period is not there; some four show one."""
RULE = (
    f"a period is theirs if it is within {SAME_PERIOD:.0%} of it; agrees: it is found in more than half of "
    f"{REPETITIONS_MIN} or more repetitions; disagrees: in none of them, each of {CYCLES_MIN} cycles or more; not "
    "judged: in some, there are fewer or shorter repetitions, a cell is missing, failed or invalid, its kernel limits "
    "real-time threads once a second, or the scenario was skipped or scaled"
)


def period_group(view: RunView, claims: PeriodClaims, rows: Mapping[tuple[str, str], TableRow]) -> ClaimGroup:
    """Judge each claim of a set: where the period is, then where it stays."""
    return ClaimGroup(
        kind="periods", title=claims.title, claims=list(_judged(view, claims, rows)), means_title=None, means=[]
    )


def _judged(view: RunView, claims: PeriodClaims, rows: Mapping[tuple[str, str], TableRow]) -> Iterator[JudgedClaim]:
    theirs_ns = claims.period_s * 1e9
    for scenario, source in claims.scenarios.items():
        for role in claims.of:
            pair = rows[scenario, claims.test].figure(role)
            judgement = _not_for(pair, theirs_ns, _is_there(view, claims, pair))
            yield _claim(view.published.row(scenario, claims.test), None, pair, role, source, judgement)
    for before, after in claims.stays:
        for role in claims.of:
            base, pair = (rows[one, claims.test].figure(role) for one in (before, after))
            judgement = _not_for(base, theirs_ns, _not_for(pair, theirs_ns, _stays(view, claims, base, pair)))
            row, base_row = (view.published.row(one, claims.test) for one in (after, before))
            yield _claim(row, base_row, pair, role, claims.scenarios[after], judgement)


def _claim(
    row: PublishedRow, base: PublishedRow | None, pair: FigurePair, role: str, source: str, judgement: Judgement
) -> JudgedClaim:
    return JudgedClaim(
        kind="periods",
        scenario=row.scenario,
        number=row.number,
        test=row.test,
        role=role,
        platform=pair.platform,
        base_scenario=None if base is None else base.scenario,
        base_number=None if base is None else base.number,
        base_role=None if base is None else role,
        source=source,
        judgement=judgement,
    )


def _is_there(view: RunView, claims: PeriodClaims, pair: FigurePair) -> Judgement:
    """Judge whether the period is in a cell, whatever speaks against the cell."""
    theirs_ns = claims.period_s * 1e9
    seen = view.periods(pair.scenario, claims.test, pair.role)
    if seen is None:
        return _judgement(theirs_ns, None, "not judged", "it has no samples in which a period could be found")
    if seen.unusable is not None:
        return _judgement(theirs_ns, None, "not judged", seen.unusable)
    period_s, found = _nearest(seen, claims.period_s)
    if seen.repetitions < REPETITIONS_MIN:
        because = f"there are {seen.repetitions} repetitions: measure with --repetitions {REPETITIONS_MIN}"
        return _judgement(theirs_ns, period_s, "not judged", because)
    words = f"found in {found} of {seen.repetitions} repetitions"
    if 2 * found > seen.repetitions:
        return _judgement(theirs_ns, period_s, "agrees", words)
    if found > 0:
        return _judgement(theirs_ns, period_s, "not judged", f"it is {words}")
    if seen.watched_s < CYCLES_MIN * claims.period_s:
        watched = notation.duration(seen.watched_s * 1e9, 3)
        because = f"a repetition lasted {watched}, and {CYCLES_MIN} cycles are needed to say that it is not there"
        return _judgement(theirs_ns, None, "not judged", because)
    return _judgement(theirs_ns, None, "disagrees", words)


def _stays(view: RunView, claims: PeriodClaims, base: FigurePair, pair: FigurePair) -> Judgement:
    """Judge whether what is there in one scenario still is in another."""
    before, after = _is_there(view, claims, base), _is_there(view, claims, pair)
    if before.verdict == "agrees":
        return after
    because = "there is nothing to remove" if before.verdict == "disagrees" else before.because
    return _judgement(claims.period_s * 1e9, after.ours, "not judged", f"in {base.scenario} {because}")


def _not_for(pair: FigurePair, theirs_ns: float, judgement: Judgement) -> Judgement:
    """Take a verdict back where its cell may not be judged; what it would be but for scaling is told."""
    if pair.unusable is None:
        return judgement
    taken_back = _judgement(theirs_ns, judgement.ours / 1e9 if judgement.ours else None, "not judged", pair.unusable)
    verdict = judgement.but_for_scaling or judgement.verdict
    if not pair.is_only_scaled or verdict == "not judged":
        return taken_back
    return taken_back.model_copy(update={"but_for_scaling": verdict})


def _nearest(seen: SeenPeriods, period_s: float) -> tuple[float | None, int]:
    """Give the period that is theirs, and in how many repetitions it was found."""
    own = [one for one in seen.found if abs(one[0] / period_s - 1.0) <= SAME_PERIOD]
    return max(own, key=lambda one: one[1], default=(None, 0))


def _judgement(theirs_ns: float, ours_s: float | None, verdict: Verdict, words: str) -> Judgement:
    is_judged = verdict != "not judged"
    return Judgement(
        theirs=theirs_ns,
        ours=None if ours_s is None else ours_s * 1e9,
        ours_low=None,
        ours_high=None,
        ours_p9999=None,
        verdict=verdict,
        words=words if is_judged else f"not judged, because {words}",
        because=None if is_judged else words,
        but_for_scaling=None,
    )
