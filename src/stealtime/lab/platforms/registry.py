"""All platforms by name."""

import difflib

from stealtime.lab.platforms.model import Platform
from stealtime.lab.platforms.native import NativePlatform
from stealtime.lab.platforms.qemu import QemuPlatform
from stealtime.lab.platforms.qemu_flavour import FLAVOURS
from stealtime.lab.platforms.ssh_name import SSH_PREFIX
from stealtime.lab.platforms.uml import UmlPlatform
from stealtime.vocabulary.errors import UsageError


def all_platforms() -> list[Platform]:
    """Give the platforms of this host, ``native`` first; those over ssh must be named."""
    return [NativePlatform(), UmlPlatform(), *(QemuPlatform(flavour) for flavour in FLAVOURS)]


def find(name: str) -> Platform:
    """Give the platform of a name: one of ``all_platforms()`` or ``ssh:[user@]host[:port]``.

    Raises:
        UsageError: There is none of that name.
    """
    if name.startswith(SSH_PREFIX):
        # asyncssh takes about half a second to import; most runs never need it.
        from stealtime.lab.platforms.ssh import SshPlatform

        return SshPlatform.parse(name)
    platforms = {platform.name: platform for platform in all_platforms()}
    if name in platforms:
        return platforms[name]
    close = difflib.get_close_matches(name, platforms, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    raise UsageError(
        f"there is no platform {name!r}",
        hint=f"{suggestion}the platforms are {', '.join(platforms)} and ssh:[user@]host[:port]",
    )
