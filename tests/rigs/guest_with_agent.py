"""A guest with QEMU's guest agent and a shell, as somebody else's virtual machine has them, and nothing of ours."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.image.debian_programs import (
    INTERPRETER,
    LIBRARIES,
    copy_into,
    libraries_of,
    resolve_packages,
    unpack_packages,
    unpacked_file,
)
from stealtime.lab.image.initramfs import pack_initramfs
from stealtime.lab.image.kernel import find_kernel
from stealtime.lab.image.modules import ModuleWish

PORT = "org.qemu.guest_agent.0"
"""The channel's name, by which QEMU's guest agent finds it."""
COMMAND_LINE = "console=ttyS0 quiet panic=-1"
_AGENT = "usr/sbin/qemu-ga"
_BUSYBOX = "bin/busybox"
_WHAT = "the guest with QEMU's guest agent"
_MODULES = (ModuleWish("virtio_pci"), ModuleWish("virtio_console"))

_INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tracefs tracefs /sys/kernel/tracing
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
exec </dev/console >/dev/console 2>&1
while read -r module; do insmod "$module"; done </etc/stealtime/modules
ip link set lo up
# udev makes this name elsewhere.
mkdir -p /dev/virtio-ports
for port in /sys/class/virtio-ports/*; do ln -s "/dev/${{port##*/}}" "/dev/virtio-ports/$(cat "$port/name")"; done
/{_AGENT} --method virtio-serial --path /dev/virtio-ports/{PORT} --statedir /tmp
poweroff -f
"""


@dataclass(frozen=True)
class GuestWithAgent:
    """What it boots from."""

    kernel: Path
    initramfs: Path


def guest_with_agent(folder: Path) -> GuestWithAgent:
    """Make one of Debian's packages.

    Args:
        folder: An empty one.

    Raises:
        StealtimeError: The packages cannot be had.
    """
    packages = resolve_packages(("qemu-guest-agent", "busybox-static"), _WHAT)
    tree = folder / "tree"
    with tempfile.TemporaryDirectory(dir=folder) as name:
        unpacked = Path(name) / "unpacked"
        unpack_packages(packages, unpacked, _WHAT)
        for program in (_AGENT, _BUSYBOX, INTERPRETER):
            copy_into(tree, program, unpacked_file(unpacked, program, _WHAT))
        for library, source in libraries_of([unpacked / _AGENT], unpacked, _WHAT).items():
            copy_into(tree, f"{LIBRARIES}/{library}", source)
    init = folder / "init"
    init.write_text(_INIT)
    programs = {str(path.relative_to(tree)): path for path in tree.rglob("*") if path.is_file()}
    kernel = find_kernel("cloud")
    return GuestWithAgent(kernel.boot_image, pack_initramfs(init, _MODULES, kernel, programs=programs).path)
