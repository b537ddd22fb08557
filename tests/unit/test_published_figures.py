"""The figures that come with stealtime are those of the paper, and files that do not fit together are refused."""

from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.lab.scenarios.model import SCENARIOS
from stealtime.report import notation
from stealtime.report.claims.library import find_published, published_names, read_published
from stealtime.report.claims.model import geometric_mean
from stealtime.vocabulary.errors import StealtimeError, UsageError

PRINTED = {
    # As the paper prints them: bare machine, emulated VM, enlightened VM; under tests of 2 and 1000 threads in turn.
    "Table 2": [("10 µs", "4.35 ms", "1.62 ms")],
    "Table 3": [("11.2 µs", "3.53 ms", "63 µs"), ("11.45 µs", "1.24 ms", "687 µs")],
    "Table 4": [("10 µs", "7.19 ms", "4.08 ms")],
    "Table 5": [("11.2 µs", "1.78 ms", "1.24 ms"), ("11.45 µs", "1.8 ms", "1.47 ms")],
    "Table 6": [("10 µs", "18.56 ms", "9.16 ms")],
    "Table 7": [("11.2 µs", "5.96 ms", "5.7 ms"), ("11.45 µs", "5.96 ms", "5.17 ms")],
    "Table 8": [("10 µs", "21.3 ms", "11.8 ms")],
    "Table 9": [("11.2 µs", "6.8 ms", "6.7 ms"), ("11.45 µs", "6.8 ms", "5.2 ms")],
    "Table 10": [("10 µs", "5.21 ms", "2.55 ms")],
    "Table 11": [("11.2 µs", "76 µs", "36 µs"), ("11.45 µs", "165 µs", "108 µs")],
    "Table 12": [("10 µs", "15.18 ms", "4.53 ms")],
    "Table 13": [("11.2 µs", "167 µs", "87 µs"), ("11.45 µs", "445 µs", "393 µs")],
    "Table 15": [("10 µs", "5.3 ms", "2.12 ms")],
    "Table 16": [("11.2 µs", "114 µs", "67 µs"), ("11.45 µs", "212 µs", "166 µs")],
}


def files(name: str = "hyperv2013") -> tuple[str, str]:
    folder = resources.files("stealtime.studies.latency") / "published"
    return (folder / f"{name}.toml").read_text("utf-8"), (folder / f"{name}.csv").read_text("utf-8")


def test_every_figure_is_the_one_that_the_paper_prints() -> None:
    found: dict[str, list[tuple[str, ...]]] = {}
    published = find_published("hyperv2013")
    for row in published.rows:
        figures = tuple(notation.trimmed_duration(round(published.figure(row, role))) for role in published.roles)
        found.setdefault(row.source, []).append(figures)
    assert found == PRINTED


def test_table_1_is_the_bare_machine_alone() -> None:
    repeated = {one.test: (one.source, one.figure) for one in find_published("hyperv2013").repeated}
    assert repeated == {"switch-2": ("Table 1", 11.2), "switch-1000": ("Table 1", 11.45)}


@pytest.mark.parametrize(
    ("test", "count", "mean"), [("tick", 7, 2.25), ("switch-2", 7, 2.49), ("switch-1000", 7, 1.33), ("all", 21, 1.95)]
)
def test_the_geometric_means_come_out_of_the_figures(test: str, count: int, mean: float) -> None:
    published = find_published("hyperv2013")
    claims = published.claims_of(published.claims[0])
    ratios = [claim.figure for claim in claims if test in (claim.row.test, "all")]
    assert len(ratios) == count
    assert geometric_mean(ratios) == pytest.approx(mean, abs=0.005)


def test_what_the_remarks_say_of_the_figures_is_true() -> None:
    published = find_published("hyperv2013")
    tables = {int(row.source.split()[1]) for row in published.rows} | {1}
    assert set(range(1, 17)) - tables == {14}
    claims = published.claims_of(published.claims[1])
    growth = [one.figure for one in claims if one.base_row is not None and one.base_row.scenario == "all-to-all-cpu"]
    assert len(growth) == 6
    assert (round(min(growth), 1), round(max(growth), 1)) == (1.8, 3.6)


def test_every_scenario_of_the_paper_can_be_measured() -> None:
    assert set(find_published("hyperv2013").scenarios) <= set(SCENARIOS)


