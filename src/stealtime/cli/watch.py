"""``stealtime watch``: this host and its guests live, with verdicts, neighbours and metrics."""

import asyncio
import sys
from typing import Annotated

import typer

from stealtime.cli.advise import GuestViews, Interval, Rules
from stealtime.cli.parameters import duration_of


def watch(
    once: Annotated[
        bool, typer.Option("--once", help="Show one screen as soon as a verdict can be given, and end.")
    ] = False,
    prometheus: Annotated[
        str | None,
        typer.Option(
            "--prometheus",
            metavar="ADDRESS",
            help="Also serve the figures as metrics: 127.0.0.1:9105, or a port alone, which is served on loopback.",
        ),
    ] = None,
    neighbours: Annotated[
        bool,
        typer.Option(
            "--neighbours/--no-neighbours",
            help="Name who takes the CPUs that guests wait for: traces the host for 0.2 s of every 10 s (root).",
        ),
    ] = True,
    interval: Interval = "1s",
    rules: Rules = None,
    guest_view: GuestViews = None,
    grafana_dashboard: Annotated[
        bool, typer.Option("--grafana-dashboard", help="Print a Grafana dashboard of the metrics, and end.")
    ] = False,
) -> None:
    """Show this host's CPUs and every guest on it, live: who waits how long, for whom, and the verdict.

    If the output is no terminal, only --once and --prometheus work.

    Exit codes: 0 it was shown; 1 metrics cannot be served there.
    """
    if grafana_dashboard:
        from importlib import resources

        sys.stdout.write((resources.files("stealtime.capacity.watch") / "grafana.json").read_text("utf-8"))
        raise typer.Exit
    from stealtime.capacity.rules import load_rules
    from stealtime.capacity.session import Watch
    from stealtime.capacity.watch.live import watch as show
    from stealtime.capacity.watch.metrics import read_address
    from stealtime.cli.output import data_console, message_console
    from stealtime.vocabulary.errors import UsageError

    interval_ns = duration_of("--interval", interval)
    assert interval_ns is not None  # noqa: S101 - it has a default
    order = Watch(load_rules(rules), interval_ns, guest_view or [], str(rules) if rules else "the builtin rules")
    address = None if prometheus is None else read_address(prometheus)
    console = data_console()
    if not once and address is None and not console.is_terminal:
        raise UsageError("the output is no terminal, which a live screen needs", hint="add --once or --prometheus")
    try:
        if once:
            with message_console().status("reading counters") as status:
                asyncio.run(
                    show(order, console, once=True, serve_at=address, trace=neighbours, on_progress=status.update)
                )
        else:
            asyncio.run(show(order, console, once=False, serve_at=address, trace=neighbours))
    except KeyboardInterrupt:
        # This is how it ends.
        raise typer.Exit from None
