"""``stealtime protect describe``: a machine of libvirt or Proxmox as a ``VM.toml``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from stealtime.cli.protect_machine import Bridge, Source, import_machine
from stealtime.vocabulary.errors import StealtimeError, UsageError


def describe(
    machine: Annotated[
        str,
        typer.Argument(
            metavar="KIND:FILE",
            help="libvirt:DOMAIN.xml (`virsh dumpxml`), or qemu:FILE with a command line of QEMU (`qm showcmd ID`).",
            show_default=False,
        ),
    ],
    bridge: Bridge = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write it there, which must not exist.  [default: print it]"
        ),
    ] = None,
) -> None:
    """Describe a machine of libvirt or Proxmox as a VM.toml, for example for systemd.

    What of it is replaced or dropped is told, also at its head. What cannot be protected is refused by name.
    Nothing is started. The standby hosts are still to be named in it:

        stealtime protect describe libvirt:web.xml -o /etc/stealtime/vms/web.toml

    Exit codes: 0 it is written; 1 it cannot be; 2 it is none, or cannot be protected.
    """
    from stealtime.cli.output import message_console

    imported = import_machine(*Source(None, machine).kind_and_file(), bridge)
    if output is None:
        sys.stdout.write(imported.text())
        return
    for remark in imported.remarks:
        message_console().print(remark, style="yellow", markup=False, soft_wrap=True)
    try:
        with output.open("x") as file:
            file.write(imported.text())
    except FileExistsError:
        raise UsageError(f"-o {output}: it is there already", hint="name a file that does not exist") from None
    except OSError as error:
        raise StealtimeError(f"{output} cannot be written: {error.strerror}", hint="name another file") from error
