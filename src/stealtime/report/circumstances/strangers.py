"""Who else ran on the CPUs that were measured, in words: a line for each cell that had them not for itself."""

from stealtime.report.plain_table import cell_title
from stealtime.report.summary import RunSummary

TITLE = "Who else ran on the CPUs that were measured"


def stranger_lines(summary: RunSummary) -> list[str]:
    """Say what was found before the run, and of each cell who was beside it that nobody asked for."""
    cells = [
        f"{cell.platform} {cell.scenario} {cell_title(cell.probe, cell.parameters)}: {words}"
        for cell in summary.cells
        if cell.strangers is not None and (words := cell.strangers.words) is not None
    ]
    return [f"before the run: {finding.text}" for finding in summary.findings] + cells
