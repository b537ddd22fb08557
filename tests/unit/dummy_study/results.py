"""What came back: counts, not durations."""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from pydantic import JsonValue

from dummy_study.stored import Echoes
from stealtime.report.cells.model import CellFigures
from stealtime.report.cells.records import cell_figures
from stealtime.report.claims.measurement import Measurement
from stealtime.report.comparison import CellComparison, StatisticComparison, Verdict
from stealtime.store.run import Trial


class EchoFigures(CellFigures):
    study: Literal["echo"] = "echo"
    echoes: list[int]
    """Of each valid repetition."""

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
    figures = cell_figures([trial.record for trial in trials])
    return EchoFigures(
        **figures,
        echoes=[
            trial.result(Echoes).came_back for trial, told in zip(trials, figures["trials"], strict=True) if told.valid
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
    return CellComparison.of(a, (len(a.echoes), len(b.echoes)), [counted])
