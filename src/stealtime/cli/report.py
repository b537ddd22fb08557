"""``stealtime report RUN``: one HTML file with the tables and figures of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.cli import completion
from stealtime.cli.parameters import AsJson, RunName, RunsFolder

if TYPE_CHECKING:
    from stealtime.store.run import Run


def report(
    run: RunName = "last",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File to write.  [default: report.html in the run's folder]"
        ),
    ] = None,
    accept: Annotated[
        str | None,
        typer.Option(
            "--accept",
            metavar="NAME|FILE",
            autocompletion=completion.bars,
            help="First show how the cells stand against bars, as `stealtime show --accept` does.",
            show_default=False,
        ),
    ] = None,
    runs_folder: RunsFolder = None,
    as_json: AsJson = False,
) -> None:
    """Write a report of RUN: one self-contained HTML file that works offline.

    It tells what virtualization costs here, in words, tables and figures that can be zoomed; what was invalid, limited
    or missing; and on what machine it was measured.
    """
    from stealtime.cli.output import message_console, print_document, print_line
    from stealtime.report.acceptance.judgement import hold
    from stealtime.report.acceptance.library import find_bars
    from stealtime.report.page.html import write_report
    from stealtime.report.summarizing import summarize
    from stealtime.store.run import find_run

    # Before the samples are read: a wrong name is told at once.
    bars = None if accept is None else find_bars(accept)
    found = find_run(run, runs_folder)
    path = (found.folder / "report.html" if output is None else output).absolute()
    if found.manifest.merged is not None and bars is None and _write_hosts(found, path):
        if as_json:
            print_document({"schema_version": 1, "path": str(path), "bytes": path.stat().st_size})
        else:
            print_line(str(path))
        return
    with message_console().status(f"drawing {len(found.trials)} trials"):
        summary = summarize(found)
        size_bytes = write_report(found, path, summary, None if bars is None else hold(summary, bars, str(accept)))
    if as_json:
        print_document({"schema_version": 1, "path": str(path), "bytes": size_bytes})
    else:
        print_line(str(path))


def _write_hosts(run: "Run", path: Path) -> bool:
    """Write the page of a merged run, if that is one over hosts; tells whether it is."""
    from stealtime.merging.document import shows_hosts
    from stealtime.report.notation import number_of
    from stealtime.site.database import open_database
    from stealtime.site.overview import overview_of
    from stealtime.site.page import write_site

    if not shows_hosts(run):
        return False
    database = open_database([run])
    try:
        document = overview_of(database, [], path.parent)
    finally:
        database.close()
    remarks = [] if run.manifest.merged is None else run.manifest.merged.remarks
    document = document.model_copy(update={"remarks": [*remarks, *document.remarks]})
    write_site(document, path, f"{run.manifest.campaign_name} on {number_of(document.hosts, 'host')}")
    return True
