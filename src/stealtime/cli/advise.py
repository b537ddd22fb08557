"""``stealtime advise``: is this host over-committed, is a guest under-provisioned, and on what evidence?"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.cli.parameters import AsJson, duration_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Never

    from stealtime.capacity.rules import Verdict

Rules = Annotated[
    Path | None,
    typer.Option("--rules", metavar="FILE", help="Judge by these rules instead of the builtin ones (TOML)."),
]
Interval = Annotated[
    str, typer.Option("--interval", "-i", metavar="DURATION", help="From one reading of the counters to the next.")
]
GuestViews = Annotated[
    list[str] | None,
    typer.Option(
        "--guest-view",
        metavar="WAY",
        help="Also ask guests for their own run queue: `own` asks those that need no way, "
        "GUEST=ssh:[USER@]HOST[:PORT] one over ssh; repeatable.",
    ),
]


def advise(
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long to watch: 30s, 5m.  Ctrl-C judges what was seen.")
    ] = "1m",
    interval: Interval = "1s",
    rules: Rules = None,
    guest_view: GuestViews = None,
    print_rules: Annotated[
        bool, typer.Option("--print-rules", help="Print the builtin rules, to change them and give them to --rules.")
    ] = False,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add",
            metavar="GUEST",
            help="Also predict what one more guest does to all: 2vcpu,busy=60%, and as wanted weight=200, cpus=0-3, "
            "count=2, name=web; busy is of each virtual CPU if it never waits; repeatable.",
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="NAME", help="Also predict what it is like without a guest; repeatable."),
    ] = None,
    remove_each: Annotated[
        bool, typer.Option("--remove-each", help="Predict that for each guest: which one is best moved away?")
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="Tell the evidence of each guest and what to change, instead of a line.")
    ] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="VERDICT",
            help="End with exit code 3 where the host or a guest is `over-committed`, `misplaced`, "
            "`under-provisioned` or `over-provisioned`; repeatable.",
        ),
    ] = None,
    from_: Annotated[
        list[Path] | None,
        typer.Option(
            "--from", metavar="FILE", help="Watch nothing: put documents of --json of many hosts into one table."
        ),
    ] = None,
    more: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="More files of --from.")] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            "--history", metavar="FOLDER", help="Watch nothing: judge what `watch --prometheus --keep FOLDER` kept."
        ),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option("--last", metavar="DURATION", help="With --history: how far back to look.  [default: 24h]"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Judge the provisioning of this host and of every guest on it: whoever started them.

    Each is over-provisioned, efficiently provisioned, over-committed, misplaced, under-provisioned or not judged, with
    the rule, its source, the figures, and what to change. Reads counters only: it changes and traces nothing.

    Exit codes: 0 all is judged; 3 there is a verdict of --fail-on; 4 the host or a guest is not judged, and the output
    says why.
    """
    from stealtime.capacity.rules import builtin_text, load_rules

    if print_rules:
        sys.stdout.write(builtin_text())
        raise typer.Exit
    from stealtime.vocabulary.errors import UsageError

    verdicts = _verdicts_of(fail_on or [])
    if more and not from_:
        raise UsageError(f"{more[0]}: files are read with --from only", hint=f"write --from {more[0]}")
    if last is not None and history is None:
        raise UsageError(f"--last {last} is about --history", hint="add --history FOLDER, or leave --last out")
    if from_ and history is not None:
        raise UsageError("--from and --history exclude each other", hint="leave one out")
    if (from_ or history is not None) and (add or remove or remove_each):
        raise UsageError(
            "--add and --remove predict for this host, which is not watched with --from or --history",
            hint="leave one out",
        )
    if from_:
        _show_fleet([*from_, *(more or [])], verdicts, as_json=json)
    if history is not None:
        _show_history(history, last or "24h", as_json=json)
    from stealtime.capacity.document import exit_code
    from stealtime.capacity.prediction.addition import read_addition
    from stealtime.capacity.prediction.document import Changes
    from stealtime.capacity.session import Watch, watch_for
    from stealtime.capacity.terminal import AdvicePage
    from stealtime.cli.output import data_console, message_console, print_document
    from stealtime.lab.processors import online_cpus

    changes = Changes([read_addition(text, online_cpus()) for text in add or []], remove or [], remove_each)
    duration_ns, interval_ns = duration_of("--for", duration), duration_of("--interval", interval)
    assert duration_ns is not None and interval_ns is not None  # noqa: S101, PT018 - both have a default
    watch = Watch(
        load_rules(rules), interval_ns, guest_view or [], str(rules) if rules else "the builtin rules", changes
    )
    with message_console().status("reading counters") as status:
        document = watch_for(watch, duration_ns, on_progress=status.update)
    if json:
        print_document(document)
    else:
        data_console().print(AdvicePage(document, details=details))
    raise typer.Exit(exit_code(document, verdicts))


def _verdicts_of(names: "Sequence[str]") -> "list[Verdict]":
    from stealtime.capacity.severity import FAILING
    from stealtime.vocabulary.errors import UsageError

    for name in names:
        if name not in FAILING:
            raise UsageError(f"--fail-on: {name!r} is no verdict", hint=f"write one of {', '.join(FAILING)}")
    return [FAILING[name] for name in names]


def _show_fleet(paths: "Sequence[Path]", fail_on: "Sequence[Verdict]", *, as_json: bool) -> "Never":
    from stealtime.capacity.fleet import fleet_exit_code, read_fleet
    from stealtime.capacity.tables import FleetPage
    from stealtime.cli.output import print_document, print_table

    fleet = read_fleet(paths)
    if as_json:
        print_document(fleet)
    else:
        print_table(FleetPage(fleet))
    raise typer.Exit(fleet_exit_code(fleet, fail_on))


def _show_history(folder: Path, last: str, *, as_json: bool) -> "Never":
    import socket
    import time

    from stealtime.capacity.exporter.history import make_history
    from stealtime.capacity.exporter.kept import read_kept
    from stealtime.capacity.tables import HistoryPage
    from stealtime.cli.output import print_document, print_table

    last_ns = duration_of("--last", last)
    assert last_ns is not None  # noqa: S101 - it has a default
    document = make_history(read_kept(folder, round(time.time() - last_ns / 1e9)), socket.gethostname())
    if as_json:
        print_document(document)
    else:
        print_table(HistoryPage(document))
    raise typer.Exit
