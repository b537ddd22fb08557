"""Two runs, cell by cell, each by the study that it is of."""

from stealtime.report.cells.model import CellFigures
from stealtime.report.circumstances.company import differences_of_company
from stealtime.report.circumstances.differences import differences
from stealtime.report.comparison import Comparison
from stealtime.report.interval import CONFIDENCE
from stealtime.report.studies import study_of
from stealtime.report.summarizing import summarize
from stealtime.report.summary import RunSummary
from stealtime.store.run import Run


def compare(a: Run | RunSummary, b: Run | RunSummary) -> Comparison:
    """Compare all cells that two runs have in common; ratios are of ``b`` to ``a``.

    Raises:
        StealtimeError: A document of a run is damaged, or samples that were there are gone.
    """
    first = a if isinstance(a, RunSummary) else summarize(a)
    second = b if isinstance(b, RunSummary) else summarize(b)
    cells_a = {cell.key: cell for cell in first.cells}
    cells_b = {cell.key: cell for cell in second.cells}
    return Comparison(
        a=first.run_id,
        b=second.run_id,
        confidence=CONFIDENCE,
        differences=differences_of_company(first.cells, second.cells)
        + (differences(a, b) if isinstance(a, Run) and isinstance(b, Run) else []),
        cells=[
            study_of(cell.probe).compare_cells(cell, cells_b[key]) for key, cell in cells_a.items() if key in cells_b
        ],
        only_in_a=[_name(cell) for key, cell in cells_a.items() if key not in cells_b],
        only_in_b=[_name(cell) for key, cell in cells_b.items() if key not in cells_a],
        not_alone=[
            f"{side}: {_name(cell)}: {cell.not_alone}"
            for key in cells_a
            if key in cells_b
            for side, cell in (("a", cells_a[key]), ("b", cells_b[key]))
            if cell.not_alone is not None
        ],
    )


def _name(cell: CellFigures) -> str:
    named = ((name, value) for name, value in sorted(cell.parameters.items()) if not isinstance(value, list | dict))
    parameters = ", ".join(f"{name} {value}" for name, value in named)
    return f"{cell.platform} {cell.scenario} {cell.probe} ({parameters}){' traced' if cell.traced else ''}"
