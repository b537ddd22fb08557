"""What is checked, by name: this machine, one over ssh, a guest by QEMU's guest agent."""

from pathlib import Path

from stealtime.check.place import Place
from stealtime.vocabulary.errors import UsageError

HERE = "here"
_SSH = "ssh:"
_LIBVIRT = "libvirt:"
_SOCKET = "guest-agent:"
_HINT = "write here, ssh:[user@]host[:port], libvirt:DOMAIN or guest-agent:SOCKET"


def place_of(target: str) -> Place:
    """Give the place of a target; nothing is connected yet.

    Raises:
        UsageError: There is no such kind of target.
    """
    if target == HERE:
        from stealtime.check.here import ThisMachine

        return ThisMachine()
    if target.startswith(_SSH):
        from stealtime.check.over_ssh import SshMachine
        from stealtime.lab.platforms.ssh import SshPlatform

        return SshMachine(SshPlatform.parse(target))
    if domain := target.removeprefix(_LIBVIRT) if target.startswith(_LIBVIRT) else "":
        from stealtime.check.channels import Virsh
        from stealtime.check.guest_agent import Guest

        return Guest(Virsh(domain))
    if path := target.removeprefix(_SOCKET) if target.startswith(_SOCKET) else "":
        from stealtime.check.channels import SocketOfGuest
        from stealtime.check.guest_agent import Guest

        return Guest(SocketOfGuest(Path(path)))
    raise UsageError(f"the target {target!r} is of no known kind", hint=_HINT)
