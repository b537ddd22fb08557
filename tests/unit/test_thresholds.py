"""``--max-overhead``: how thresholds are written, percentiles, and the list that stands before everything else."""

import json
from pathlib import Path
from typing import Any

import pytest
import telephony_cells
from command import Command
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml
from synthetic_run import SyntheticCell, write_synthetic_run
from telephony_cells import MS
from test_one_rule import complete

from stealtime.campaigns.model import Campaign
from stealtime.campaigns.registry import probes
from stealtime.campaigns.threshold import Threshold, parse_threshold, parse_thresholds
from stealtime.report.cells.model import Bounded
from stealtime.report.gate import Gate, fewest_samples, hold
from stealtime.report.junit import write_junit
from stealtime.report.summarizing import held, summarize
from stealtime.report.verdict_lines import SHOWN, verdicts_of_gate
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.model import Stats

SHORT = ("run", "quick", "-D", "1ms", "--repetitions", "1")
WAKEUP = SyntheticCell("native", "wakeup", {"interval_ns": MS}, 1_900.0, 410_000.0, 0.4, 4_000)
TICK = SyntheticCell("native", "tick", {"loop_ns": 68_000}, 68_000.0, 300_000.0, 0.4, 2_000)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Of 4,000 wake-ups and 2,000 turns of a loop."""
    return Run.open(complete(write_synthetic_run(tmp_path / "run", cells=[WAKEUP, TICK]).folder))


def gate_of(run: Run, *texts: str) -> Gate:
    gate = held(summarize(run), texts).gate
    assert gate is not None
    return gate


def test_a_threshold_is_written_as_it_is_read() -> None:
    assert parse_threshold("100us") == parse_threshold(" max = 100us ") == Threshold("max", 100_000)
    assert parse_threshold("p99.9=1m30s") == Threshold("p99.9", 90_000_000_000)
    assert parse_threshold("p099.90=1ms").text == "p99.9=1ms"
    assert parse_threshold("p0.5=1ms").percentile == "0.5"


@given(st.sampled_from(["max", "p50", "p99", "p99.9", "p99.999"]), st.integers(min_value=1, max_value=10**15))
def test_every_threshold_survives_its_text(statistic: str, at_most_ns: int) -> None:
    one = Threshold(statistic, at_most_ns)
    assert parse_threshold(one.text) == one


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("p100.5=1us", "there is no p100.5; a percentile lies between 0 and 100"),
        ("p100=1us", "there is no p100; a percentile lies between 0 and 100"),
        ("p0=1us", "there is no p0"),
        ("p99.9=", "'p99.9=' has no duration; expected one such as p99.9=100us"),
        ("pxx=1us", "has 'pxx' for a percentile; expected one such as p99.9"),
        ("99.9=1us", "has '99.9' for a percentile"),
        ("=1us", "has '' for a percentile"),
        ("p99.9=100", "'100' has no unit"),
        ("p99.9=0us", "less than 1 ns"),
        ("p99.9", "is not a duration"),
    ],
)
def test_another_form_is_refused_in_a_sentence_with_a_hint(stealtime: Command, text: str, complaint: str) -> None:
    ended = stealtime("run", "quick", "--max-overhead", text)
    assert (ended.code, ended.out) == (2, "")
    told, hint = ended.err.splitlines()
    assert told.startswith("error: --max-overhead: ")
    assert complaint in told
    assert hint == "hint: 100us bounds the longest value, p99.9=100us the 99.9th percentile"


def test_two_thresholds_for_one_statistic_are_refused(stealtime: Command) -> None:
    ended = stealtime("run", "--max-overhead", "p99.9=1us", "--max-overhead", "p99.90=2us")
    assert ended.code == 2
    assert "two thresholds are given for p99.9: p99.9=1us and p99.9=2us" in ended.err


def test_a_probe_without_the_percentile_is_refused_before_anything_is_measured(stealtime: Command) -> None:
    ended = stealtime("run", "quick", "--dry-run", "--max-overhead", "p99.5=1ms")
    assert ended.code == 2
    assert "--max-overhead p99.5=1ms has nothing to judge of" in ended.err
    assert "p50, p90, p99, p99.9, p99.99, p99.999 of the overhead" in ended.err
    assert stealtime("run", "quick", "--dry-run", "--max-overhead", "p99.9=1ms").code == 0


def test_every_declared_percentile_of_latency_is_a_statistic_of_its_cells() -> None:
    for name in ("tick", "switch", "wakeup"):
        kept = probes()[name].percentiles
        assert kept is not None
        assert {f"p{one.replace('.', '')}_ns" for one in kept.known} <= set(Stats.model_fields)


def test_a_percentile_is_judged_by_the_figure_of_the_table(run: Run) -> None:
    wakeup, _ = summarize(run).cells
    stats = wakeup.stats  # type: ignore[attr-defined]
    over_ns = round(stats.p999_ns - stats.floor_ns)
    over, under = gate_of(run, f"p99.9={over_ns - 1}ns"), gate_of(run, f"p99.9={over_ns + 1}ns")
    assert (over.cells[0].verdict, over.verdict) == ("exceeded", "exceeded")
    assert over.cells[0].value_ns == stats.p999_ns - stats.floor_ns
    assert over.cells[0].over_ns == pytest.approx(1.0, abs=1.0)
    assert under.cells[0].verdict == "passed"


def test_too_few_samples_judge_no_percentile_whatever_its_value(run: Run) -> None:
    assert [fewest_samples(one) for one in ("50", "99", "99.9", "99.99")] == [5, 299, 2995, 29956]
    for text in ("p99.9=1ns", "p99.9=1s"):
        _, tick = gate_of(run, text).cells
        assert (tick.verdict, tick.over_ns) == ("not judged", None)
        assert tick.because == "2,000 of 2,995 samples for p99.9: measure longer"
    assert gate_of(run, "p99.9=1s").verdict == "not judged", "one that passed does not make up for it"


@given(st.integers(min_value=1, max_value=10**6), st.sampled_from(["50", "90", "99", "99.9", "99.99"]))
def test_fewest_samples_are_those_of_which_one_lies_beyond_in_95_of_100_cases(number: int, percentile: str) -> None:
    beyond = 1.0 - (float(percentile) / 100.0) ** number
    assert (beyond >= 0.95 - 1e-12) == (number >= fewest_samples(percentile))


def test_several_thresholds_stand_beside_each_other(run: Run, tmp_path: Path) -> None:
    gate = gate_of(run, "300us", "p99=1s")
    assert [(one.probe, one.threshold, one.verdict) for one in gate.cells] == [
        ("wakeup", "300us", "exceeded"), ("wakeup", "p99=1s", "passed"),
        ("tick", "300us", "passed"), ("tick", "p99=1s", "passed"),
    ]  # fmt: skip
    assert [one.threshold for one in gate.of_cell(1)] == ["300us", "p99=1s"]
    (remark,) = gate.remarks
    assert remark.startswith("over --max-overhead 300us: native wakeup: 408.1 us")
    summary = summarize(run).model_copy(update={"gate": gate_of(run, "300us", "p99.9=1ns")})
    write_junit(run, summary, tmp_path / "cells.xml")
    all_cases = (case for suite in JUnitXml.fromfile(str(tmp_path / "cells.xml")) for case in suite)
    cases = {case.name: case.result for case in all_cases if case.classname.endswith("native.alone")}
    assert [type(one) for one in cases["wakeup 1ms"]] == [Failure, Failure], "one of each threshold"
    assert [type(one) for one in cases["tick 68us"]] == [Error]


def test_the_list_has_the_worst_first_and_says_by_how_much(run: Run) -> None:
    verdicts = verdicts_of_gate(gate_of(run, "300us", "p99.9=1s"))
    told = [(line.outcome, line.name, line.words) for line in verdicts.lines]
    assert told == [
        ("fail", "native wakeup 1ms", "max 408.1 µs, 108.1 µs over 300 µs"),
        ("not judged", "native tick 68us", "2,000 of 2,995 samples for p99.9: measure longer"),
        ("pass", "native wakeup 1ms", told[2][2]),
        ("pass", "native tick 68us", "max 232.0 µs, not over 300 µs"),
    ]
    assert told[2][2].startswith("p99.9 ")
    many = gate_of(run, "300us")
    (first, second) = many.cells
    verdicts = verdicts_of_gate(many.model_copy(update={"cells": [first] * 3 + [second] * 20}))
    assert len(verdicts.lines) == SHOWN + 1
    assert [(one.outcome, one.name) for one in verdicts.lines[-1:]] == [("pass", "13 more")]


def test_thresholds_of_a_campaign_file_hold_and_the_command_line_replaces_them(
    stealtime: Command, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    text = 'name = "mine"\nplatforms = ["native"]\nmax_overhead = {}\n[[probes]]\nprobe = "tick"\nduration = "1ms"\n'
    path.write_text(text.format('["9s", "p50=1ns"]'))
    ended = stealtime("run", str(path), "--json")
    gate = json.loads(ended.out)["gate"]
    assert (ended.code, gate["thresholds"], gate["verdict"]) == (3, ["9s", "p50=1ns"], "exceeded")
    shown = stealtime("show", "--json")
    assert (shown.code, json.loads(shown.out)["gate"]) == (3, gate), "the run knows what it was held against"
    assert stealtime("show").out.splitlines()[2].startswith("--max-overhead 9s, p50=1ns: fail")
    replaced = stealtime("run", str(path), "--max-overhead", "9s")
    assert replaced.code == 0, replaced.err
    assert replaced.out.startswith("--max-overhead 9s: pass\n  pass  native tick 68us: max ")
    resumed = stealtime("run", "--resume", "last", "--max-overhead", "1ns")
    assert "nothing left to measure" in resumed.err, "another threshold is no other campaign"
    path.write_text(text.format('"p101=1us"'))
    refused = stealtime("run", str(path))
    assert refused.code == 2
    assert "line 3" in refused.err
    assert "there is no p101" in refused.err
    path.write_text(text.format("100"))
    assert stealtime("run", str(path)).code == 2


def test_a_campaign_without_thresholds_is_held_against_none(stealtime: Command) -> None:
    assert stealtime(*SHORT).code == 0
    assert json.loads(stealtime("show", "--json").out)["gate"] is None
    document = {"name": "a", "probes": [{"probe": "tick", "duration": "1ms"}]}
    assert Campaign.model_validate(document).thresholds == ()
    assert parse_thresholds([]) == ()


def test_damaged_thresholds_of_a_run_are_told(stealtime: Command, tmp_path: Path, run: Run) -> None:
    path = run.folder / "manifest.json"
    manifest: dict[str, Any] = json.loads(path.read_text())
    manifest["campaign"]["max_overhead"] = ["p1000=1us"]
    path.write_text(json.dumps(manifest))
    ended = stealtime("show", str(run.folder))
    assert ended.code == 1
    assert "thresholds of" in ended.err
    assert "there is no p1000" in ended.err


def test_registrations_have_percentiles_of_the_repetition_that_was_slowest() -> None:
    def cell(*p99_ns: int) -> Any:
        response = telephony_cells.registrations().response
        assert response is not None
        results = [
            telephony_cells.registrations(response=response.model_copy(update={"p99_ns": one, "max_ns": 200 * MS}))
            for one in p99_ns
        ]
        return telephony_cells.cell_of("native", "register", {"mode": "off", "transport": "udp"}, results)

    assert cell(90 * MS, 95 * MS).at_percentile("99") == Bounded(95e6, samples=400)
    (one,) = hold([cell(90 * MS)], [Threshold("p99", 91 * MS)]).cells
    assert (one.verdict, one.quantity) == ("passed", "p99 of a registration's time")
    unanswered = telephony_cells.registrations(unanswered=3)
    lost = telephony_cells.cell_of("native", "register", {"mode": "off", "transport": "udp"}, [unanswered])
    (one,) = hold([lost], [Threshold("p50", 10**12)]).cells
    assert one.verdict == "exceeded"
    assert one.sentence.endswith("has no end: 3 of 400 registrations were not acknowledged")


def test_the_page_shows_thresholds_before_the_answer(stealtime: Command, run: Run, tmp_path: Path) -> None:
    bars = tmp_path / "bars.toml"
    bars.write_text('title = "t"\n[[bars]]\nquantity = "wakeup-latency"\nat_most = "1us"\nwatched = "1s"\n')
    page = tmp_path / "page.html"
    assert stealtime("report", str(run.folder), "-o", str(page), "--accept", str(bars)).code == 0
    text = page.read_text()
    listed, answers = text.index('id="thresholds"'), text.index('id="answers"')
    assert listed < answers < text.index('id="limits"')
    assert '<b class="outcome fail">fail</b> <span>native wakeup 1ms wakeup-latency: the longest of 4 s is' in text
    assert stealtime("report", str(run.folder), "-o", str(page), "--accept", "nobody").code == 2
    assert stealtime("report", str(run.folder), "-o", str(page)).code == 0
    assert 'id="thresholds"' not in page.read_text()