def test_the_reference_is_whole() -> None:
    citation = find_published("hyperv2013").citation
    for part in ("Hasan Fayyad-Kazan, Luc Perneel and Martin Timmerman", "volume 13, issue 2", "2013", "0975-4172"):
        assert part in citation


@pytest.mark.parametrize("name", published_names())
def test_all_that_comes_with_stealtime_can_be_read(name: str) -> None:
    assert find_published(name).name == name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("hyperv-2013", "did you mean 'hyperv2013'?"),
        ("xyz", "there are: guest-disk-times, hyperv-stretch, hyperv2013, rtos2013, telephony2011"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest_one(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=repr(name)) as raised:
        find_published(name)
    assert raised.value.hint == hint


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        (
            "tick,10,4350,1620",
            "tick,10,-4350,1620",
            r"hyperv2013\.csv is damaged, line 2, figures.emulated: .*greater than 0",
        ),
        ("tick,10,4350,1620", "tick,10,nan,1620", r"line 2, figures.emulated"),
        ("tick,10,4350,1620", "tick,10,,1620", r"line 2, figures.emulated"),
        ("tick,10,4350,1620,Table 2", "tick,10,4350,1620", r"line 2, source"),
        ("tick,10,4350,1620,Table 2", "tick,10,4350,1620,Table 2,more", r"line 2"),
        ("switch-2,11.2,3530,63", "switch-two,11.2,3530,63", r"Table 3 has the test 'switch-two'"),
        ("switch-2,11.2,3530,63", "tick,11.2,3530,63", r"one-to-all tick is there 2 times"),
        ("2,one-to-one,,tick,10,7190,4080,Table 4\n", "", r"one-to-one has no figure of tick"),
        ("2,one-to-one,,tick", "9,one-to-one,,tick", r"one-to-one has the numbers \[2, 9\]"),
        ("switch-2,11.2,3530,63", "switch-2,12.2,3530,63", r"Table 3 gives 12.2 for bare, Table 1 11.2"),
        ("emulated", "emulating", r"line 2, emulating: Extra inputs"),
    ],
)
def test_damaged_figures_are_told_with_their_place(before: str, after: str, complaint: str) -> None:
    source, figures = files()
    assert before in figures
    with pytest.raises(StealtimeError, match=complaint):
        read_published("hyperv2013", source, figures.replace(before, after, 1))


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('unit = "us"', "unit = ", r"hyperv2013\.toml is damaged: "),
        ('unit = "us"', 'unit = "new"', r"hyperv2013\.toml is damaged, unit"),
        ("samples = 50_000_000", "samples = 0", r"samples"),
        ('"contention-cpu"]', '"contention"]', r"'Contention: .*' names the scenario 'contention'"),
        ('test = "switch-2"', 'test = "switch-3"', r"Table 1 has the test 'switch-3'"),
        ('base = "paravirt"', 'base = "enlightened"', r"names the machine 'enlightened'"),
        ('base = "paravirt"', "", r"is of the rule 'ratio' and has 0 kinds of base"),
        ('ending = "-paravirt"', "", r"paravirt needs a platform, or the ending of one"),
        ("licence = ", "license = ", r"licence: Field required"),
    ],
)
def test_a_damaged_source_is_told(before: str, after: str, complaint: str) -> None:
    source, figures = files()
    assert before in source
    with pytest.raises(StealtimeError, match=complaint):
        read_published("hyperv2013", source.replace(before, after, 1), figures)


RATIOS = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30)


@given(RATIOS)
def test_the_mean_of_the_inverse_ratios_is_the_inverse_of_the_mean(ratios: list[float]) -> None:
    assert geometric_mean([1 / ratio for ratio in ratios]) == pytest.approx(1 / geometric_mean(ratios))


@given(RATIOS)
def test_the_mean_lies_between_the_smallest_and_the_largest_ratio(ratios: list[float]) -> None:
    assert min(ratios) * (1 - 1e-9) <= geometric_mean(ratios) <= max(ratios) * (1 + 1e-9)


@pytest.mark.parametrize("ratios", [[], [1.0, 0.0], [-2.0]])
def test_there_is_no_mean_of_nothing_or_of_what_is_not_positive(ratios: list[float]) -> None:
    with pytest.raises(ValueError, match="positive values"):
        geometric_mean(ratios)
