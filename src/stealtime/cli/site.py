"""``stealtime site``: one page over many runs; ``stealtime query``: SQL over them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stealtime.cli import completion
from stealtime.cli.parameters import AsJson, RunsFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stealtime.site.database import Database
    from stealtime.store.run import Run


def site(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="The runs, merged ones too, or folders of runs.", autocompletion=completion.runs
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder of the page.", show_default=False)
    ],
    known: Annotated[
        Path | None,
        typer.Option("--known", metavar="FILE", help="Changes that are known and no alarm (docs/many-hosts.md)."),
    ] = None,
    runs_folder: RunsFolder = None,
    json: AsJson = False,
) -> None:
    """Write a page over many runs: which hosts are worse than their peers, and what changed from run to run.

    Peers are hosts of the same CPU model, microcode and kernel. It works offline and links to the runs' own pages.
    Changes are looked for with Apache Otava, where that is installed (`uv tool install apache-otava`).

    Exit codes: 0 nothing is worse; 3 a host is worse than its peers, or something has changed that is not known; 4 a
    host or the changes could not be judged; 2 there is no run; 1 the page cannot be written.
    """
    from stealtime.cli.output import message_console, print_document, print_line
    from stealtime.report.notation import number_of
    from stealtime.site.change_points import read_known
    from stealtime.site.overview import overview_of
    from stealtime.site.page import write_site
    from stealtime.store.writer import disk_errors
    from stealtime.vocabulary.errors import ExitCode

    acknowledged = [] if known is None else read_known(known)
    folder = output.absolute()
    with message_console().status("reading the runs"):
        database = _database(runs, runs_folder)
        try:
            # Not before: a run that is not there leaves no folder.
            with disk_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
            document = overview_of(database, acknowledged, folder)
        finally:
            database.close()
        write_site(document, folder / "index.html", number_of(document.hosts, "host"))
    for remark in document.remarks:
        message_console().print(remark, style="yellow", markup=False, soft_wrap=True)
    if json:
        print_document(document.model_copy(update={"curves": [], "rows": {}, "run_rows": []}))
    else:
        for line in _lines(document):
            print_line(line)
        print_line(str(folder / "index.html"))
    alarms = [one for one in document.changes if one.known is None]
    if document.named or alarms:
        raise typer.Exit(ExitCode.THRESHOLD)
    raise typer.Exit(ExitCode.NOT_JUDGED if document.not_judged or document.changes_because else ExitCode.FINE)


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query of DuckDB over runs, trials and counts.")],
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN...]", help="The runs.  [default: all]", autocompletion=completion.runs),
    ] = None,
    runs_folder: RunsFolder = None,
    json: AsJson = False,
) -> None:
    """Ask runs with SQL; docs/sql.md has the tables and six recipes.

    Tables: runs, trials (one row each), counts (how often each duration came). The query can read nothing else.
    """
    from stealtime.cli.output import data_console, message_console, print_document
    from stealtime.vocabulary.errors import UsageError

    database = _database(runs or [], runs_folder)
    try:
        import duckdb

        try:
            cursor = database.connection.execute(sql)
        except duckdb.Error as error:
            raise UsageError(
                f"the query is refused: {str(error).strip().splitlines()[0]}", hint="docs/sql.md has the tables"
            ) from error
        names = [column[0] for column in cursor.description or ()]
        rows = cursor.fetchall()
    finally:
        database.close()
    for remark in database.remarks:
        message_console().print(remark, style="yellow", markup=False, soft_wrap=True)
    if json:
        print_document({"schema_version": 1, "columns": names, "rows": [[_plain(one) for one in row] for row in rows]})
        return
    from rich.table import Table

    table = Table(*names, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*("" if one is None else f"{one:.6g}" if isinstance(one, float) else str(one) for one in row))
    data_console().print(table, soft_wrap=True)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _database(names: list[str], runs_folder: Path | None) -> "Database":
    from stealtime.site.database import open_database

    left_out: list[str] = []
    return open_database(_runs(names, runs_folder, left_out), left_out)


def _runs(names: list[str], runs_folder: Path | None, left_out: list[str]) -> "Iterator[Run]":
    """Open one run after the other; what is damaged is left out, and said."""
    from stealtime.store.documents import MANIFEST
    from stealtime.store.run import default_runs_folder, find_run, runs_in
    from stealtime.vocabulary.errors import StealtimeError, UsageError

    for name in names or [str(runs_folder or default_runs_folder())]:
        is_folder_of_runs = Path(name).is_dir() and not (Path(name) / MANIFEST).is_file()
        folders = runs_in(Path(name)) if is_folder_of_runs else []
        if is_folder_of_runs and not folders:
            raise UsageError(f"{name} holds no run", hint="name runs, or a folder that `stealtime run` wrote into")
        for one in [str(folder) for folder in folders] or [name]:
            try:
                yield find_run(one, runs_folder)
            except UsageError:
                raise
            except StealtimeError as error:
                left_out.append(f"{one} is left out: {error.message}")


def _lines(document: Any) -> list[str]:
    from stealtime.report.notation import number_of
    from stealtime.site.page import figure_words

    runs, hosts, trials = number_of(document.runs, "run"), number_of(document.hosts, "host"), document.trials
    lines = [f"{runs} of {hosts}, {number_of(trials, 'trial')}"]
    for one in document.named:
        here, peers, times = figure_words(one)
        factor = f" ({times} times)" if times else ""
        cause = one.cause or "nothing was recorded around it: measure it with --tracing on"
        lines.append(f"{one.host}: {one.figure} of {one.cell} is {here}, its peers' {peers}{factor}; {cause}")
    if not document.named:
        lines.append("no host is shown to be worse than its peers")
    lines += [
        f"not judged: {', '.join(one.hosts[:8])}{' ...' if len(one.hosts) > 8 else ''}, because {one.because}"
        for one in document.not_judged
    ]
    for change in document.changes:
        note = f"; known: {change.known}" if change.known else ""
        lines.append(
            f"{change.host}: {change.figure} of {change.cell} is {change.factor:.2f} times what it was, from "
            f"{change.run} on{note}"
        )
    if document.changes_because:
        lines.append(f"changes were not looked for, because {document.changes_because}")
    return lines
