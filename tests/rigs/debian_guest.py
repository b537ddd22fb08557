"""Guests of Debian's packages, as somebody else's virtual machines are: a kernel, programs, and nothing of ours."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fetched_programs import unpack_fetched

from stealtime.lab.image.debian_programs import (
    INTERPRETER,
    LIBRARIES,
    copy_into,
    libraries_of,
    resolve_packages,
    unpacked_file,
)
from stealtime.lab.image.initramfs import pack_initramfs
from stealtime.lab.image.kernel import find_kernel
from stealtime.lab.image.modules import ModuleWish

COMMAND_LINE = "console=ttyS0 quiet panic=-1"
BEGIN = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tracefs tracefs /sys/kernel/tracing
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
exec </dev/console >/dev/console 2>&1
while read -r module; do insmod "$module"; done </etc/stealtime/modules
ip link set lo up
"""
"""How the first program of each begins."""
_BUSYBOX = "bin/busybox"


@dataclass(frozen=True)
class DebianGuest:
    """What it boots from."""

    kernel: Path
    initramfs: Path


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a guest is made of.

    Attributes:
        what: The guest in words, for errors.
        kernel: As ``--kernel`` names it.
        modules: What its kernel needs besides.
        packages: Of Debian, whose dependencies come with them.
        programs: Paths in these packages; their libraries come with them.
        files: Others, by their path in the guest.
        then: What its first program does after it has begun; the guest ends with it.
    """

    what: str
    kernel: str
    modules: Sequence[str]
    packages: Sequence[str]
    programs: Sequence[str]
    files: Mapping[str, str]
    then: str


def debian_guest(folder: Path, content: Content) -> DebianGuest:
    """Make one in an empty folder.

    Raises:
        StealtimeError: The packages cannot be had.
    """
    what, tree = content.what, folder / "tree"
    packages = resolve_packages((*content.packages, "busybox-static"), what)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        unpacked = Path(name) / "unpacked"
        unpack_fetched(packages, unpacked, what)
        for program in (*content.programs, _BUSYBOX, INTERPRETER):
            copy_into(tree, program, unpacked_file(unpacked, program, what))
        for library, source in libraries_of([unpacked / one for one in content.programs], unpacked, what).items():
            copy_into(tree, f"{LIBRARIES}/{library}", source)
    for path, text in content.files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    init = folder / "init"
    init.write_text(f"{BEGIN}{content.then}")
    programs = {str(path.relative_to(tree)): path for path in tree.rglob("*") if path.is_file()}
    kernel = find_kernel(content.kernel)
    modules = [ModuleWish(name) for name in content.modules]
    return DebianGuest(kernel.boot_image, pack_initramfs(init, modules, kernel, programs=programs).path)
