"""A run beside published figures: which of our figures are taken, what agrees, and what cannot be judged."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from measured_campaign import FLOOR_NS, PLATFORMS, SAMPLES, campaign_cells, cell, held_back, replaced, run_of, stats

from stealtime.report.cells.surroundings import Clock
from stealtime.report.claims.comparison import SAMPLES_MIN, compare_with_published, comparison_of_campaign
from stealtime.report.claims.document import JudgedClaim, Judgement, MeanRow, PublishedComparison, TableRow
from stealtime.report.claims.judgement import COUNT_FACTOR, Ours, agrees, direction, judge
from stealtime.report.claims.library import find_published
from stealtime.report.claims.model import PublishedRow
from stealtime.report.claims.platforms import choose_platforms
from stealtime.report.interval import Interval, ratio_of_repetitions
from stealtime.studies.latency.analysis.model import CellSummary, TrialSummary
from stealtime.vocabulary.errors import ExitCode, StealtimeError
from stealtime.vocabulary.readings import Value

PAPER = find_published("hyperv2013")


def compared(cells: list[CellSummary], **run: dict[str, str]) -> PublishedComparison:
    return compare_with_published(run_of(cells, skipped=run.get("skipped")), PAPER)


def row_of(comparison: PublishedComparison, scenario: str, test: str) -> TableRow:
    return next(row for row in comparison.rows if (row.scenario, row.test) == (scenario, test))


def machines_of(comparison: PublishedComparison) -> list[JudgedClaim]:
    return comparison.groups[0].claims


def growth_of(comparison: PublishedComparison) -> list[JudgedClaim]:
    return comparison.groups[1].claims


def means_of(comparison: PublishedComparison) -> list[MeanRow]:
    return comparison.groups[0].means


def ratio_of(comparison: PublishedComparison, scenario: str, test: str) -> Judgement:
    return next(one.judgement for one in machines_of(comparison) if (one.scenario, one.test) == (scenario, test))


def test_a_run_with_the_papers_own_figures_agrees_in_everything() -> None:
    comparison = compared(campaign_cells())
    assert {judgement.verdict for _, judgement in comparison.judgements} == {"agrees"}
    assert comparison.is_judged
    assert len(comparison.rows) == 21
    assert len(growth_of(comparison)) == 4 * 2 * 3
    assert len(comparison.groups[2].claims) == 3 * 2 + 2, "periods"
    means = {row.test: row for row in means_of(comparison)}
    assert means["tick"].theirs == pytest.approx(2.25, abs=0.005)
    assert means["all"].theirs == pytest.approx(1.95, abs=0.005)
    assert means["all"].mean.ours == pytest.approx(means["all"].theirs)
    assert (means["all"].theirs_count, means["all"].ours_count) == (21, 21)


def test_contention_is_what_the_papers_tables_say() -> None:
    growth = {
        (one.scenario, one.base_scenario, one.test, one.role): one.judgement.theirs
        for one in growth_of(compared(campaign_cells()))
    }
    assert growth["contention-cpu", "one-to-all", "tick", "emulated"] == pytest.approx(18.56 / 4.35)
    assert growth["all-to-all-memory", "all-to-all-cpu", "switch-2", "paravirt"] == pytest.approx(87 / 36)


def test_a_slower_machine_changes_no_verdict() -> None:
    comparison = compared(campaign_cells(lambda _row, _role: 37.0))
    assert comparison.count("agrees") == len(comparison.judgements)
    assert row_of(comparison, "one-to-one", "tick").figure("emulated").ours == pytest.approx(37 * 7_190_000)


def test_an_emulated_machine_as_good_as_the_paravirtual_one_disagrees() -> None:
    def equal(row: PublishedRow, role: str) -> float:
        return row.figures["paravirt"] / row.figures["emulated"] if role == "emulated" else 1.0

    comparison = compared(campaign_cells(equal))
    tick = ratio_of(comparison, "one-to-all", "tick")
    assert tick.verdict == "disagrees"
    assert tick.words.startswith(
        "ours 1 (no difference; 1 to 1 at 95%), theirs 2.69 (higher): 2.69 times apart, 1.1 are allowed"
    )
    assert f"maxima of {SAMPLES:,} and {SAMPLES:,} samples" in tick.words
    level = ratio_of(comparison, "contention-memory", "switch-2")
    assert (round(level.theirs, 3), level.verdict) == (1.015, "agrees"), "theirs shows no difference either"


def test_the_clock_tick_is_compared_by_its_overhead_and_a_switch_by_its_latency() -> None:
    comparison = compared(campaign_cells())
    tick = row_of(comparison, "one-to-all", "tick").figure("emulated")
    assert tick.ours == pytest.approx(4_350_000)
    assert tick.ours_p9999 == pytest.approx(0.5 * 4_350_000), "over the floor as well"
    switch = row_of(comparison, "one-to-all", "switch-1000").figure("emulated")
    assert switch.ours == pytest.approx(1_240_000)
    assert switch.ours_p9999 == pytest.approx((0.1 + 0.5 * 0.9) * 1_240_000), "the latency itself"


def test_the_bare_machine_is_the_one_without_neighbours_in_every_table() -> None:
    comparison = compared(campaign_cells())
    for row in comparison.rows:
        bare = row.figure("bare")
        assert bare.ours == pytest.approx(bare.theirs), f"{row.scenario}: the cell beside neighbours is 10 times that"
        assert bare.scenario == "one-to-all"
    assert [row.figure.ours for row in comparison.repeated] == pytest.approx([11_200, 11_450])


def test_a_valid_bare_cell_is_taken_before_an_invalid_one() -> None:
    cells = replaced(campaign_cells(), cell("native", "one-to-all", "tick", 5.0, "the clock ran fast"))
    bare = row_of(compared(cells), "contention-cpu", "tick").figure("bare")
    assert (bare.scenario, bare.unusable) == ("one-to-one", None)


def test_traced_cells_are_left_out_and_counted() -> None:
    traced = [one.model_copy(update={"traced": True}) for one in campaign_cells(lambda _row, _role: 50.0)]
    comparison = compared([*campaign_cells(), *traced])
    assert row_of(comparison, "one-to-all", "tick").figure("emulated").ours == pytest.approx(4_350_000)
    assert "traced cells left out, because of the tracing overhead: 63" in comparison.differences


def test_of_several_busy_loops_the_one_of_the_paper_is_taken() -> None:
    longer = cell("qemu-tcg-emulated", "one-to-all", "tick", 9e9, loop_ns=5_000_000)
    shorter = cell("qemu-tcg-emulated", "one-to-all", "tick", 9e9, loop_ns=10_000)
    comparison = compared([shorter, *campaign_cells(), longer])
    assert row_of(comparison, "one-to-all", "tick").figure("emulated").ours == pytest.approx(4_350_000)
    assert not any("busy loop" in text for text in comparison.differences)


def test_another_busy_loop_is_told() -> None:
    cells = [one.model_copy(update={"parameters": {"loop_ns": 100_000}}) if one.probe == "tick" else one
             for one in campaign_cells()]  # fmt: skip
    assert "our busy loop lasts 100 us, theirs 68 us" in compared(cells).differences


NOT_JUDGED = [
    (cell("qemu-tcg-emulated", "one-to-one", "tick", 5e6, "the clock ran fast"),
     "qemu-tcg-emulated is invalid in one-to-one: the clock ran fast"),
    (cell("qemu-tcg-emulated", "one-to-one", "tick", 5e6, count=SAMPLES_MIN - 1),
     "qemu-tcg-emulated has 4,999 samples in one-to-one, of which a maximum says too little: 5,000 are needed, "
     "theirs are of 50,000,000"),
    (cell("qemu-tcg-emulated", "one-to-one", "tick", 5e6).model_copy(update={"scaled": "2 CPUs instead of 4"}),
     "the scenario one-to-one was scaled: 2 CPUs instead of 4"),
    (cell("qemu-tcg-emulated", "one-to-one", "tick", 5e6, "no guest").model_copy(update={"stats": None, "trials": []}),
     "qemu-tcg-emulated failed in one-to-one: no guest"),
    (cell("qemu-tcg-emulated", "one-to-one", "tick", 5e6, count=SAMPLES * 5),
     "the two maxima are of 750,000 and of 150,000 samples, more than 4 times apart, and a maximum grows with their "
     "number"),
    (cell("qemu-tcg-emulated", "one-to-one", "tick", 25e6).model_copy(update={"held_back": held_back(25e6)}),
     "the maximum of qemu-tcg-emulated in one-to-one with tick (25 ms) may hold a pause of RT throttling "
     "(up to 50 ms)"),
    (cell("qemu-tcg-emulated", "one-to-one", "tick", 0.0), "ours is 0, and a ratio needs positive values"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "because"), NOT_JUDGED, ids=lambda value: value if isinstance(value, str) else "")
def test_what_may_not_be_judged_says_why_and_is_in_no_mean(bad: CellSummary, because: str) -> None:
    comparison = compared(replaced(campaign_cells(), bad))
    judgement = ratio_of(comparison, "one-to-one", "tick")
    assert (judgement.verdict, judgement.because) == ("not judged", because)
    assert not comparison.is_judged
    mean = next(row for row in means_of(comparison) if row.test == "tick")
    assert (mean.ours_count, mean.theirs_count) == (6, 7)
    assert mean.theirs == pytest.approx(2.2547, abs=1e-4), "theirs stays whole"
    assert mean.theirs_of_the_same == pytest.approx((2.25471**7 / (7190 / 4080)) ** (1 / 6), abs=1e-3)
    assert mean.mean.ours == pytest.approx(mean.theirs_of_the_same)


def test_what_is_only_scaled_says_what_the_verdict_would_be() -> None:
    scaled = [one.model_copy(update={"scaled": "2 CPUs"}) if one.scenario == "one-to-all" else one
              for one in campaign_cells()]  # fmt: skip
    comparison = compared(scaled)
    judgement = ratio_of(comparison, "one-to-all", "tick")
    assert (judgement.verdict, judgement.but_for_scaling) == ("not judged", "agrees")
    assert judgement.words.startswith(
        "not judged, because the scenario one-to-all was scaled: 2 CPUs; but for that agrees: ours 2.69 (higher; "
        "2.69 to 2.69 at 95%)"
    )
    # 3 ratios of the scenario; the growth of scenario 3 over it: 3 tests, 2 guests; its period, and whether that stays.
    assert (comparison.count("not judged"), comparison.count_but_for_scaling("agrees")) == (13, 13)
    few = cell("qemu-tcg-emulated", "one-to-all", "tick", 4.35e6, count=100).model_copy(update={"scaled": "2 CPUs"})
    judgement = ratio_of(compared(replaced(scaled, few)), "one-to-all", "tick")
    assert judgement.but_for_scaling is None, "it has too few samples besides"
    many = cell("qemu-tcg-emulated", "one-to-all", "tick", 4.35e6, count=SAMPLES * 5)
    many = many.model_copy(update={"scaled": "2 CPUs"})
    judgement = ratio_of(compared(replaced(scaled, many)), "one-to-all", "tick")
    assert (judgement.verdict, judgement.but_for_scaling) == ("not judged", None)
    assert "scaled: 2 CPUs; the two maxima are of 750,000 and of 150,000 samples" in str(judgement.because)


def test_a_skipped_scenario_says_why() -> None:
    cells = [one for one in campaign_cells() if one.scenario != "two-to-all-memory"]
    comparison = compared(cells, skipped={"two-to-all-memory": "it needs 3 CPUs, this host has 2"})
    judgement = ratio_of(comparison, "two-to-all-memory", "tick")
    assert judgement.because == "the scenario two-to-all-memory was skipped: it needs 3 CPUs, this host has 2"
    assert judgement.ours is None
    assert judgement.theirs == pytest.approx(2.5)
    assert "two-to-all-memory was skipped: it needs 3 CPUs, this host has 2" in comparison.differences


def test_what_rt_throttling_explains_is_no_maximum() -> None:
    throttled = cell("qemu-tcg-emulated", "one-to-one", "tick", 51e6)
    explained = {"held_back": held_back(7.19e6)}
    trials = [trial.model_copy(update=explained) for trial in throttled.trials]
    throttled = throttled.model_copy(update={**explained, "trials": trials})
    comparison = compared(replaced(campaign_cells(), throttled))
    assert ratio_of(comparison, "one-to-one", "tick").verdict == "agrees"
    assert any("limited real-time threads on qemu-tcg-emulated" in one for one in comparison.differences)


@pytest.mark.parametrize(
    ("missing", "because"),
    [
        ({"scenario": "one-to-one"}, "the scenario one-to-one was not measured"),
        (
            {"scenario": "one-to-one", "platform": "qemu-tcg-paravirt"},
            "qemu-tcg-paravirt was not measured in one-to-one",
        ),
        (
            {"scenario": "one-to-one", "platform": "qemu-tcg-paravirt", "parameters": {"threads": 2}},
            "qemu-tcg-paravirt was not measured in one-to-one with switch-2",
        ),
    ],
)
def test_what_was_not_measured_is_named_as_a_whole(missing: dict[str, object], because: str) -> None:
    cells = [one for one in campaign_cells() if any(getattr(one, key) != value for key, value in missing.items())]
    assert ratio_of(compared(cells), "one-to-one", "switch-2").because == because


def test_a_run_without_a_paravirtual_machine_is_judged_by_contention_alone() -> None:
    comparison = compared([one for one in campaign_cells() if not one.platform.endswith("-paravirt")])
    assert {one.judgement.because for one in machines_of(comparison)} == {
        "no platform of this run stands for the paravirt machine"
    }
    assert {one.judgement.verdict for one in growth_of(comparison) if one.role == "emulated"} == {"agrees"}
    assert {row.mean.because for row in means_of(comparison)} == {
        "none of the 7 ratios could be judged", "none of the 21 ratios could be judged",
    }  # fmt: skip


def test_99_99th_percentiles_that_point_the_other_way_are_told() -> None:
    judgement = judge(2.0, exactly(1.5, 0.8, (SAMPLES, SAMPLES)))
    assert judgement.verdict == "agrees"
    assert judgement.words.endswith("our 99.99th percentiles say lower (0.8)")


def repeated(one: CellSummary, *factors: float) -> CellSummary:
    """The same cell of several valid repetitions and an invalid one; the largest factor is 1."""
    assert one.stats is not None
    trials = [
        TrialSummary(
            repetition=number, valid=True, reasons=[], folder="",
            stats=one.stats.model_copy(update={"max_overhead_ns": one.stats.max_overhead_ns * factor}),
        )
        for number, factor in enumerate(factors, 1)
    ]  # fmt: skip
    wrong = trials[0].model_copy(update={"valid": False, "stats": stats("tick", 1.0)})
    return one.model_copy(update={"trials": [*trials, wrong]})


def test_only_repetitions_that_decide_it_give_a_verdict() -> None:
    # Theirs is 1.76; from 1.1 to 3.5 agrees.
    steady = (0.95, 1.0, 0.97, 1.0)
    for emulated_ns, scatter, expected in (
        (7e6, steady, "agrees"), (4e6, steady, "disagrees"), (40e6, steady, "disagrees"),
        (7e6, (0.1, 1.0, 0.3, 0.9), "not judged"), (14e6, (0.6, 1.0, 0.8, 0.7), "not judged"),
    ):  # fmt: skip
        emulated = repeated(cell("qemu-tcg-emulated", "one-to-one", "tick", emulated_ns), *scatter)
        paravirt = repeated(cell("qemu-tcg-paravirt", "one-to-one", "tick", 4e6), *steady)
        comparison = compared(replaced(replaced(campaign_cells(), emulated), paravirt))
        judgement = ratio_of(comparison, "one-to-one", "tick")
        assert judgement.verdict == expected, judgement.words
        assert (judgement.ours_low or 0.0) < (judgement.ours or 0.0) < (judgement.ours_high or 0.0)
        if expected == "not judged":
            assert "our repetitions cannot decide it" in str(judgement.because)
        # What cannot be decided alone is a part of the mean all the same.
        mean = next(row for row in means_of(comparison) if row.test == "tick")
        assert (mean.ours_count, mean.theirs_count) == (7, 7)


def test_few_repetitions_give_ratios_and_no_verdict() -> None:
    once = [one.model_copy(update={"trials": one.trials[:3]}) for one in campaign_cells()]
    comparison = compared(once)
    assert {judgement.verdict for _, judgement in comparison.judgements} == {"not judged"}
    judgement = ratio_of(comparison, "one-to-one", "tick")
    assert judgement.ours == pytest.approx(judgement.theirs)
    assert (judgement.ours_low, "fewer than 4 repetitions" in str(judgement.because)) == (None, True)


def test_a_ratio_is_known_no_better_than_its_clock_counts() -> None:
    clock = Clock(
        name="counter", units_per_s=1e6, tsc_hz=1e9, source="made up", worst_disagreement_ppm=0.0, kernel=None,
        host=None, alignment_error_bound_ns=None,
    )  # fmt: skip
    comparison = compared([one.model_copy(update={"clock": clock}) for one in campaign_cells()])
    ratios = [one.judgement for one in (*machines_of(comparison), *growth_of(comparison))]
    for judgement in (*ratios, *(row.mean for row in means_of(comparison))):
        assert (judgement.ours_low or 0.0) < (judgement.ours or 0.0) < (judgement.ours_high or 0.0), judgement.words
    tick = ratio_of(comparison, "one-to-one", "tick")
    reach = np.log((tick.ours_high or 0.0) / (tick.ours or 1.0))
    assert reach == pytest.approx(1_000 / 7_190_000 + 1_000 / 4_080_000)


@pytest.mark.parametrize("true_ratio", [1.0, 1.05, 2.25, 4.6, 0.5])
def test_a_wrong_verdict_is_given_in_5_percent_at_most(true_ratio: float) -> None:
    # Maxima of equal trials are 1.57 times apart at the median: their logarithms have a standard deviation of 0.47.
    theirs, random, wrong = 2.25, np.random.default_rng(5), 0
    is_same = agrees(theirs, true_ratio)
    for scatter in (0.02, 0.1, 0.47):
        drawn = np.exp(scatter * random.standard_normal((300, 2, 4)))
        for base, other in drawn:
            interval = ratio_of_repetitions(list(base), list(true_ratio * other), same_session=True)
            verdict_given = judge(theirs, Ours(interval.value, None, None, interval)).verdict
            wrong += verdict_given == ("disagrees" if is_same else "agrees")
    assert wrong <= 0.05 * 900


def test_an_unresolved_percentile_gives_no_second_view() -> None:
    few = cell("qemu-tcg-emulated", "one-to-one", "tick", 5e6, count=9_999)
    comparison = compared(replaced(campaign_cells(), few))
    assert ratio_of(comparison, "one-to-one", "tick").ours_p9999 is None


@pytest.mark.parametrize(
    ("platforms", "emulated", "paravirt"),
    [
        (["qemu-tcg-emulated", "qemu-tcg-paravirt", "native"], "qemu-tcg-emulated", "qemu-tcg-paravirt"),
        (
            ["qemu-tcg-emulated", "qemu-tcg-paravirt", "qemu-kvm-emulated", "qemu-kvm-paravirt"],
            "qemu-kvm-emulated", "qemu-kvm-paravirt",
        ),
        (["qemu-tcg-emulated", "qemu-tcg-paravirt", "qemu-kvm-paravirt"], "qemu-tcg-emulated", "qemu-tcg-paravirt"),
        (["qemu-tcg-emulated", "qemu-kvm-paravirt"], None, "qemu-kvm-paravirt"),
        (["qemu-kvm-hyperv", "uml"], None, None),
    ],
)  # fmt: skip
def test_both_guests_are_of_one_family(platforms: list[str], emulated: str | None, paravirt: str | None) -> None:
    chosen = {one.role: one for one in choose_platforms(PAPER.machines, platforms)}
    assert (chosen["emulated"].platform, chosen["paravirt"].platform) == (emulated, paravirt)
    for one in chosen.values():
        if one.platform is not None and "tcg" in one.platform:
            assert "TCG, which translates every instruction in software: this is not KVM" in one.words
        else:
            assert "TCG" not in one.words
    assert ("native" in platforms) == (chosen["bare"].platform == "native")


def test_a_run_without_any_fitting_cell_ends_as_not_judged() -> None:
    cells = [cell("native", "alone", "tick", 5e6), cell("native", "one-to-all", "switch-10", 5e6)]
    with pytest.raises(StealtimeError, match="no untraced cell of which hyperv2013 has figures") as raised:
        compared(cells)
    assert raised.value.exit_code == ExitCode.NOT_JUDGED
    assert raised.value.hint == "measure one with `stealtime run hyperv2013 --short`"
    assert comparison_of_campaign(run_of(cells)) is None


def test_only_a_campaign_named_after_a_paper_is_compared_by_itself() -> None:
    run = run_of(campaign_cells())
    assert comparison_of_campaign(run) == compare_with_published(run, PAPER)
    assert comparison_of_campaign(run.model_copy(update={"campaign": "quick"})) is None


def test_what_differs_from_the_paper_is_told() -> None:
    comparison = compared(campaign_cells())
    assert any("Microsoft Hyper-V Server 2012" in text for text in comparison.differences)
    assert any(f"maxima of 50,000,000 samples, ours of {SAMPLES:,}:" in text for text in comparison.differences)
    assert any("itself a virtual machine" in text for text in comparison.differences)
    bare_host = compare_with_published(run_of(campaign_cells(), host={"hypervisor": Value(value=False)}), PAPER)
    assert not any("itself a virtual machine" in text for text in bare_host.differences)


RATIO = st.floats(1e-4, 1e4)


def verdict(theirs: float, ours: float) -> str:
    return judge(theirs, exactly(ours)).verdict


def exactly(ours: float, p9999: float | None = None, samples: tuple[int, int] | None = None) -> Ours:
    """A ratio of ours without any spread."""
    return Ours(ours, p9999, samples, Interval(ours, ours, ours))


@given(RATIO)
def test_every_ratio_agrees_with_itself(ratio: float) -> None:
    assert verdict(ratio, ratio) == "agrees"


@given(RATIO, RATIO)
def test_the_verdict_does_not_depend_on_whose_ratio_is_whose(first: float, second: float) -> None:
    assert verdict(first, second) == verdict(second, first)


@given(RATIO, st.floats(2.01, 1e4))
def test_ratios_further_apart_than_the_factor_disagree(ratio: float, factor: float) -> None:
    assert verdict(ratio, ratio * factor) == "disagrees"


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        (2.25, 1.13, "agrees"), (2.25, 4.49, "agrees"), (2.25, 1.12, "disagrees"), (2.25, 4.51, "disagrees"),
        (1.05, 0.96, "agrees"), (1.15, 1.06, "agrees"), (1.01, 0.82, "disagrees"), (1.01, 1.3, "disagrees"),
        (1.95, 1.0, "disagrees"), (1.2, 0.8, "disagrees"),
    ],
)  # fmt: skip
def test_the_rule_at_its_limits(theirs: float, ours: float, expected: str) -> None:
    assert verdict(theirs, ours) == expected


@given(st.floats(1.2, 100.0), st.floats(0.01, 0.9))
def test_opposite_directions_disagree(above: float, below: float) -> None:
    assert (direction(above), direction(below)) == ("higher", "lower")
    assert verdict(above, below) == verdict(below, above) == "disagrees"


@given(st.floats(0.01, 100.0), st.floats(0.01, 100.0))
def test_the_verdict_does_not_depend_on_which_machine_is_the_base(first: float, second: float) -> None:
    apart = max(first, second) / min(first, second)
    limits = [abs(value - 1.1) for value in (first, second, 1 / first, 1 / second)]
    assume(min(*limits, abs(apart - 1.1), abs(apart - 2)) > 1e-9)
    assert verdict(1 / first, 1 / second) == verdict(first, second)


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_maxima_of_very_different_numbers_of_samples_are_not_judged(first: int, second: int) -> None:
    judgement: Judgement = judge(2.0, exactly(2.0, None, (first, second)))
    assert (judgement.verdict == "not judged") == (max(first, second) > COUNT_FACTOR * min(first, second))


@settings(max_examples=25)
@given(st.floats(0.1, 50.0), st.floats(0.1, 50.0), st.floats(0.1, 50.0))
def test_our_ratio_is_that_of_our_maxima(emulated: float, paravirt: float, bare: float) -> None:
    factors: dict[str, float] = {"emulated": emulated, "paravirt": paravirt, "bare": bare}
    comparison = compared(campaign_cells(lambda _row, role: factors[role]))
    for judgement in (one.judgement for one in machines_of(comparison)):
        assert judgement.ours == pytest.approx(judgement.theirs * emulated / paravirt)
    means = {row.test: row.mean for row in means_of(comparison)}
    assert means["all"].ours == pytest.approx(1.95377 * emulated / paravirt, rel=1e-4)


def test_the_made_up_campaign_has_the_papers_shape() -> None:
    assert len(campaign_cells()) == 63
    assert {one.platform for one in campaign_cells()} == set(PLATFORMS.values())
    assert all(
        one.stats is not None and one.stats.floor_ns == FLOOR_NS for one in campaign_cells() if one.probe == "tick"
    )
