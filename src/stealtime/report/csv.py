"""The figures of a run as CSV, a line for each cell; units are in the column names."""

import csv
import json
from pathlib import Path

from stealtime.report.summary import RunSummary
from stealtime.store.export import whole_or_absent
from stealtime.store.writer import disk_errors


def write_summary_csv(summary: RunSummary, target: Path) -> None:
    """Write one line for each cell; what its study has no figure for, or was not measured, is empty.

    Raises:
        DiskError: ``target`` cannot be written.
    """
    rows = [
        {
            "platform": cell.platform,
            "scenario": cell.scenario,
            "probe": cell.probe,
            "parameters": json.dumps(cell.parameters),
            "traced": cell.traced,
            "valid": cell.valid,
            "reasons": "; ".join(cell.reasons),
            "not_as_asked": "; ".join(cell.fell_short),
            "limits": "; ".join(cell.limits),
            **cell.columns,
        }
        for cell in summary.cells
    ]
    with whole_or_absent(target), disk_errors(target), target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
