"""``stealtime check``: is a machine quiet enough right now, and if not, who disturbs it."""

import asyncio
from typing import Annotated

import typer

from stealtime.cli.parameters import AsJson, duration_of


def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="[TARGET]",
            help="here; ssh:[user@]host[:port]; libvirt:DOMAIN, by QEMU's guest agent; guest-agent:SOCKET, the same "
            "without libvirt.",
        ),
    ] = "here",
    bar: Annotated[
        str,
        typer.Option(
            "--bar",
            metavar="BAR",
            help="What no wake-up may be later than: a duration such as 100us, rhel-rt, or a .toml file of bars.",
        ),
    ] = "1ms",
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long to measure: 30s, 1m; at most 75s.")
    ] = "10s",
    json: AsJson = False,
) -> None:
    """Tell in one sentence whether a machine wakes its threads in time, and who kept it from that.

    A thread on each CPU sleeps and notes how late it wakes, as cyclictest does; it takes nothing from what runs there.
    The target needs nothing of stealtime: the static agent is copied there and removed. As root the kernel's trace
    names who had the CPU at the latest wake-up.

    Nagios, Slurm and Kubernetes run the agent itself, without Python: `stealtime-agent check -h`.

    Exit codes: 0 within the bar, also with a warning; 1 it could not be checked; 3 over the bar; 4 not judged.
    """
    from stealtime.check.bars import read_bar
    from stealtime.check.checking import Order
    from stealtime.check.checking import check as check_machine
    from stealtime.check.document import WORDS
    from stealtime.check.target import place_of
    from stealtime.cli.output import message_console, print_document, print_line

    order = Order(target, read_bar(bar), duration_of("--for", duration) or 0)
    place = place_of(target)
    with message_console().status(f"checking {target}") as status:
        document = asyncio.run(check_machine(order, place, lambda line: status.update(f"{target}: {line}")))
    if json:
        print_document(document)
        raise typer.Exit(document.exit_code)
    print_line(f"{WORDS[document.verdict]}: {document.summary}")
    if document.hint is not None:
        print_line(f"hint: {document.hint}")
    for limit in document.limits:
        print_line(f"note: {limit}")
    raise typer.Exit(document.exit_code)
