"""Which machine a command of ``stealtime protect`` is about: its file, and what the command line changes."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.vocabulary.errors import UsageError

if TYPE_CHECKING:
    from stealtime.protect.importing import Imported
    from stealtime.protect.session import Choices
    from stealtime.protect.vm_file import VmFile

MachineFile = Annotated[
    Path | None,
    typer.Argument(metavar="[VM.toml]", help="Describes the machine and its protection.", show_default=False),
]
FromLibvirt = Annotated[
    bool,
    typer.Option(
        "--from-libvirt", help="The file is no VM.toml but a domain of libvirt, as `virsh dumpxml` prints it."
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="KIND:FILE",
        help="Instead of VM.toml: libvirt:DOMAIN.xml (`virsh dumpxml`), or qemu:FILE with a command line of QEMU "
        "(Proxmox: `qm showcmd ID`).",
    ),
]
Bridge = Annotated[
    str | None, typer.Option("--bridge", metavar="NAME", help="The bridge of the guest's network card, instead.")
]
HostName = Annotated[
    str | None,
    typer.Option("--host", metavar="NAME", help="This host's name in the register.  [default: its hostname]"),
]
Destinations = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="HOST",
        help="Standby host: a name from VM.toml, NAME=ENDPOINT, HOST[:PORT], or local; repeatable.",
    ),
]


@dataclass(frozen=True)
class Source:
    """Where a machine is described: by one of these.

    Attributes:
        file: What was given as ``VM.toml``.
        from_: What was given as ``--from``.
        from_libvirt: Whether the file is a domain of libvirt.
    """

    file: Path | None
    from_: str | None = None
    from_libvirt: bool = False

    def kind_and_file(self) -> tuple[str, Path]:
        """Give ``vm``, ``libvirt`` or ``qemu``, and the file.

        Raises:
            UsageError: None is named, or two are.
        """
        if (self.file is None) == (self.from_ is None):
            raise UsageError("name one machine", hint=f"VM.toml, or --from {_KINDS}")
        if self.file is not None:
            return ("libvirt" if self.from_libvirt else "vm"), self.file
        kind, is_given, name = str(self.from_).partition(":")
        if kind not in ("libvirt", "qemu") or not is_given or not name:
            raise UsageError(f"--from: {self.from_!r} is no description of a machine", hint=_KINDS)
        return kind, Path(name)


_KINDS = "libvirt:DOMAIN.xml or qemu:FILE"


def read_machine(source: Source, choices: "Choices") -> "VmFile":
    """Give the machine of a file as the command line has it; what of it is replaced or dropped is told.

    Raises:
        UsageError: The file or a choice is wrong.
    """
    from stealtime.protect import session

    kind, file = source.kind_and_file()
    if kind == "vm":
        from stealtime.protect.vm_file import read_vm_file

        return session.apply_choices(read_vm_file(file), choices)
    from stealtime.cli.output import message_console

    imported = import_machine(kind, file, choices.bridge)
    for remark in imported.remarks:
        message_console().print(remark, style="yellow", markup=False, soft_wrap=True)
    return session.apply_choices(imported.vm, choices)


def import_machine(kind: str, file: Path, bridge: str | None) -> "Imported":
    """Read a machine of ``libvirt`` or ``qemu``.

    Raises:
        UsageError: It has what cannot be protected.
    """
    if kind == "qemu":
        from stealtime.protect.qemu_command import read_command

        return read_command(file, bridge)
    from stealtime.protect.libvirt_domain import read_domain

    return read_domain(file, bridge)
