"""``stealtime show``: the figures of a run."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.cli import completion
from stealtime.cli.parameters import AsJson, RunName, RunsFolder

if TYPE_CHECKING:
    from stealtime.report.acceptance.model import BarFile
    from stealtime.report.summary import RunSummary
    from stealtime.store.run import Run
    from stealtime.vocabulary.errors import ExitCode


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
    accept: Annotated[
        str | None,
        typer.Option(
            "--accept",
            metavar="NAME|FILE",
            autocompletion=completion.bars,
            help="Hold the cells against bars instead: rhel-rt, or a .toml file (`stealtime schema bars`).",
            show_default=False,
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit", metavar="FILE", help="With --accept: also write a JUnit file, a test case for each cell and bar."
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Show every figure, and all that is known of how it was measured."),
    ] = False,
    tails: Annotated[
        bool,
        typer.Option(
            "--tails",
            help="Estimate instead how likely longer latencies than the longest seen are, where that can be.",
        ),
    ] = False,
    runs_folder: RunsFolder = None,
    json: AsJson = False,
) -> None:
    """Show the figures of RUN: what it answers, and each platform next to native. All figures: --all.

    Of a merged run it shows its hosts together and the range over them; with --all also what every trial shows.

    Traced cells also show the causes of their spikes and the overhead of tracing.

    With --accept a cell passed, failed, is not judged, or was watched too short: a longest value is no pass until it
    was looked for as long as the bar asks.

    With --tails it shows values that are exceeded in an hour with small probabilities, or why there are none.

    Exit codes: 0 everything is valid, passed or estimated; 3 a threshold that the run was measured with
    (`run --max-overhead`) or a bar of --accept is exceeded; 4 something failed or is
    invalid, is not judged, was watched too short or has no estimate, nothing was measured, or no cell fits the paper's
    tables that were asked for; 1 the run is damaged.
    """
    from stealtime.store.run import find_run
    from stealtime.vocabulary.errors import ExitCode, UsageError

    if junit is not None and accept is None:
        raise UsageError("--junit needs --accept here", hint="`stealtime run --junit FILE` writes the cells themselves")
    if tails and accept is not None:
        raise UsageError("--tails and --accept are two different views", hint="give one of them")
    # Before the samples are read: a wrong name is told at once.
    bars = None if accept is None else _bars(accept)
    found = find_run(run, runs_folder)
    if found.manifest.merged is not None and accept is None and not tails and _show_merged(found, json, everything):
        raise typer.Exit(ExitCode.NOT_JUDGED if found.manifest.merged.remarks else ExitCode.FINE)
    # Hosts are shown without any of it, and it takes longer to load than they do.
    from stealtime.campaigns.session import elsewhere
    from stealtime.cli.output import data_console, message_console, print_document
    from stealtime.report.ending import exit_code, remarks_on
    from stealtime.report.summarizing import summarize
    from stealtime.report.terminal.answer import print_answers
    from stealtime.report.terminal.run import claims_of, print_explanations, print_tables
    from stealtime.report.terminal.thresholds import print_thresholds

    found.check_tables()
    summary = summarize(found)
    if tails:
        raise typer.Exit(_estimate(found, summary, json))
    if accept is not None and bars is not None:
        raise typer.Exit(_hold(summary, bars, accept, junit, json))
    if json:
        print_document(summary)
    else:
        claims = claims_of(summary, wanted=paper_tables)
        console = data_console()
        console.print(f"{found.run_id}  {found.manifest.state}\n", markup=False)
        print_thresholds(summary, console)
        print_answers(summary, console)
        for claim in claims:
            console.print(claim)
        print_tables(summary, console, everything=everything)
        with message_console().status("attributing spikes to causes"):
            print_explanations(found, console)
        if not everything:
            console.print(
                f"\nevery figure: stealtime show {found.run_id}{elsewhere(found.folder.parent)} --all", soft_wrap=True
            )
    remarks = remarks_on(summary)
    for remark in remarks:
        message_console().print(remark, markup=False, soft_wrap=True)
    raise typer.Exit(exit_code(summary, remarks))


def _bars(name: str) -> "BarFile":
    from stealtime.report.acceptance.library import find_bars

    return find_bars(name)


def _show_merged(run: "Run", json: bool, everything: bool) -> bool:
    """Show what the counts of a merged run tell of its hosts; tells whether that is all that is to be shown.

    Where each cell was measured on one host, the usual tables follow if the samples can be had.
    """
    from stealtime.cli.output import data_console, print_document
    from stealtime.merging.document import read_merged
    from stealtime.merging.terminal import print_merged, print_parts
    from stealtime.store.elsewhere import samples_at_hand

    document = read_merged(run)
    if json:
        print_document(document)
        return True
    console = data_console()
    if not document.is_over_hosts and samples_at_hand(run):
        print_parts(document, console)
        return False
    console.print(f"{run.run_id}  {run.manifest.state}\n", markup=False)
    print_merged(document, console, everything=everything)
    return not everything


def _hold(summary: "RunSummary", bars: "BarFile", name: str, junit: Path | None, json: bool) -> "ExitCode":
    from stealtime.cli.output import data_console, print_document, write_last
    from stealtime.report.acceptance.judgement import exit_code, hold
    from stealtime.report.acceptance.junit import write_junit
    from stealtime.report.terminal.acceptance import render_acceptance

    acceptance = hold(summary, bars, name)
    if json:
        print_document(acceptance)
    else:
        data_console().print(render_acceptance(acceptance))
    steps = [] if junit is None else [partial(write_junit, acceptance, junit)]
    return write_last(exit_code(acceptance), steps)


def _estimate(run: "Run", summary: "RunSummary", json: bool) -> "ExitCode":
    from stealtime.cli.output import data_console, message_console, print_document
    from stealtime.report.tails.run import tails_of
    from stealtime.report.terminal.tails import render_tails
    from stealtime.vocabulary.errors import ExitCode

    with message_console().status("estimating tails"):
        tails = tails_of(run, summary)
    if json:
        print_document(tails)
    else:
        data_console().print(render_tails(tails))
    is_estimated = bool(tails.cells) and all(not one.refused_because for one in tails.cells)
    return ExitCode.FINE if is_estimated else ExitCode.NOT_JUDGED
