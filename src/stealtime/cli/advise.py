"""``stealtime advise``: is this host over-committed, is a guest under-provisioned, and on what evidence?"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from stealtime.cli.parameters import AsJson, duration_of

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
        help="Also ask guests for their own run queue: `own` asks those of User-Mode Linux, "
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
    json: AsJson = False,
) -> None:
    """Judge the provisioning of this host and of every guest on it: whoever started them.

    Each is over-provisioned, efficiently provisioned, over-committed, under-provisioned or not judged, with the rule,
    its source, the figures, and what to change. Reads counters only: it changes and traces nothing.

    Exit codes: 0 all is judged; 4 the host or a guest is not, and the output says why.
    """
    from stealtime.capacity.rules import builtin_text, load_rules

    if print_rules:
        sys.stdout.write(builtin_text())
        raise typer.Exit
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
    watch = Watch(load_rules(rules), interval_ns, guest_view or [], str(rules) if rules else "the builtin rules", changes)
    with message_console().status("reading counters") as status:
        document = watch_for(watch, duration_ns, on_progress=status.update)
    if json:
        print_document(document)
    else:
        data_console().print(AdvicePage(document))
    raise typer.Exit(exit_code(document))
