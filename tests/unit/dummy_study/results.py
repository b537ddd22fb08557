"""What came back: counts, not durations."""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from pydantic import JsonValue

from dummy_study.stored import Echoes
from stealtime.report.circumstances.figures import cell_circumstances, trial_circumstances
from stealtime.report.circumstances.model import MeasuredCell, MeasuredTrial
from stealtime.report.claims.measurement import Measurement
from stealtime.report.comparison import CellComparison, StatisticComparison, Verdict
from stealtime.store.run import Trial


class EchoFigures(MeasuredCell):
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
    told = [_trial(trial) for trial in trials]
    reasons = [reason for one in told for reason in one.reasons]
    return EchoFigures(
        **cell_circumstances([trial.record for trial in trials], told),
        valid=not reasons,
        reasons=reasons,
        trials=told,
        echoes=[trial.result(Echoes).came_back for trial, one in zip(trials, told, strict=True) if one.valid],
    )


def _trial(trial: Trial) -> MeasuredTrial:
    record = trial.record
    reasons = [] if record.failure is None else [record.failure.message]
    findings = [] if record.outcome is None else record.outcome.findings
    reasons += [finding.text for finding in findings if finding.level == "invalidates"]
    return MeasuredTrial(**trial_circumstances(record), valid=not reasons, reasons=reasons)


def compare_cells(a: EchoFigures, b: EchoFigures) -> CellComparison:
    first, second = sum(a.echoes), sum(b.echoes)
    verdict: Verdict = "no difference shown"
    if first != second:
        verdict = "higher" if second > first else "lower"
    counted = EchoComparison(
        statistic="echoes", a_count=first, b_count=second, ratio=second / first, ratio_low=None, ratio_high=None,
        verdict=verdict, method="counted", because=None,
    )  # fmt: skip
    return CellComparison.of(a, (len(a.echoes), len(b.echoes)), [counted])
