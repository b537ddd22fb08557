"""``stealtime export``: write the samples of a run as CSV."""

from pathlib import Path
from typing import Annotated

import typer

from stealtime.cli.parameters import AsJson, RunName, RunsFolder


def export(
    run: RunName = "last",
    *,
    csv: Annotated[Path, typer.Option("--csv", metavar="DIR", help="Folder for the CSV files.", show_default=False)],
    runs_folder: RunsFolder = None,
    json: AsJson = False,
) -> None:
    """Write all samples of RUN with their times as CSV: one file per cell, and summary.csv.

    start_ns is relative to the start of sample 0. For cells that were traced or had neighbours, those tables are
    written too; their times are cycles of the time-stamp counter of the traced machine, or of the host.
    """
    from stealtime.cli.output import message_console, print_document, print_line
    from stealtime.report.csv import write_summary_csv
    from stealtime.report.summarizing import summarize
    from stealtime.store.durations import DURATIONS
    from stealtime.store.export import write_samples_csv
    from stealtime.store.export_tables import write_tables_csv
    from stealtime.store.run import find_run
    from stealtime.store.writer import DiskError, disk_errors
    from stealtime.vocabulary.errors import StealtimeError, UsageError

    if csv.exists() and not csv.is_dir():
        raise UsageError(f"--csv: {csv} is no folder", hint="name a folder; it is made if it is not there")
    found = find_run(run, runs_folder)
    files: list[dict[str, str | int]] = []
    try:
        with disk_errors(csv):
            csv.mkdir(parents=True, exist_ok=True)
            # First: it is small, and has every figure.
            write_summary_csv(summarize(found), csv / "summary.csv")
        with message_console().status("exporting") as status:
            for trial in found.measured:
                status.update(f"writing {trial.record.trial_id}")
                if trial.record.result is not None and trial.record.result.kind == DURATIONS.name:
                    target = csv / f"{trial.record.trial_id}.csv"
                    files.append({"file": str(target), "samples": write_samples_csv(trial, target)})
                files += [{"file": str(path), "rows": rows} for path, rows in write_tables_csv(trial, csv).items()]
    except DiskError as error:
        whole = f"the summary and {len(files)} files before it are whole" if (csv / "summary.csv").exists() else None
        raise StealtimeError(
            f"{error.message}{'' if whole is None else f'; {whole}'}", hint="choose another folder with --csv"
        ) from error
    if json:
        print_document(
            {"schema_version": 1, "run_id": found.run_id, "summary": str(csv / "summary.csv"), "files": files}
        )
        return
    for file in files:
        print_line(
            f"{file['file']}  {file['samples']} samples"
            if "samples" in file
            else f"{file['file']}  {file['rows']} rows"
        )
    print_line(str(csv / "summary.csv"))
