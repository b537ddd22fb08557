"""Who else ran on the CPUs that were measured, in words: a line for each cell that had them not for itself."""

from stealtime.report.plain_table import cell_title, of_cells
from stealtime.report.summary import RunSummary

TITLE = "Who else ran on the CPUs that were measured"
_NAMED = 2


def strangers_in_short(summary: RunSummary) -> list[str]:
    """Say it of the whole run in a line: of its cells, else of what was found before it; none where nobody ran."""
    found = [
        cell.strangers for cell in summary.cells if cell.strangers is not None and cell.strangers.words is not None
    ]
    if not found:
        return [f"before the run: {finding.text.partition(' (')[0]}" for finding in summary.findings]
    most = max(one.taken_percent_max for one in found)
    who = list(dict.fromkeys(name for one in found for name in one.who))
    named = f": {', '.join(who[:_NAMED])}" if who else ""
    return [f"others ran on the measured CPUs in {of_cells(len(found), len(summary.cells))}, up to {most:.0f} %{named}"]


def stranger_lines(summary: RunSummary) -> list[str]:
    """Say what was found before the run, and of each cell who was beside it that nobody asked for."""
    cells = [
        f"{cell.platform} {cell.scenario} {cell_title(cell.probe, cell.parameters)}: {words}"
        for cell in summary.cells
        if cell.strangers is not None and (words := cell.strangers.words) is not None
    ]
    return [f"before the run: {finding.text}" for finding in summary.findings] + cells
