"""A guest with QEMU's guest agent and a shell."""

from pathlib import Path

from debian_guest import Content, DebianGuest, debian_guest

PORT = "org.qemu.guest_agent.0"
"""The channel's name, by which QEMU's guest agent finds it."""
_AGENT = "usr/sbin/qemu-ga"


def guest_with_agent(folder: Path) -> DebianGuest:
    """Make one in an empty folder.

    Raises:
        StealtimeError: Debian's packages cannot be had.
    """
    return debian_guest(
        folder,
        Content(
            what="the guest with QEMU's guest agent",
            kernel="cloud",
            modules=("virtio_pci", "virtio_console"),
            packages=("qemu-guest-agent",),
            programs=(_AGENT,),
            files={},
            # udev makes names of ports elsewhere.
            then=f"""
mkdir -p /dev/virtio-ports
for port in /sys/class/virtio-ports/*; do ln -s "/dev/${{port##*/}}" "/dev/virtio-ports/$(cat "$port/name")"; done
/{_AGENT} --method virtio-serial --path /dev/virtio-ports/{PORT} --statedir /tmp
poweroff -f
""",
        ),
    )
