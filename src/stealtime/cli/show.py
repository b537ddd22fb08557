"""``stealtime show``: the figures of a run."""

from typing import Annotated

import typer

from stealtime.cli.parameters import AsJson, RunName, RunsFolder


def show(
    run: RunName = "last",
    paper_tables: Annotated[
        bool | None,
        typer.Option(
            "--paper-tables/--no-paper-tables",
            help="First print tables laid out like those of the paper whose cells were reproduced.  "
            "[default: if the campaign is named after the paper, as hyperv2013 is]",
            show_default=False,
        ),
    ] = None,
    runs_folder: RunsFolder = None,
    json: AsJson = False,
) -> None:
    """Show the figures of RUN: each platform's worst case beside native, then every figure.

    Traced cells also show the causes of their spikes and the overhead of tracing.

    Exit codes: 0 everything is valid; 4 something failed or is invalid, or no cell fits the paper's tables that were
    asked for; 1 the run is damaged.
    """
    from stealtime.cli.output import data_console, message_console, print_document
    from stealtime.report.summary import summarize
    from stealtime.report.terminal.run import claims_of, print_explanations, print_tables
    from stealtime.store.run import find_run
    from stealtime.vocabulary.errors import ExitCode

    found = find_run(run, runs_folder)
    found.check_tables()
    summary = summarize(found)
    if json:
        print_document(summary)
    else:
        claims = claims_of(summary, wanted=paper_tables)
        console = data_console()
        console.print(f"{found.run_id}  {found.manifest.state}\n", markup=False)
        for claim in claims:
            console.print(claim)
        print_tables(summary, console)
        with message_console().status("attributing spikes to causes"):
            print_explanations(found, console)
    raise typer.Exit(ExitCode.FINE if all(cell.valid for cell in summary.cells) else ExitCode.NOT_JUDGED)
