"""In words: why figures at the 99.9th percentile stand without an interval, and in which cells."""

from collections.abc import Sequence

from stealtime.report.plain_table import about, cell_title
from stealtime.studies.latency.analysis.model import CellSummary
from stealtime.studies.latency.analysis.tail import why_no_interval


def no_interval_sentences(cells: Sequence[CellSummary]) -> list[str]:
    """Say each reason once, with the valid cells that it holds for."""
    has_scenarios = len({cell.scenario for cell in cells}) > 1
    by_reason: dict[str, list[str]] = {}
    for cell in cells:
        reason = why_no_interval(cell)
        if reason is not None:
            name = f"{cell.platform} {cell_title(cell.probe, cell.parameters)}"
            by_reason.setdefault(reason, []).append(f"{name} in {cell.scenario}" if has_scenarios else name)
    return [
        f"no interval and no ratio, as {reason} [{about(names, len(cells))}]" for reason, names in by_reason.items()
    ]
