"""``stealtime ls``: list the runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stealtime.cli.parameters import AsJson, RunsFolder

if TYPE_CHECKING:
    from stealtime.store.model import TrialRecord


_COUNTS = ("measured", "invalid", "not_as_asked", "failed", "missing")
"""Of each run's trials."""


def ls(runs_folder: RunsFolder = None, json: AsJson = False) -> None:
    """List the runs, oldest first."""
    from stealtime.cli.output import message_console, print_document, print_table
    from stealtime.store.adoption import adopt_parts
    from stealtime.store.run import default_runs_folder, runs_in
    from stealtime.vocabulary.quantities import approximate_size

    folder = runs_folder or default_runs_folder()
    runs = runs_in(folder)
    for path in runs:
        adopt_parts(path)
    rows = [_describe(path) for path in runs]
    if json:
        print_document({"schema_version": 1, "folder": str(folder), "runs": rows})
        return
    if not rows:
        message_console().print(f"there is no run in {folder}; measure one with `stealtime run`")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("run", "date", "campaign", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in (*_COUNTS, "size"):
        table.add_column(heading.replace("_", " "), justify="right", no_wrap=True)
    for row in rows:
        if row["state"] == "damaged":
            empty = [""] * len(_COUNTS)
            damaged = Text("damaged", style="red")
            table.add_row(row["run"], "", "", damaged, *empty, approximate_size(row["size_bytes"]))
            continue
        table.add_row(
            row["run"],
            row["created_at"][:16].replace("T", " "),
            row["campaign"],
            row["state"],
            *("?" if (count := row[f"cells_{kind}"]) is None else str(count) for kind in _COUNTS),
            approximate_size(row["size_bytes"]),
        )
    print_table(table)
    for row in rows:
        if row["problem"] is not None:
            message_console().print(row["problem"], soft_wrap=True)


def _describe(path: Path) -> dict[str, Any]:
    from stealtime.store.lock import is_being_written
    from stealtime.store.run import Run
    from stealtime.vocabulary.errors import StealtimeError

    size_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    try:
        run = Run.open(path)
        records = [trial.record for trial in run.trials]
        run.check_tables()
        invalid, short = _invalid(records), _not_as_asked(records)
    except StealtimeError as error:
        return {"run": path.name, "state": "damaged", "size_bytes": size_bytes, "problem": error.message}
    state: str = run.manifest.state
    if state == "running" and not is_being_written(path):
        # Whoever wrote it was killed; its lock went away with it.
        state = "interrupted"
    measured = [record for record in records if record.result is not None]
    return {
        "run": run.run_id,
        "created_at": run.manifest.created_at.isoformat(),
        "campaign": run.manifest.campaign_name,
        "state": state,
        "cells_measured": len(measured),
        "cells_invalid": invalid,
        "cells_not_as_asked": short,
        "cells_missing": None if run.missing is None else len(run.missing),
        "cells_failed": len(records) - len(measured),
        "size_bytes": size_bytes,
        "problem": None,
    }


def _invalid(records: "Sequence[TrialRecord]") -> int:
    """Count the measured trials that may not be used: by cell, as the rule asks for them."""
    from stealtime.campaigns.validity import reasons_of

    cells: dict[str, list[TrialRecord]] = {}
    for record in records:
        cells.setdefault(record.cell.name, []).append(record)
    return sum(
        record.result is not None and bool(reasons)
        for own in cells.values()
        for record, reasons in zip(own, reasons_of(own), strict=True)
    )


def _not_as_asked(records: "Sequence[TrialRecord]") -> int:
    """Count the measured trials that may be used and are less than was asked for."""
    from stealtime.campaigns.validity import is_usable, not_as_asked, too_short

    return sum(is_usable(one) and (too_short(one) is not None or bool(not_as_asked(one))) for one in records)
