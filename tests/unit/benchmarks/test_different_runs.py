"""What ``different_runs.py`` counts, on runs whose differences are known, and what it keeps of them."""

from collections.abc import Sequence
from math import inf
from pathlib import Path

import different_runs
import numpy as np
import pytest
from equality import recording
from equality.disturbances import COMPANY, DISTURBANCES, with_loops_of
from equality.forms import FORMS
from equality.found import found_of
from equality.kept import read_lines, to_line
from equality.recording import EQUAL, Wanted, measure
from equality.series import Series
from equality.tally import compared, shifted
from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime.report.strangers import strangers_figures
from stealtime.store.run import Run
from stealtime.store.strangers import StrangersRecord
from stealtime.studies.latency.analysis.model import RunSummary, TrialSummary
from stealtime.studies.latency.analysis.summary import summarize
from stealtime.vocabulary.readings import Absent, Value

REPETITIONS = 8


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    folder = tmp_path_factory.mktemp("run")
    write_synthetic_run(folder, cells=[SyntheticCell("uml", "tick", {"loop_ns": 68_000}, 68_000.0, 9e4, 0.5, 5_000)])
    return summarize(Run.open(folder))


def runs_of(template: RunSummary, factor: float, count: int, seed: int) -> list[RunSummary]:
    """Runs whose repetitions are some ``factor`` times the template's only one, with a scatter of 1 %."""
    random = np.random.default_rng(seed)
    return [run_of(template, list(factor * np.exp(0.01 * random.standard_normal(REPETITIONS)))) for _ in range(count)]


def run_of(template: RunSummary, factors: Sequence[float]) -> RunSummary:
    (cell,) = template.cells
    trials: list[TrialSummary] = []
    for factor in factors:
        (slower,) = shifted(template, factor).cells
        trials += slower.trials
    return template.model_copy(update={"cells": [cell.model_copy(update={"trials": trials})]})


def test_a_slower_loop_is_found_in_the_floor_and_equal_runs_raise_few_alarms(template: RunSummary) -> None:
    group = {EQUAL: runs_of(template, 1.0, 5, 1), "hog+slower": runs_of(template, 1.1, 4, 2)}
    found = different_runs.judge("often", [group])
    assert (found["equal_runs"], found["equal_pairs"]) == (5, 10)
    assert found["false_alarms"]["share"] <= 0.05
    slower = found["disturbances"]["slower"]
    assert (slower["runs"], slower["platforms"]["uml"]) == (
        4, {"pairs": 20, "found": 1.0, "by_figure": {"tick floor_ns": 1.0}},
    )  # fmt: skip
    hog = found["disturbances"]["hog"]
    assert (hog["runs"], hog["platforms"]["uml"]["pairs"]) == (4, 20)


def test_a_hog_is_found_natively_by_what_it_had_of_the_cpu(template: RunSummary) -> None:
    def meanwhile(share: float) -> RunSummary:
        (cell,) = template.cells
        nothing = Absent(absent="not read")
        watched = StrangersRecord(
            cpus=[1], elapsed_ns=10**9, strangers_ns=Value(value=round(share * 1e9)), steal_ns=Value(value=0),
            run_ns=nothing, run_delay_ns=nothing,
        )  # fmt: skip
        cell = cell.model_copy(update={"platform": "native", "strangers": strangers_figures([watched])})
        return template.model_copy(update={"cells": [cell]})

    for share, found in ((0.02, 0.0), (0.4, 1.0)):
        kept = read_lines([to_line("often", EQUAL, "series", True, meanwhile(one)) for one in (0.0, share)])
        told = found_of(DISTURBANCES["hog"], [(kept[0].summary, kept[1].summary)])
        assert told["native"] == {"pairs": 1, "found": found, "by_figure": {COMPANY.statistic: found}}


def test_a_disturbance_that_is_not_there_is_not_found(template: RunSummary) -> None:
    group = {EQUAL: runs_of(template, 1.0, 5, 1), "slower": runs_of(template, 1.0, 4, 2)}
    document = different_runs.judge("often", [group])
    assert document["disturbances"]["slower"]["platforms"]["uml"]["found"] < 0.2
    assert not different_runs.reaches_targets(document)


