"""What came back: counts, not durations."""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from pydantic import JsonValue

from dummy_study.stored import Echoes
from stealtime.report.claims.measurement import Measurement
from stealtime.report.comparison import CellComparison, StatisticComparison, Verdict
from stealtime.report.summary import CellFigures
from stealtime.store.run import Trial


class EchoFigures(CellFigures):
    study: Literal["echo"] = "echo"
    echoes: list[int]
    """Of each valid repetition."""

    @property
    def is_measured(self) -> bool:
        return bool(self.echoes)

    @property
    def lines(self) -> list[str]:
        return [f"echoes {sum(self.echoes)}"]

    @property
    def columns(self) -> dict[str, JsonValue]:
        return {"echoes": sum(self.echoes)}


def measurement(cell: EchoFigures, figure: str) -> Measurement:
    assert figure == "echoes"
    return Measurement(value=fmean(cell.echoes) if cell.echoes else None, of_repetitions=tuple(map(float, cell.echoes)))


class EchoComparison(StatisticComparison):
    a_count: int
    b_count: int

    @property
    def words(self) -> tuple[str, str, str]:
        return "echoes", str(self.a_count), str(self.b_count)


def figures_of(trials: Sequence[Trial]) -> EchoFigures:
    cell = trials[0].record.cell
    outcomes = [trial.record.outcome for trial in trials if trial.record.outcome is not None]
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    reasons = [trial.record.failure.message for trial in trials if trial.record.failure is not None]
    reasons += [finding.text for finding in findings if finding.level == "invalidates"]
    return EchoFigures(
        platform=cell.platform,
        scenario=cell.scenario,
        probe=cell.probe,
        parameters=cell.parameters,
        traced=cell.traced,
        valid=not reasons,
        reasons=reasons,
        limits=[finding.text for finding in findings if finding.level == "limits"],
        echoes=[
            trial.result(Echoes).came_back for trial in trials if trial.record.outcome and trial.record.outcome.is_valid
        ],
    )


def compare_cells(a: EchoFigures, b: EchoFigures) -> CellComparison:
    first, second = sum(a.echoes), sum(b.echoes)
    verdict: Verdict = "no difference shown"
    if first != second:
        verdict = "higher" if second > first else "lower"
    counted = EchoComparison(
        statistic="echoes", a_count=first, b_count=second, ratio=second / first, ratio_low=None, ratio_high=None,
        verdict=verdict, method="counted", because=None,
    )  # fmt: skip
    return CellComparison(
        platform=a.platform, scenario=a.scenario, probe=a.probe, parameters=dict(a.parameters), traced=a.traced,
        a_trials=len(a.echoes), b_trials=len(b.echoes), statistics=[counted],
    )  # fmt: skip
