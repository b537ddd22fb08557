"""``stealtime export``: write what a run measured for other tools."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stealtime.cli.parameters import AsJson, RunName, RunsFolder

if TYPE_CHECKING:
    from stealtime.store.run import Run


def export(
    run: RunName = "last",
    *,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="DIR", help="Folder for the CSV files.", show_default=False)
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            "--perfetto",
            metavar="FILE",
            help="Write one time line of all trials for ui.perfetto.dev: samples, causes, kernels' events, epochs.",
            show_default=False,
        ),
    ] = None,
    trace_processor: Annotated[
        Path | None,
        typer.Option(
            "--trace-processor",
            metavar="PATH",
            help="Have Perfetto's trace processor, which you have, read FILE and compare its counts.",
            show_default=False,
        ),
    ] = None,
    bmf: Annotated[
        str | None,
        typer.Option(
            "--bmf",
            metavar="FILE",
            help="Write the figures of all valid cells for Bencher (JSON); `-` is stdout.",
            show_default=False,
        ),
    ] = None,
    openmetrics: Annotated[
        Path | None,
        typer.Option(
            "--openmetrics",
            metavar="FILE",
            help="Write histograms of all cells for the textfile collector of node_exporter (FILE ends with .prom).",
            show_default=False,
        ),
    ] = None,
    runs_folder: RunsFolder = None,
    json: AsJson = False,
) -> None:
    """Write RUN for other tools: samples as CSV, a time line for Perfetto, figures for Bencher, metrics.

    --csv writes all samples with their times, one file per cell, and summary.csv. start_ns is relative to the start
    of sample 0. For cells that were traced or had neighbours, those tables are written too; their times are cycles of
    the time-stamp counter of the traced machine, or of the host.
    """
    from stealtime.cli.output import message_console, print_document, print_line
    from stealtime.store.run import find_run
    from stealtime.vocabulary.errors import UsageError

    if trace_processor is not None and perfetto is None:
        raise UsageError(
            "--trace-processor reads what --perfetto writes, which was not asked for", hint="add --perfetto FILE"
        )
    if csv is None and perfetto is None and bmf is None and openmetrics is None:
        raise UsageError(
            "export was not told what to write", hint="--csv DIR, --perfetto FILE, --bmf FILE or --openmetrics FILE"
        )
    if openmetrics is not None and openmetrics.suffix != ".prom":
        raise UsageError(
            f"--openmetrics {openmetrics}: the textfile collector reads no file of another ending than .prom",
            hint=f"name it {openmetrics.with_suffix('.prom')}",
        )
    if json and bmf == "-":
        raise UsageError("--json and --bmf - both write to stdout", hint="name a file for --bmf")
    if csv is not None and csv.exists() and not csv.is_dir():
        raise UsageError(f"--csv: {csv} is no folder", hint="name a folder; it is made if it is not there")
    if trace_processor is not None:
        from stealtime.report.perfetto.processor import must_be_there

        # Before the work, not after it.
        must_be_there(trace_processor)
    found = find_run(run, runs_folder)
    lines: list[str] = []
    document: dict[str, Any] = {
        "schema_version": 2, "run_id": found.run_id, "summary": None, "files": [], "perfetto": None, "bmf": None,
    }  # fmt: skip
    if csv is not None:
        document |= _write_csv(found, csv)
        for file in document["files"]:
            unit = "samples" if "samples" in file else "rows"
            lines.append(f"{file['file']}  {file[unit]} {unit}")
        lines.append(str(document["summary"]))
    if perfetto is not None:
        document["perfetto"] = told = _write_perfetto(found, perfetto, trace_processor)
        lines.append(f"{perfetto}  {told['slices']} slices, {told['values']} values, {told['flows']} flows")
    if bmf is not None:
        document["bmf"] = told = _write_bmf(found, bmf)
        if bmf != "-":
            lines.append(f"{bmf}  {told['measures']} figures of {told['benchmarks']} cells")
    if openmetrics is not None:
        from stealtime.merging.openmetrics import write_openmetrics

        count = write_openmetrics(found, openmetrics.absolute())
        document["openmetrics"] = {"file": str(openmetrics), "lines": count}
        lines.append(f"{openmetrics}  {count} lines")
    if json:
        print_document(document)
        return
    if bmf == "-":
        # Nothing else may be on stdout.
        for line in lines:
            message_console().print(line, markup=False, highlight=False, soft_wrap=True)
        return
    for line in lines:
        print_line(line)


def _shows_hosts(run: "Run") -> bool:
    from stealtime.merging.document import shows_hosts

    return shows_hosts(run)


def _write_csv(run: "Run", folder: Path) -> dict[str, Any]:
    from stealtime.cli.output import message_console
    from stealtime.report.csv import write_summary_csv
    from stealtime.report.summarizing import summarize
    from stealtime.store.durations import DURATIONS
    from stealtime.store.export import write_samples_csv
    from stealtime.store.export_tables import write_tables_csv
    from stealtime.store.writer import DiskError, disk_errors
    from stealtime.vocabulary.errors import StealtimeError

    files: list[dict[str, str | int]] = []
    if run.manifest.merged is not None and _shows_hosts(run):
        from stealtime.merging.csv import write_hosts_csv

        written = write_hosts_csv(run, folder)
        files += [{"file": path, "rows": rows} for path, rows in written.items()]
        return {"summary": str(folder / "hosts.csv"), "files": files}
    summary = folder / "summary.csv"
    try:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            # First: it is small, and has every figure.
            write_summary_csv(summarize(run), summary)
        with message_console().status("exporting") as status:
            for trial in run.measured:
                status.update(f"writing {trial.record.trial_id}")
                if trial.record.result is not None and trial.record.result.kind == DURATIONS.name:
                    target = folder / f"{trial.record.trial_id}.csv"
                    files.append({"file": str(target), "samples": write_samples_csv(trial, target)})
                files += [{"file": str(path), "rows": rows} for path, rows in write_tables_csv(trial, folder).items()]
    except DiskError as error:
        whole = f"the summary and {len(files)} files before it are whole" if summary.exists() else None
        raise StealtimeError(
            f"{error.message}{'' if whole is None else f'; {whole}'}", hint="choose another folder with --csv"
        ) from error
    return {"summary": str(summary), "files": files}


def _write_perfetto(run: "Run", target: Path, processor: Path | None) -> dict[str, Any]:
    from dataclasses import asdict

    from stealtime.cli.output import message_console
    from stealtime.report.perfetto.processor import check_by_processor
    from stealtime.report.perfetto.run import write_perfetto

    console = message_console()
    with console.status("exporting") as status:
        told = write_perfetto(run, target, lambda trial: status.update(f"writing {trial}"))
        checked = None if processor is None else check_by_processor(processor, target, told.written)
    for sentence in told.left_out:
        console.print(f"left out: {sentence}", markup=False, highlight=False, soft_wrap=True)
    if checked is not None:
        console.print(checked, markup=False, highlight=False, soft_wrap=True)
    return {"file": str(target), "trials": told.trials, **asdict(told.written), "left_out": told.left_out}


def _write_bmf(run: "Run", target: str) -> dict[str, Any]:
    from json import dumps

    from stealtime.cli.output import message_console
    from stealtime.report.bmf import bencher_metrics
    from stealtime.report.summarizing import summarize
    from stealtime.store.export import whole_or_absent
    from stealtime.store.writer import disk_errors

    metrics = bencher_metrics(summarize(run))
    text = dumps(metrics.benchmarks, indent=2, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        path = Path(target)
        with whole_or_absent(path), disk_errors(path):
            path.write_text(text, encoding="utf-8")
    console = message_console()
    if metrics.absent:
        console.print(
            f"left out: {metrics.absent} figures that are absent", markup=False, highlight=False, soft_wrap=True
        )
    for name in metrics.invalid:
        console.print(
            f"left out: {name} is not valid: see `stealtime show`", markup=False, highlight=False, soft_wrap=True
        )
    measures = sum(map(len, metrics.benchmarks.values()))
    return {
        "file": target, "benchmarks": len(metrics.benchmarks), "measures": measures, "absent": metrics.absent,
        "invalid": metrics.invalid,
    }  # fmt: skip
