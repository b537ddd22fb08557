"""``stealtime show``: the figures of a run."""

from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.cli.parameters import AsJson, RunName, RunsFolder

if TYPE_CHECKING:
    from stealtime.store.run import Run


def show(
    run: RunName = "last",
    paper_tables: Annotated[
        bool | None,
        typer.Option(
            "--paper-tables/--no-paper-tables",
            help="First print tables laid out like those of the paper that the cells redo.  "
            "[default: if the campaign is named after it, as hyperv2013]",
            show_default=False,
        ),
    ] = None,
    runs_folder: RunsFolder = None,
    json: AsJson = False,
) -> None:
    """Show the figures of RUN: the worst case of every platform beside native, then every figure.

    Of traced cells it says whose fault their spikes are, and what tracing cost.

    Exit codes: 0 all is valid; 4 something failed or is invalid, or no cell fits the paper's tables that were asked
    for; 1 the run is damaged.
    """
    from stealtime.cli.output import data_console, print_document
    from stealtime.store.run import find_run
    from stealtime.studies.latency.analysis.summary import summarize
    from stealtime.studies.latency.terminal.paper import tables_of_run
    from stealtime.studies.latency.terminal.summary import print_summary
    from stealtime.vocabulary.errors import ExitCode

    found = find_run(run, runs_folder)
    found.check_tables()
    summary = summarize(found)
    if json:
        print_document(summary)
    else:
        tables = tables_of_run(summary, wanted=paper_tables)
        console = data_console()
        console.print(f"{found.run_id}  {found.manifest.state}\n", markup=False)
        if tables is not None:
            console.print(tables)
        print_summary(summary, console)
        _print_causes(found)
    raise typer.Exit(ExitCode.FINE if all(cell.valid for cell in summary.cells) else ExitCode.NOT_JUDGED)


def _print_causes(run: "Run") -> None:
    """Attribute the traced trials, which takes a second or two each, and print what came of it."""
    from stealtime.cli.output import data_console, message_console

    traced = sum(trial.record.cell.traced for trial in run.measured)
    if not traced:
        return
    from stealtime.studies.latency.page.causes import gather_causes
    from stealtime.studies.latency.terminal.causes import render_causes

    with message_console().status(f"splitting the spikes of {traced} traced trials into causes"):
        causes = gather_causes(run)
    tables = render_causes(causes)
    if tables is not None:
        data_console().print(tables)
