"""What ``equal_runs.py`` counts, on runs whose differences are known."""

import numpy as np
import pytest
from equality.tally import judge_equal_runs, shifted, tally
from synthetic_run import SyntheticCell, write_synthetic_run
from truth import repetitions

from stealtime.store.run import Run
from stealtime.studies.latency.analysis.compare import STATISTICS
from stealtime.studies.latency.analysis.model import CellSummary, RunSummary, TrialSummary
from stealtime.studies.latency.analysis.summary import summarize

REPETITIONS = 6
RUNS = repetitions(few=5, full=8)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    folder = tmp_path_factory.mktemp("run")
    cell = SyntheticCell("native", "switch", {"threads": 2}, 180.0, 90_000.0, 0.5, 5_000)
    write_synthetic_run(folder, cells=[cell])
    return summarize(Run.open(folder))


def run_of(template: RunSummary, factors: list[float]) -> RunSummary:
    """A run whose repetitions are ``factors`` times the template's only one."""
    (cell,) = template.cells
    trials: list[TrialSummary] = []
    for factor in factors:
        (slower,) = shifted(template, factor).cells
        trials += slower.trials
    cells: list[CellSummary] = [cell.model_copy(update={"trials": trials})]
    return template.model_copy(update={"cells": cells})


def runs_of(template: RunSummary, session_spread: float, count: int = RUNS) -> list[RunSummary]:
    random = np.random.default_rng(7)
    sessions = session_spread * random.standard_normal(count)
    return [run_of(template, list(np.exp(each + 0.05 * random.standard_normal(REPETITIONS)))) for each in sessions]


@pytest.mark.longer
def test_equal_runs_raise_few_alarms_and_known_shifts_are_found(template: RunSummary) -> None:
    found = judge_equal_runs(runs_of(template, 0.02))
    assert found["pairs"] == RUNS * (RUNS - 1) / 2
    assert found["judged"] >= 5 * found["pairs"]
    assert found["false_alarm_share"] < 0.05
    assert set(found["by_repetitions"]) == {4, 5, 6}
    assert found["found_of_known_shifts"]["x1.1"] < found["found_of_known_shifts"]["x2"] == 1.0
    assert found["by_platform"]["native"]["judged"] == found["judged"]


@pytest.mark.longer
def test_sessions_that_differ_much_more_than_repetitions_are_reported(template: RunSummary) -> None:
    found = judge_equal_runs(runs_of(template, 0.5))
    assert found["variance_between_sessions"]["median"] > 10
    assert found["false_alarm_share"] > 0.2, "the program must be able to fail"


def test_what_was_not_judged_is_counted_by_its_reason(template: RunSummary) -> None:
    run = run_of(template, [1.0, 1.1])
    counted = tally([(run, run)])
    assert (counted.judged, counted.share) == (0, None)
    assert sum(counted.not_judged.values()) == len(STATISTICS) + 6
    assert "valid repetitions" in next(iter(counted.not_judged))
