"""A supply without its rarest gaps: as few windows meet them as are allowed, by counting windows."""

import json
from fractions import Fraction
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from command import Command, make_command
from hypothesis import given
from hypothesis import strategies as st

from stealtime.cli import sched_sources
from stealtime.schedulability.supply import DEDICATED, Supply, parse_supply, without_rarest_gaps
from stealtime.schemas import DOCUMENTS
from stealtime.vocabulary.service import Observation

SECOND = 1_000_000_000


def observation(*gaps: tuple[int, int], observed_ns: int = SECOND) -> Observation:
    begins, lengths = np.array(gaps, np.uint64).reshape(-1, 2).T.copy()
    return Observation(observed_ns, begins, lengths)


def observed(*gaps: tuple[int, int], observed_ns: int = SECOND) -> Supply:
    return Supply("observed", observations=(observation(*gaps, observed_ns=observed_ns),), source="a machine")


def gaps_of(supply: Supply) -> list[tuple[int, int]]:
    return [
        (int(begin), int(length))
        for one in supply.observations
        for begin, length in zip(one.begin_ns, one.length_ns, strict=True)
    ]


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(1, 40)), max_size=12),
    st.integers(1, 200),
    st.sampled_from([Fraction(1, 100), Fraction(1, 10), Fraction(1, 2)]),
)
def test_no_more_windows_meet_what_is_left_out_than_are_allowed(
    drawn: list[tuple[int, int]], window: int, share: Fraction
) -> None:
    length = 1_000
    gaps, free = [], 0
    for begin, long in sorted(drawn):
        if begin >= free and begin + long <= length:
            gaps.append((begin, long))
            free = begin + long
    supply, count = without_rarest_gaps(observed(*gaps, observed_ns=length), share, window)
    kept = gaps_of(supply)
    left_out = [gap for gap in gaps if gap not in kept]
    assert len(left_out) == count
    # Of a continuum of windows, those that begin in the middle of each unit.
    begins = np.arange(length - window) + 0.5
    meets = np.zeros(len(begins), np.bool_)
    for begin, long in left_out:
        meets |= (begins < begin + long) & (begins + window > begin)
    assert meets.sum() <= share * (length - window)
    # What is left out is no shorter than what is kept.
    assert not left_out or not kept or min(gap[1] for gap in left_out) >= max(gap[1] for gap in kept)


def test_the_longest_gaps_go_first_and_a_short_observation_keeps_all() -> None:
    one = observed((0, 5_000), (100_000_000, 9_000_000), (500_000_000, 1_000))
    assert without_rarest_gaps(one, Fraction(0), 10_000_000) == (one, 0)
    # 1 % of 990 ms is less than the 19 ms that meet the longest one, 2 % are not.
    assert without_rarest_gaps(one, Fraction(1, 100), 10_000_000) == (one, 0)
    kept, count = without_rarest_gaps(one, Fraction(2, 100), 10_000_000)
    assert (count, gaps_of(kept)) == (1, [(0, 5_000), (500_000_000, 1_000)])
    # Windows longer than the observation: nothing can be said.
    assert without_rarest_gaps(one, Fraction(1, 2), 2 * SECOND) == (one, 0)


def test_the_longest_gaps_of_all_observations_go_first() -> None:
    first, second = observation((10, 7_000_000), (20_000_000, 50)), observation((5, 9_000_000))
    both = Supply("observed", observations=(first, second), source="a machine")
    # Of 1.98 s of moments 1 % has room for the longest with its 10 ms, not for the other as well.
    kept, count = without_rarest_gaps(both, Fraction(1, 100), 10_000_000)
    assert (count, gaps_of(kept)) == (1, [(10, 7_000_000), (20_000_000, 50)])
    assert [one.observed_ns for one in kept.observations] == [SECOND, SECOND]


@pytest.mark.parametrize("supply", [DEDICATED, parse_supply("6ms/10ms")])
def test_a_supply_that_was_not_observed_stays_as_it_is(supply: Supply) -> None:
    assert without_rarest_gaps(supply, Fraction(1, 2), 10) == (supply, None)


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.toml").write_text('[[tasks]]\nname = "a"\ncost = "4ms"\nperiod = "10ms"\n')
    return make_command(monkeypatch, capsys)


def test_one_rare_gap_decides_the_verdict_unless_a_miss_is_allowed(
    stealtime: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A single stretch of 7 ms in 10 s: with it a job of 4 ms is not done within 10 ms. 17 ms are 0.17 % of all moments.
    rare = observed((1_000_000_000, 7_000_000), observed_ns=10 * SECOND)
    monkeypatch.setattr(sched_sources, "supply_of", lambda *_: rare)
    arguments = ("sched", "analyze", "t.toml", "--supply", "last", "--allow-misses")
    ended = stealtime(*arguments, "--json")
    assert ended.code == 3, ended.err
    document = json.loads(ended.out)
    jsonschema.validate(document, DOCUMENTS["analysis"].schema())
    allowed = document["cpus"][0]["allowed"]
    assert [(one["misses_percent"], one["gaps_left_out"], one["verdict"]) for one in allowed] == [
        (0.0, 0, "not schedulable"),
        (0.1, 0, "not schedulable"),
        (1.0, 1, "schedulable"),
    ]
    assert {one["overheads"] for one in allowed} == {"as given"}
    words = " ".join(stealtime(*arguments).out.split())
    assert "empirical, not proven" in words
    assert "Gaps left out: the longest that were observed" in words


@pytest.mark.parametrize("supply", ["dedicated", "6ms/10ms"])
def test_nothing_is_allowed_where_nothing_was_measured(stealtime: Command, supply: str) -> None:
    ended = stealtime("sched", "analyze", "t.toml", "--supply", supply, "--allow-misses")
    assert (ended.code, ended.out) == (2, "")
    assert "--allow-misses needs something that a run measured" in ended.err
