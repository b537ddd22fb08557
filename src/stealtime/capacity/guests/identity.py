"""Who a guest is to whoever started it: its name, UUID and number there, from QEMU's command line.

No manager is asked: each of them tells QEMU (libvirt's ``-uuid``, Nova's and KubeVirt's ``-smbios type=1``, Proxmox's
``-id``). The name that Nova shows to users is not among it; its UUID is.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stealtime.capacity.guest import Guest
from stealtime.capacity.guests.command_line import presentable

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")


@dataclass(frozen=True)
class Identity:
    """Empty where the command line does not tell."""

    name: str = ""
    uuid: str = ""
    """In lower case."""
    manager: str = ""
    """``nova``, ``kubevirt``, ``proxmox`` or ``libvirt``."""
    number: str = ""
    """Proxmox's VMID."""


def read_identity(argv: Sequence[str]) -> Identity:
    """Give who a guest is.

    Args:
        argv: Its QEMU's command line; that of User-Mode Linux tells its ``umid`` only.
    """
    options = list(_options(argv))
    system = _system(options)
    uuid = next((value for option, value in options if option == "uuid"), "") or system.get("uuid", "")
    manager, number = _manager(options, system)
    name = _name(options) or next((word[5:] for word in argv if word.startswith("umid=")), "")
    if manager == "kubevirt":
        # virt-launcher calls the domain NAMESPACE_NAME; neither may hold an underscore.
        name = name.replace("_", "/", 1)
    return Identity(presentable(name), uuid.lower() if _UUID.match(uuid) else "", manager, presentable(number))


def identity_of(guest: Guest, proc: Path = Path("/proc")) -> Identity:
    """Read who a guest is from its process; one that ended meanwhile has its name."""
    try:
        text = (proc / str(guest.pid) / "cmdline").read_bytes()
    except OSError:
        return Identity(guest.name)
    return read_identity(text.decode("utf-8", "replace").rstrip("\0").split("\0"))


def _manager(options: Sequence[tuple[str, str]], system: dict[str, str]) -> tuple[str, str]:
    if system.get("product") == "OpenStack Nova":
        return "nova", ""
    if "KubeVirt" in (system.get("manufacturer"), system.get("family")):
        return "kubevirt", ""
    number = next((value for option, value in options if option == "id" and value.isdigit()), None)
    if number is not None:
        return "proxmox", number
    # libvirt gives each QEMU a secret of this name (since 1.3.2).
    is_libvirt = any(option == "object" and "masterKey0" in value for option, value in options)
    return ("libvirt" if is_libvirt else ""), ""


def _system(options: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Give what ``-smbios type=1`` says of the machine; QEMU joins several of them."""
    system: dict[str, str] = {}
    for option, value in options:
        pieces = _pieces(value)
        if option == "smbios" and "type=1" in pieces:
            system |= dict(piece.split("=", 1) for piece in pieces if "=" in piece)
    return system


def _name(options: Sequence[tuple[str, str]]) -> str:
    pieces = _pieces(next((value for option, value in options if option == "name"), ""))
    named = next((piece[6:] for piece in pieces if piece.startswith("guest=")), None)
    return named if named is not None else pieces[0] if "=" not in pieces[0] else ""


def _options(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    for position, word in enumerate(argv[:-1]):
        if word.startswith("-"):
            yield word.lstrip("-"), argv[position + 1]


def _pieces(value: str) -> list[str]:
    """Split at commas; a doubled one is part of a value."""
    return [piece.replace("\0", ",") for piece in value.replace(",,", "\0").split(",")]
