"""The figures of a run as CSV, a line for each cell; units are in the column names."""

import csv
import json
from pathlib import Path

from stealtime.store.writer import disk_errors
from stealtime.studies.latency.analysis.model import RunSummary, Stats

_CELL_COLUMNS = ("platform", "scenario", "probe", "parameters", "traced", "valid", "reasons", "limits")
_STATS_COLUMNS = tuple(name for name in Stats.model_fields if name != "unresolved")


def write_summary_csv(summary: RunSummary, target: Path) -> None:
    """Write one line for each cell; where nothing was measured the figures are empty.

    Raises:
        DiskError: ``target`` cannot be written.
    """
    with disk_errors(target), target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*_CELL_COLUMNS, *_STATS_COLUMNS, "unresolved"])
        for cell in summary.cells:
            writer.writerow(
                [
                    cell.platform,
                    cell.scenario,
                    cell.probe,
                    json.dumps(cell.parameters),
                    cell.traced,
                    cell.valid,
                    "; ".join(cell.reasons),
                    "; ".join(cell.limits),
                    *(getattr(cell.stats, name) if cell.stats is not None else "" for name in _STATS_COLUMNS),
                    " ".join(cell.stats.unresolved) if cell.stats is not None else "",
                ]
            )
