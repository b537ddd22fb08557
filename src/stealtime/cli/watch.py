"""``stealtime watch``: this host and its guests live, with verdicts and neighbours, or as metrics."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.cli.advise import GuestViews, Interval, Rules
from stealtime.cli.parameters import duration_of

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from stealtime.capacity.session import Watch


def watch(
    once: Annotated[
        bool, typer.Option("--once", help="Print one screen as soon as a verdict can be given, and end.")
    ] = False,
    prometheus: Annotated[
        str | None,
        typer.Option(
            "--prometheus",
            metavar="ADDRESS",
            help="Serve the figures as metrics instead: 127.0.0.1:9105, or a port alone, which is served on loopback.",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep", metavar="FOLDER", help="With --prometheus: keep a day of verdicts there, for `advise --history`."
        ),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add",
            metavar="GUEST",
            help="With --prometheus: also predict what one more guest does, as `advise --add` does; repeatable.",
        ),
    ] = None,
    remove_each: Annotated[
        bool,
        typer.Option("--remove-each", help="With --prometheus: also predict the host's pressure without each guest."),
    ] = False,
    neighbours: Annotated[
        bool | None,
        typer.Option(
            "--neighbours/--no-neighbours",
            help="Name who takes the CPUs that guests wait for: traces the host for 0.2 s of every 10 s (root).  "
            "Metrics have it only where it is asked for.",
        ),
    ] = None,
    interval: Interval = "1s",
    rules: Rules = None,
    guest_view: GuestViews = None,
    grafana_dashboard: Annotated[
        bool, typer.Option("--grafana-dashboard", help="Print a Grafana dashboard of the metrics, and end.")
    ] = False,
    alert_rules: Annotated[
        bool, typer.Option("--alert-rules", help="Print rules for Prometheus that alert by the metrics, and end.")
    ] = False,
    unit: Annotated[
        bool, typer.Option("--unit", help="Print a unit of systemd that serves the metrics, and end.")
    ] = False,
) -> None:
    """Show this host's CPUs and every guest on it, live: who waits how long, for whom, and the verdict.

    Keys: arrows and Page Up/Down scroll, Enter shows a guest, s sorts by another column, / filters, p pauses, q quits.
    If the output is no terminal, only --once and --prometheus work.

    Exit codes: 0 it was shown; 1 metrics cannot be served there.
    """
    for is_wanted, name in (
        (grafana_dashboard, "grafana.json"),
        (alert_rules, "alerts.yml"),
        (unit, "stealtime-exporter.service"),
    ):
        if is_wanted:
            _print_file(name)
    from stealtime.capacity.rules import load_rules
    from stealtime.capacity.session import Watch
    from stealtime.vocabulary.errors import UsageError

    interval_ns = duration_of("--interval", interval)
    assert interval_ns is not None  # noqa: S101 - it has a default
    order = Watch(load_rules(rules), interval_ns, guest_view or [], str(rules) if rules else "the builtin rules")
    if once and prometheus is not None:
        raise UsageError("--once prints and ends, and --prometheus serves until it is ended", hint="leave one out")
    if keep is not None and prometheus is None:
        raise UsageError(f"--keep {keep}: only what serves metrics keeps verdicts", hint="add --prometheus ADDRESS")
    if (add or remove_each) and prometheus is None:
        raise UsageError("--add and --remove-each: only metrics have predictions here", hint="take `stealtime advise`")
    if prometheus is not None:
        from stealtime.capacity.prediction.addition import read_addition
        from stealtime.capacity.prediction.document import Changes
        from stealtime.lab.processors import online_cpus

        changes = Changes([read_addition(text, online_cpus()) for text in add or []], remove_each=remove_each)
        order = replace(order, changes=changes)
        _until_told(_export(order, prometheus, trace=neighbours is True, keep=keep))
        return
    from stealtime.capacity.watch.live import show, show_once
    from stealtime.cli.output import data_console, message_console

    trace = neighbours is not False
    console = data_console()
    if once:
        with message_console().status("reading counters") as status:
            _until_told(show_once(order, console, trace=trace, on_progress=status.update))
    elif console.is_terminal:
        _until_told(show(order, trace=trace))
    else:
        raise UsageError("the output is no terminal, which a live screen needs", hint="add --once or --prometheus")


def _print_file(name: str) -> None:
    from importlib import resources

    text = (resources.files("stealtime.capacity.exporter") / name).read_text("utf-8")
    sys.stdout.write(text.replace("@STEALTIME@", str(Path(sys.argv[0]).resolve())))
    raise typer.Exit


async def _export(order: "Watch", address: str, *, trace: bool, keep: Path | None) -> None:
    from importlib import metadata

    from stealtime.capacity.exporter.export import Export, export
    from stealtime.capacity.exporter.server import read_address

    exported = Export(
        rules=order.rules,
        serve_at=read_address(address),
        ways=order.ways,
        ask_guests=bool(order.guest_views),
        trace=trace,
        version=metadata.version("stealtime"),
        keep=keep,
        changes=order.changes,
    )

    def say(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    await export(exported, say)


def _until_told(work: "Coroutine[None, None, None]") -> None:
    """Run until it ends by itself, or by Ctrl-C or SIGTERM; then everything that it holds is given back."""
    import asyncio
    import signal

    async def run() -> None:
        task = asyncio.ensure_future(work)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        # This is how it ends.
        raise typer.Exit from None