def test_runs_of_different_series_are_not_compared(template: RunSummary) -> None:
    groups = [{EQUAL: runs_of(template, 1.0, 2, 1)}, {EQUAL: runs_of(template, 1.5, 3, 2)}]
    assert different_runs.judge("often", groups)["equal_pairs"] == 1 + 3


def test_a_disturbance_that_nobody_looked_for_or_in_few_pairs_reaches_no_target(template: RunSummary) -> None:
    equal, slower = runs_of(template, 1.0, 5, 1), runs_of(template, 1.1, 4, 2)
    without_hog = different_runs.judge("often", [{EQUAL: equal, "slower": slower}])
    assert without_hog["disturbances"]["hog"]["platforms"] == {}
    assert not different_runs.reaches_targets(without_hog)
    del without_hog["disturbances"]["hog"]
    assert different_runs.reaches_targets(without_hog)
    few = different_runs.judge("often", [{EQUAL: equal[:4], "slower": slower}])
    del few["disturbances"]["hog"]
    assert few["disturbances"]["slower"]["platforms"]["uml"]["found"] == 1.0
    assert not different_runs.reaches_targets(few), "16 pairs"
    assert different_runs.reaches_targets(few, pairs_min=16)


def test_nothing_judged_reaches_no_target(template: RunSummary) -> None:
    assert not different_runs.reaches_targets(different_runs.judge("often", [{EQUAL: runs_of(template, 1.0, 3, 1)}]))
    assert not different_runs.reaches_targets(different_runs.judge("often", []))


def test_a_kept_run_is_judged_as_the_run_was(template: RunSummary) -> None:
    a, b = runs_of(template, 1.0, 1, 1)[0], runs_of(template, 1.1, 1, 2)[0]
    lines = [to_line("often", kind, "series", True, run) for kind, run in ((EQUAL, a), ("slower", b))]
    kept = read_lines(lines)
    assert [(one.form, one.kind, one.series, one.is_held_out) for one in kept] == [
        ("often", EQUAL, "series", True), ("often", "slower", "series", True),
    ]  # fmt: skip
    now, then = compared(kept[0].summary, kept[1].summary), compared(a, b)
    for one, other in zip(now[0].statistics, then[0].statistics, strict=True):
        assert (one.statistic, one.verdict, one.because) == (other.statistic, other.verdict, other.because)
        assert (one.ratio or 0.0) == pytest.approx(other.ratio or 0.0, rel=1e-5)


def test_a_loop_that_does_more_work_is_shown_as_if_nobody_knew(template: RunSummary) -> None:
    def with_loop(iterations: int) -> RunSummary:
        (cell,) = template.cells
        trials = [trial.model_copy(update={"loop_iterations": iterations}) for trial in cell.trials]
        return template.model_copy(update={"cells": [cell.model_copy(update={"trials": trials})]})

    disguised = with_loops_of(with_loop(27_000), with_loop(29_700))
    assert {trial.loop_iterations for cell in disguised.cells for trial in cell.trials} == {27_000}


def test_the_kind_that_is_furthest_behind_is_measured_next(
    template: RunSummary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def pretend(series: Series) -> None:
        measured.append(series.folder.name)

    def there(form: str, _folder: Path) -> dict[str, list[None]]:
        return {kind: [None] * measured.count(kind) for kind in (EQUAL, *FORMS[form].kinds)}

    monkeypatch.setattr(Series, "measure_one", pretend)
    monkeypatch.setattr(recording, "finished", there)
    monkeypatch.setattr(recording, "_series", lambda _form, kind, folder, _base, _cpu: Series(folder / kind, ""))
    monkeypatch.setattr(recording, "summaries", lambda form, folder: {"all": there(form, folder)})
    measure(Wanted("often", 3, 2), tmp_path, 1, inf)
    assert measured == [EQUAL, "hog+slower", EQUAL, "hog+slower", EQUAL]
    measure(Wanted("often", 9, 9), tmp_path, 1, 0.0)
    assert len(measured) == 5, "the time is over"


def test_each_disturbance_of_a_form_says_what_it_must_change() -> None:
    for form in FORMS.values():
        for name in form.disturbances:
            assert all(DISTURBANCES[name].figures(platform) for platform in ("native", "uml", "qemu-tcg-paravirt"))
