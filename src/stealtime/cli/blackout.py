"""``stealtime blackout``: how long clients of any machine saw nothing, whatever somebody does to it."""

import os
import sys
from typing import Annotated

import typer

from stealtime.cli.parameters import AsJson, duration_of

_PLACE = "HOST[:PORT]"


def blackout(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]",
            help="HOST[:PORT] where `stealtime-agent counter` runs: is asked over TCP and UDP.  [default port: 7000]",
            show_default=False,
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="How long to watch: 30s, 5m.  [default: until Ctrl-C]"),
    ] = None,
    tcp: Annotated[str | None, typer.Option("--tcp", metavar=_PLACE, help="Ask a counter over TCP alone.")] = None,
    udp: Annotated[str | None, typer.Option("--udp", metavar=_PLACE, help="Ask a counter over UDP alone.")] = None,
    ping: Annotated[
        str | None,
        typer.Option(
            "--ping", metavar="HOST", help="Send ICMP echo requests: needs no program there, proves no memory."
        ),
    ] = None,
    connect: Annotated[
        str | None,
        typer.Option(
            "--connect",
            metavar="HOST:PORT",
            help="Open a TCP connection to any service, and reset it, each 20 intervals.",
        ),
    ] = None,
    interval: Annotated[
        str, typer.Option("--interval", "-i", metavar="DURATION", help="From one probe to the next.")
    ] = "500us",
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="DURATION",
            help="List longer silences.  [default: 3 intervals, at least 3 ms, and twice what 95 % of answers vary by]",
        ),
    ] = None,
    max_gap: Annotated[
        str | None, typer.Option("--max-gap", metavar="DURATION", help="Exit with 3 if a blackout was longer.")
    ] = None,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="How long to wait for the first answers.")
    ] = "3s",
    reconnect: Annotated[
        str,
        typer.Option(
            "--reconnect", metavar="DURATION", help="Make the TCP connection anew when it was silent for so long."
        ),
    ] = "10s",
    priority: Annotated[
        int,
        typer.Option("--priority", "-p", min=0, max=99, help="SCHED_FIFO priority of the probes (root); 0: ordinary."),
    ] = 0,
    json: AsJson = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Be the other side: run the counter here, on port 7000 or that of TARGET.")
    ] = False,
    agent: Annotated[
        bool,
        typer.Option("--agent", help="Print where the static binary is that is copied to the other side, and end."),
    ] = False,
) -> None:
    """Tell how long clients of a machine saw nothing while somebody migrates, upgrades or fails it over.

    The machine, or the guest, needs one static file, no root, no Python:

        scp $(stealtime blackout --agent) guest:  &&  ssh guest ./stealtime-agent counter --tcp 7000 --udp 7000

    Start this here, before the migration begins; Ctrl-C ends it:

        stealtime blackout guest --for 5m

    A probe goes out twice a millisecond over TCP and over UDP, so that the length of a gap is known to a millisecond.
    The counter's answers prove that no value it had told was forgotten. Where nothing can be installed: --ping guest,
    --connect guest:22, alone or in addition; they find gaps, but no forgotten values. Times in which this machine stood
    still itself are not judged.

    Exit codes: 0 nothing was longer than --max-gap, nothing forgotten; 1 no answer; 3 a longer blackout, or a value
    forgotten; 4 not judged: this machine stood still for longer than --max-gap, or could not keep the interval.
    """
    from stealtime.lab.platforms.agent_binary import find_agent

    if agent:
        sys.stdout.write(f"{find_agent()}\n")
        raise typer.Exit
    if serve:
        from stealtime.blackout.target import served_port

        port = served_port(target)
        os.execv(find_agent(), ["stealtime-agent", "counter", "--tcp", port, "--udp", port])  # noqa: S606
    from stealtime.blackout.document import make_document
    from stealtime.blackout.target import Targets
    from stealtime.blackout.terminal import BlackoutPage
    from stealtime.blackout.watching import watch
    from stealtime.cli.output import data_console, message_console, print_document

    options = Targets(target, tcp, udp, ping, connect).options()
    durations = {
        "--duration": ("--for", duration),
        "--interval": ("--interval", interval),
        "--threshold": ("--threshold", threshold),
        "--max-gap": ("--max-gap", max_gap),
        "--wait": ("--timeout", timeout),
        "--reconnect": ("--reconnect", reconnect),
    }
    for name, (told_as, text) in durations.items():
        length_ns = duration_of(told_as, text)
        if length_ns is not None:
            options += [name, f"{length_ns}ns"]
    options += ["--priority", str(priority)]
    with message_console().status("waiting for the first answers") as status:
        outcome = watch(options, on_progress=status.update)
    document = make_document(outcome.seen)
    if json:
        print_document(document)
    else:
        data_console().print(BlackoutPage(document))
    raise typer.Exit(outcome.exit_code)
