"""The figures of a run for Bencher: the format that its documentation gives, and the values of ``show``."""

import json
from pathlib import Path

import jsonschema
import pytest
from command import Command
from synthetic_run import CLOCK_DISAGREES, SyntheticCell, write_synthetic_run

from stealtime.report.bmf import bencher_metrics
from stealtime.report.summarizing import summarize
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.model import CellSummary
from stealtime.studies.latency.analysis.tail import tail_overhead

METRIC = {
    "type": "object",
    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
    "required": ["value"],
    "additionalProperties": False,
}
BMF = {
    "type": "object",
    "patternProperties": {
        "^.{1,1024}$": {"type": "object", "patternProperties": {"^[a-z0-9]+(-[a-z0-9]+)*$": METRIC},
                        "additionalProperties": False}
    },
    "additionalProperties": False,
}  # fmt: skip
"""As bencher.dev/docs/reference/bencher-metric-format has it; names of measures are slugs of at most 64 characters."""


def cell(repetition: int, **changes: object) -> SyntheticCell:
    parameters: dict[str, object] = {"loop_ns": 68_000}
    return SyntheticCell(
        "native", "tick", parameters, 68_000.0, 3e6, 0.3, 20_000, repetition=repetition, **changes,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Run:
    cells = [cell(number, tick_cost_ns=20_000.0 + 1_000 * number) for number in range(1, 6)]
    one = SyntheticCell("uml", "wakeup", {"interval_ns": 1_000_000}, 1_900.0, 410_000.0, 0.4, 500)
    wrong = SyntheticCell("uml", "switch", {"threads": 2}, 180.0, 9e4, 0.5, 2_000, findings=(CLOCK_DISAGREES,))
    write_synthetic_run(tmp_path / "run", cells=[*cells, one, wrong])
    return Run.open(tmp_path / "run")


def test_it_is_the_format_and_has_the_values_of_show(run: Run) -> None:
    summary = summarize(run)
    told = bencher_metrics(summary)
    jsonschema.validate(told.benchmarks, BMF)
    assert set(told.benchmarks) == {"native.alone.tick-68us", "uml.alone.wakeup-1ms"}
    assert all(len(name) <= 64 for measures in told.benchmarks.values() for name in measures)
    (tick,) = [one for one in summary.cells if one.probe == "tick"]
    assert isinstance(tick, CellSummary)
    assert tick.stats is not None
    assert told.benchmarks["native.alone.tick-68us"]["max-overhead-ns"] == {"value": tick.stats.max_overhead_ns}


def test_only_what_has_an_interval_has_ends(run: Run) -> None:
    summary = summarize(run)
    told = bencher_metrics(summary).benchmarks
    (tick,) = [one for one in summary.cells if isinstance(one, CellSummary) and one.probe == "tick"]
    tail = tail_overhead(tick)
    assert tail is not None
    with_ends = {
        (cell, name): metric
        for cell, measures in told.items()
        for name, metric in measures.items()
        if "lower_value" in metric or "upper_value" in metric
    }
    assert with_ends == {
        ("native.alone.tick-68us", "p999-overhead-ns"): {
            "value": tail.value, "lower_value": tail.low, "upper_value": tail.high,
        }
    }  # fmt: skip
    assert tail.low < tail.value < tail.high


def test_what_is_absent_or_invalid_is_left_out_and_counted(run: Run, stealtime: Command) -> None:
    told = bencher_metrics(summarize(run))
    assert "p9999-ns" not in told.benchmarks["uml.alone.wakeup-1ms"], "500 samples have no such percentile"
    assert told.invalid == ["uml.alone.switch-2"]
    assert told.absent >= 2
    ended = stealtime("export", str(run.folder), "--bmf", "-")
    assert ended.code == 0
    assert json.loads(ended.out) == told.benchmarks, "nothing else is on stdout"
    assert f"left out: {told.absent} figures that are absent" in ended.err
    assert "left out: uml.alone.switch-2 is not valid" in ended.err


def test_it_goes_to_a_file_with_a_line_about_it(run: Run, tmp_path: Path, stealtime: Command) -> None:
    ended = stealtime("export", str(run.folder), "--bmf", str(tmp_path / "bmf.json"))
    measures = sum(map(len, json.loads((tmp_path / "bmf.json").read_text()).values()))
    assert f"bmf.json  {measures} figures of 2 cells" in ended.out
