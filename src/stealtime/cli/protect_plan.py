"""``stealtime protect plan``: what each way of protecting a machine would cost, before it is protected."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.cli.parameters import AsJson, duration_of
from stealtime.vocabulary.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stealtime.hosts.mode_costs import ModeCost

_INTERVALS, _FOR = "5ms,25ms,100ms", "5s"
_SHORTEST_NS, _LONGEST_NS = 1_000_000_000, 300_000_000_000
"""Of a measurement."""


def plan(
    file: Annotated[Path, typer.Argument(metavar="VM.toml", help="Describes the machine; docs/protect.md.")],
    interval: Annotated[
        str,
        typer.Option("--interval", "-i", metavar="DURATIONS", help="Times between checkpoints, with commas between."),
    ] = _INTERVALS,
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long each way is measured, at most 5m.")
    ] = _FOR,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="ADDRESS/PREFIX",
            help="Where the guest answers ping, if it configures its own address.",
        ),
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(
            "--load",
            metavar="COMMAND",
            help="Runs beside the client meanwhile, in its network; {address} becomes the guest's.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Measure what each way of protecting a machine costs: answers, standstill, CPU, link. Needs root.

    The guest boots on two hosts in network namespaces of this machine, once unprotected and once for each mode and
    interval, and is asked by echo requests (ICMP) some 52 times a second. With the load that it is for: --load "sipp
    -sf register.xml {address}". Nothing of your hosts is touched. Some 15 seconds for each way under TCG.

    Exit codes: 0 all was measured; 1 nothing could be; 2 wrong usage; 3 a way could not be measured, as it says why.
    """
    from stealtime.hosts.mode_costs import ways_of
    from stealtime.hosts.rehearsing import own_interface, rehearse
    from stealtime.protect.vm_file import HOLDING, read_vm_file

    vm = read_vm_file(file)
    duration_ns = duration_of("--for", duration) or 0
    if not _SHORTEST_NS <= duration_ns <= _LONGEST_NS:
        raise UsageError(f"--for: {duration!r} is not possible", hint="1s to 5m")
    _check_load(load)
    interface = own_interface(vm, address)
    modes = ["no-net", *(mode for mode in HOLDING if mode != "net+bypass" or vm.bypass)]
    ways = ways_of(modes, _intervals_ns(interval))
    costs = rehearse(vm, ways, duration_ns / 1e9, _tell, load=load, interface=interface)
    if json:
        from stealtime.cli.output import print_document
        from stealtime.hosts.mode_costs_shown import costs_document

        print_document(costs_document(costs))
    else:
        show_costs(costs)
    raise typer.Exit(ExitCode.THRESHOLD if any(cost.figures is None for cost in costs) else ExitCode.FINE)


def costs_of_demonstration(accelerator: str) -> "list[ModeCost]":
    """Measure what each mode costs a guest that only computes."""
    from stealtime.hosts.mode_costs import ways_of
    from stealtime.hosts.rehearsing import demonstrated, rehearse

    _tell("what each mode costs a guest that only computes:")
    ways = ways_of(("no-net", "net"), _intervals_ns(_INTERVALS))
    return rehearse(demonstrated(accelerator), ways, (duration_of("--for", _FOR) or 0) / 1e9, _tell)


def _tell(text: str) -> None:
    from stealtime.cli.output import message_console

    message_console().print(text, markup=False, soft_wrap=True)


def show_costs(costs: "Sequence[ModeCost]") -> None:
    """Print what ways cost, with what is to be said of it."""
    import os

    from stealtime.cli.output import print_line, print_table
    from stealtime.hosts.mode_costs_shown import costs_remarks, costs_table

    print_table(costs_table(costs))
    for line in costs_remarks(costs, os.cpu_count() or 1):
        print_line(line)


def _intervals_ns(text: str) -> list[int]:
    from stealtime.protect.vm_file import SHORTEST_INTERVAL_NS
    from stealtime.vocabulary.quantities import format_duration

    found = []
    for one in text.split(","):
        interval_ns = duration_of("--interval", one.strip()) or 0
        if interval_ns < SHORTEST_INTERVAL_NS:
            raise UsageError(
                f"--interval: {one.strip()!r} is too short", hint=f"at least {format_duration(SHORTEST_INTERVAL_NS)}"
            )
        found.append(interval_ns)
    return found


def _check_load(load: str | None) -> None:
    import shutil

    if load is None:
        return
    try:
        words = shlex.split(load)
    except ValueError as error:
        raise UsageError(f"--load: {load!r} is no command: {error}", hint="close each quotation mark") from None
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--load: there is no program {words[0] if words else load!r}", hint="check its name")
