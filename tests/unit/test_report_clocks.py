"""What ``show`` and the report say of how the clocks were compared."""

import json
from pathlib import Path

from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime.report.circumstances.notes import notes_of
from stealtime.report.page.html import write_report
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.summary import summarize

CELLS = [
    SyntheticCell(platform, "switch", {"threads": threads}, 180.0, 9e4, 0.5, 3_000)
    for platform in ("native", "uml")
    for threads in (2, 10)
]


def lines_of(run: Run) -> list[str]:
    return notes_of(summarize(run))["Clock of the samples beside the host's, worst trial"]


def test_each_platform_is_said_to_agree_or_why_that_says_nothing(tmp_path: Path) -> None:
    run = Run.open(write_synthetic_run(tmp_path / "run", cells=CELLS).folder)
    assert lines_of(run) == [
        "native: not independent (the host's clock is the machine's own)",
        "uml: agreed (+1 ppm, known to within 41 ppm)",
    ]


def test_a_cell_that_was_too_short_is_told_apart_from_those_that_were_not(tmp_path: Path) -> None:
    folder = write_synthetic_run(tmp_path / "run", cells=CELLS).folder
    trial = folder / "cells" / "uml.alone.switch-2.r1" / "trial.json"
    record = json.loads(trial.read_text())
    record["clocks"]["host"] |= {
        "state": "not checked",
        "reason": "not to better than 3,001 ppm: the trial was too short",
    }
    trial.write_text(json.dumps(record))
    assert lines_of(Run.open(folder))[1] == (
        "uml: not checked in 1 cell (not to better than 3,001 ppm: the trial was too short); "
        "agreed in 1 cell (+1 ppm, known to within 41 ppm)"
    )


def test_the_report_tells_the_states_of_both_comparisons(tmp_path: Path) -> None:
    run = Run.open(write_synthetic_run(tmp_path / "run", cells=CELLS).folder)
    page = tmp_path / "report.html"
    write_report(run, page)
    text = page.read_text()
    assert "agreed 2, not independent 2" in text
    assert "not independent: the host&#39;s clock is the machine&#39;s own" in text
