"""``stealtime compare``: two runs, cell by cell, or a run beside published figures."""

from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.cli import completion
from stealtime.cli.parameters import AsJson, RunsFolder

if TYPE_CHECKING:
    from stealtime.store.run import Run


def compare(
    a: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="The run that the ratios are relative to.",
            show_default=False,
            autocompletion=completion.runs,
        ),
    ] = None,
    b: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="The run to compare with it.", show_default=False, autocompletion=completion.runs
        ),
    ] = None,
    published: Annotated[
        str | None,
        typer.Option(
            "--published",
            metavar="NAME",
            autocompletion=completion.published,
            help="Compare one RUN with published figures instead; those that there are are listed below.",
            show_default=False,
        ),
    ] = None,
    runs_folder: RunsFolder = None,
    json: AsJson = False,
    listing: Annotated[bool, typer.Option("--list", help="List the published figures, and end.")] = False,
) -> None:
    """Compare two runs cell by cell: ratios of the second to the first, with confidence intervals.

    Where the interval contains 1, the answer is "no difference shown", with the factor that a difference is less than.
    A cell needs four valid repetitions in both runs; the campaign careful has twelve. Of merged runs hosts are
    compared, each with itself where both have it.

    With --published, one run is compared with the figures of a paper: in tables laid out like the paper's, and by
    whether the ratios between machines and between scenarios agree; or with what a paper without figures says in
    words.

    Exit codes: 0 every common cell, or every published ratio or statement, was judged; 4 at least one was not, or there
    is none.
    """
    if listing:
        from stealtime.cli.listing import list_published

        list_published(json)
        return
    from stealtime.cli.output import message_console
    from stealtime.report.claims.library import published_names
    from stealtime.report.claims.statements import statement_names
    from stealtime.store.run import find_run
    from stealtime.vocabulary.errors import ExitCode, UsageError

    if a is None or (b is None) == (published is None):
        message = "compare needs a second run, or --published with a name" if b is None else _both(b, published)
        if a is None:
            message = "compare needs a run, and a second one or --published with a name"
        known = "|".join(sorted((*published_names(), *statement_names())))
        raise UsageError(
            message, hint=f"use `stealtime compare RUN RUN` or `stealtime compare RUN --published {known}`"
        )
    first = find_run(a, runs_folder)
    first.check_tables()
    if published is not None:
        is_judged = _with_published(first, published, json)
    else:
        second = find_run(str(b), runs_folder)
        second.check_tables()
        if second.folder == first.folder:
            message_console().print(f"{first.run_id} is compared with itself: no difference is all that can be shown")
        is_over_hosts = any(_is_over_hosts(one) for one in (first, second))
        is_judged = (_by_hosts if is_over_hosts else _with_run)(first, second, json)
    raise typer.Exit(ExitCode.FINE if is_judged else ExitCode.NOT_JUDGED)


def _both(b: str, published: str | None) -> str:
    return f"a second run ({b!r}) and --published {published!r} were given, which are two different comparisons"


def _with_run(first: "Run", second: "Run", json: bool) -> bool:
    from stealtime.cli.output import data_console, print_document
    from stealtime.report.comparing import compare as compare_runs
    from stealtime.report.terminal.comparison import render_comparison

    comparison = compare_runs(first, second)
    if json:
        print_document(comparison)
    else:
        data_console().print(render_comparison(comparison))
    return comparison.is_judged


def _is_over_hosts(run: "Run") -> bool:
    from stealtime.merging.document import shows_hosts

    return run.manifest.merged is not None and shows_hosts(run)


def _by_hosts(first: "Run", second: "Run", json: bool) -> bool:
    from rich.table import Table

    from stealtime.cli.output import data_console, print_document
    from stealtime.merging.comparison import compare_hosts, lines_of

    comparison = compare_hosts(first, second)
    if json:
        print_document(comparison)
        return comparison.is_judged
    head = ("cell", "figure", "hosts", "ratio", "verdict", "changed most")
    table = Table(*head, box=None, pad_edge=False, header_style="bold")
    for row in lines_of(comparison):
        table.add_row(*row)
    data_console().print(table)
    return comparison.is_judged


def _with_published(run: "Run", name: str, json: bool) -> bool:
    from stealtime.cli.output import data_console, print_document
    from stealtime.report.claims.comparison import compare_with_published
    from stealtime.report.claims.library import find_published
    from stealtime.report.claims.statements import statement_names
    from stealtime.report.summarizing import summarize
    from stealtime.report.terminal.published import render_published_comparison

    if name in statement_names():
        return _with_statements(run, name, json)
    # Before the samples are read: a wrong name is told at once.
    published = find_published(name)
    comparison = compare_with_published(summarize(run), published)
    if json:
        print_document(comparison)
    else:
        data_console().print(render_published_comparison(comparison))
    return comparison.is_judged


def _with_statements(run: "Run", name: str, json: bool) -> bool:
    from stealtime.cli.output import data_console, print_document
    from stealtime.report.claims.statements import compare_with_statements, find_statements
    from stealtime.report.terminal.statements import render_statements

    comparison = compare_with_statements(run, find_statements(name))
    if json:
        print_document(comparison)
    else:
        data_console().print(render_statements(comparison))
    return comparison.is_judged
