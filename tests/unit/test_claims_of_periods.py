"""Claims about what comes again after a time: judged where there is evidence, and nowhere else."""

from typing import Any

import pytest
from measured_campaign import PLATFORMS, SAMPLES, campaign_cells, held_back, period, replaced, run_of, stats

from stealtime.report.claims.comparison import compare_with_published
from stealtime.report.claims.document import JudgedClaim, PublishedComparison
from stealtime.report.claims.library import find_published
from stealtime.report.interval import REPETITIONS_MIN
from stealtime.studies.latency.analysis.model import CellSummary, Period

PAPER = find_published("hyperv2013")
EMULATED = PLATFORMS["emulated"]
EACH_SECOND = PAPER.periods[0].period_s


def compared(cells: list[CellSummary]) -> PublishedComparison:
    return compare_with_published(run_of(cells), PAPER)


def periods_of(comparison: PublishedComparison) -> list[JudgedClaim]:
    return next(group.claims for group in comparison.groups if group.kind == "periods")


def with_periods(scenario: str, *periods: Period, **changes: Any) -> PublishedComparison:
    """Compare a run in which the emulated machine has these periods in one scenario."""
    cells = campaign_cells()
    old = next(one for one in cells if (one.platform, one.scenario, one.probe) == (EMULATED, scenario, "tick"))
    return compared(replaced(cells, old.model_copy(update={"periods": list(periods), **changes})))


def verdicts_of_periods(comparison: PublishedComparison) -> dict[tuple[str, str | None], str]:
    claims = [one for one in periods_of(comparison) if one.platform == EMULATED]
    return {(one.scenario, one.base_scenario): one.judgement.verdict for one in claims}


def test_a_period_that_is_not_there_disagrees_and_one_of_another_length_is_another() -> None:
    comparison = with_periods("all-to-all-cpu", period(0.97 * EACH_SECOND))
    assert verdicts_of_periods(comparison) == {
        ("one-to-all", None): "agrees",
        ("one-to-one", None): "agrees",
        ("all-to-all-cpu", None): "disagrees",
        ("one-to-one", "one-to-all"): "agrees",
    }
    [claim] = [one for one in periods_of(comparison) if one.judgement.verdict == "disagrees"]
    assert claim.judgement.words == f"found in 0 of {REPETITIONS_MIN} repetitions"
    assert (claim.judgement.theirs, claim.judgement.ours, claim.source) == (1e9, None, "Figure 13")


def test_a_cpu_of_its_own_that_removes_the_period_disagrees_with_what_stays() -> None:
    verdicts = verdicts_of_periods(with_periods("one-to-one"))
    assert verdicts["one-to-one", None] == verdicts["one-to-one", "one-to-all"] == "disagrees"


def test_where_nothing_comes_again_nothing_can_be_removed() -> None:
    comparison = with_periods("one-to-all")
    assert verdicts_of_periods(comparison)["one-to-one", "one-to-all"] == "not judged"
    assert any("in one-to-all there is nothing to remove" in one.judgement.words for one in periods_of(comparison))


@pytest.mark.parametrize(
    ("periods", "changes", "because"),
    [
        ([period(EACH_SECOND, found=REPETITIONS_MIN // 2)], {}, "found in 2 of 4 repetitions"),
        ([], {"trials": 3}, "there are 3 repetitions"),
        ([], {"count": SAMPLES // 2}, "a repetition lasted 5.10 s, and 10 cycles are needed"),
        ([period(EACH_SECOND)], {"held_back": True}, "RT throttling takes time once in each of its periods"),
        ([period(EACH_SECOND)], {"valid": False, "reasons": ["the clock ran fast"]}, "the clock ran fast"),
        ([period(EACH_SECOND)], {"scaled": "2 CPUs of 4"}, "the scenario all-to-all-cpu was scaled: 2 CPUs of 4"),
    ],
)
def test_a_period_is_not_judged_without_the_evidence(
    periods: list[Period], changes: dict[str, Any], because: str
) -> None:
    cells = campaign_cells()
    old = next(one for one in cells if (one.platform, one.scenario, one.probe) == (EMULATED, "all-to-all-cpu", "tick"))
    trials = old.trials[: changes.pop("trials", REPETITIONS_MIN)]
    if count := changes.pop("count", None):
        trials = [one.model_copy(update={"stats": stats("tick", 1e6, count)}) for one in trials]
    if changes.pop("held_back", False):
        changes["held_back"] = held_back(1e6)
    new = old.model_copy(update={"periods": periods, "trials": trials, **changes})
    comparison = compared(replaced(cells, new))
    [claim] = [one for one in periods_of(comparison) if (one.platform, one.scenario) == (EMULATED, "all-to-all-cpu")]
    assert claim.judgement.verdict == "not judged"
    assert because in claim.judgement.words
    assert claim.judgement.but_for_scaling == ("agrees" if "scaled" in changes else None)
