"""``stealtime protect doctor``: what would keep a machine from being started and protected."""

from typing import TYPE_CHECKING

import typer

from stealtime.cli.parameters import AsJson
from stealtime.cli.protect_machine import (
    Bridge,
    Destinations,
    From,
    FromLibvirt,
    HostName,
    MachineFile,
    Source,
    read_machine,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stealtime.protect.checking import StartCheck


def doctor(
    file: MachineFile = None,
    to: Destinations = None,
    from_: From = None,
    from_libvirt: FromLibvirt = False,
    bridge: Bridge = None,
    host: HostName = None,
    json: AsJson = False,
) -> None:
    """Tell what would keep a machine from being started here and protected. Nothing is started or changed.

    It looks at the machine's files, disks and memory, at the register, and asks each standby host whether it would take
    the machine: whether its QEMU can load the state, and whether it has the memory, the files and the room for disks.

    Exit codes: 0 nothing would be refused; 2 the file is wrong; 3 something would be refused; 4 something cannot be
    said before the start.
    """
    from stealtime.cli.output import message_console, print_document, print_table
    from stealtime.protect.checking import check_machine
    from stealtime.protect.session import LOCAL, Choices
    from stealtime.protect.state import default_state, this_host

    vm = read_machine(Source(file, from_, from_libvirt), Choices(to=tuple(to or ()), bridge=bridge))
    with message_console().status(f"looking at {vm.name}"):
        document = check_machine(vm, default_state(), host or this_host(), is_local=LOCAL in (to or ()))
    if json:
        print_document(document)
    else:
        print_table(_table(document.checks))
    raise typer.Exit(document.exit_code)


def _table(checks: "tuple[StartCheck, ...]") -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    styles = {"fine": "green", "refused": "bold red", "not-judged": "yellow"}
    table = Table.grid(padding=(0, 2))
    for overflow in ("ignore", "ignore", "fold"):
        table.add_column(no_wrap=overflow == "ignore", overflow=overflow)
    for check in checks:
        text = Text(check.text)
        if check.hint is not None:
            text.append("\nhint: ", style="bold").append(check.hint)
        table.add_row(Text(check.state.replace("-", " "), style=styles[check.state]), Text(check.subject), text)
    return table
