"""From a ``VM.toml`` to the machine that every host must build alike: images, their hashes, the versioned type."""

import functools
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from stealtime.lab.image.cache import remembered_hash
from stealtime.lab.image.initramfs import Initramfs, pack_initramfs
from stealtime.lab.image.kernel import Kernel, find_kernel
from stealtime.lab.image.modules import ModuleWish
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.qemu_program import INSTALL_HINT, find_qemu, qemu_version
from stealtime.protect.disks import DiskBus
from stealtime.protect.specification import ImageSpec, MachineSpec, machine_spec
from stealtime.protect.vm_file import BOOTS_ITSELF, VmFile
from stealtime.vocabulary.errors import StealtimeError, UsageError

_MACHINE_LINE = re.compile(r"^(?P<name>\S+)\s+.*?(?:\(alias of (?P<target>\S+)\))?(?: \((?:default|deprecated)\))?$")
_VERSIONED = re.compile(r"-\d+\.\d+$")

_GUEST_MODULES = (ModuleWish("virtio_pci"), ModuleWish("virtio_net"), ModuleWish("virtio_rng", required=False))
_DISK_MODULES: dict[DiskBus, tuple[ModuleWish, ...]] = {
    "virtio": (ModuleWish("virtio_blk"),),
    "scsi": (ModuleWish("virtio_scsi"), ModuleWish("sd_mod")),
}

SHOWN_QEMUS = ("7.2", "10.0", "11.1")
"""The releases with which failovers were shown (``tests/protect/test_newer_qemus.py``)."""

_ROOM_BESIDE_IMAGES_BYTES = 24 << 20
"""What a guest needs beside kernel and initramfs to come up; Debian's cloud kernel does with it."""


def resolve_machine(vm: VmFile) -> MachineSpec:
    """Find QEMU, the images and the machine type that a VM's file names; fetches and packs what is missing.

    Raises:
        UsageError: The file asks for what this host does not have.
        StealtimeError: QEMU, the agent or a kernel cannot be had.
    """
    program = find_qemu()
    _check_release(qemu_version(program), vm)
    machine = versioned_machine(vm.machine, machine_types(program))
    if vm.kernel == BOOTS_ITSELF:
        return machine_spec(vm, machine, None, None, "")
    kernel = find_kernel(vm.kernel)
    kernel_image = ImageSpec(path=kernel.boot_image.absolute(), sha256=_hash(kernel.boot_image))
    initramfs = _initramfs(vm, kernel)
    needed = sum(image.path.stat().st_size for image in (kernel_image, initramfs)) + _ROOM_BESIDE_IMAGES_BYTES
    if vm.memory_bytes < needed:
        raise UsageError(
            f"{vm.memory_bytes >> 20} MiB of memory are too little for this kernel and initramfs",
            hint=f'they are loaded whole: give memory = "{-(-needed >> 20)}MiB" or more',
        )
    return machine_spec(vm, machine, kernel_image, initramfs, " ".join(kernel_arguments(vm)))


def kernel_arguments(vm: VmFile) -> list[str]:
    arguments = ["console=ttyS0", "quiet", "panic=-1", "cryptomgr.notests"]
    if vm.accelerator == "tcg":
        # A busy host makes the guest's watchdog doubt TCG's counter, and its boot the timer (see
        # platforms.qemu_arguments); a guest that is stopped ten times a second even more so.
        arguments += ["tsc=reliable", "no_timer_check"]
    if vm.network.address is not None:
        arguments.append(f"stealtime.address={vm.network.address}")
    if vm.network.gateway is not None:
        arguments.append(f"stealtime.gateway={vm.network.gateway}")
    if vm.program is not None:
        arguments.append(run_argument(vm.program, vm.program_arguments))
    return [*arguments, *vm.kernel_arguments.split()]


def run_argument(program: str, arguments: Iterable[str]) -> str:
    """Give the kernel's argument by which a guest with the agent runs a program."""
    return f"stealtime.run={','.join((program, *arguments))}"


def _check_release(version: str, vm: VmFile) -> None:
    """Refuse a QEMU with which no failover was shown, unless its release is allowed by name.

    Raises:
        UsageError: It is one.
    """
    release = ".".join(version.split()[0].split(".")[:2])
    if release not in (*SHOWN_QEMUS, vm.allow_qemu):
        raise UsageError(
            f"failovers were shown with QEMU {', '.join(SHOWN_QEMUS)}, and this host has {version}",
            hint=f'install one of these, or give allow_qemu = "{release}" and try a failover before you rely on it',
        )


def pack_agent(kernel: Kernel, buses: Iterable[DiskBus] = ()) -> Initramfs:
    """Give the initramfs of a guest that names no other: the agent, and what the kernel needs for QEMU's devices.

    Args:
        kernel: The guest's.
        buses: Those of its disks.

    Raises:
        StealtimeError: It cannot be packed.
    """
    wishes = (wish for bus in sorted(set(buses)) for wish in _DISK_MODULES[bus])
    return pack_initramfs(find_agent(), (*_GUEST_MODULES, *wishes), kernel)


@functools.cache
def machine_types(program: str) -> dict[str, str | None]:
    """Ask a QEMU binary for its machine types.

    Returns:
        By name: what the alias stands for, or None if it is not an alias.

    Raises:
        StealtimeError: It cannot be asked.
    """
    try:
        done = subprocess.run([program, "-machine", "help"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise StealtimeError(f"{program} does not tell its machine types: {error}", hint=INSTALL_HINT) from error
    return parse_machine_types(done.stdout)


def parse_machine_types(said: str) -> dict[str, str | None]:
    """Read what ``qemu-system-x86_64 -machine help`` prints."""
    types: dict[str, str | None] = {}
    for line in said.splitlines()[1:]:
        if match := _MACHINE_LINE.match(line.strip()):
            types[match["name"]] = match["target"]
    return types


def versioned_machine(wanted: str, types: dict[str, str | None]) -> str:
    """Give the versioned machine type that a name stands for.

    Raises:
        UsageError: There is none, or it has no version and would be another machine in another QEMU.
    """
    if wanted not in types:
        families = sorted({name for name, target in types.items() if target is not None})
        raise UsageError(
            f"this QEMU has no machine type {wanted!r}", hint=f"use {' or '.join(families)}, or a type with a version"
        )
    name = types[wanted] or wanted
    if not _VERSIONED.search(name):
        raise UsageError(
            f"the machine type {name!r} has no version, so that two hosts could build two machines of it",
            hint='use machine = "pc" or "q35", which stand for versioned types',
        )
    return name


def _initramfs(vm: VmFile, kernel: Kernel) -> ImageSpec:
    if vm.initramfs is None:
        packed = pack_agent(kernel, (disk.bus for disk in vm.disks))
        return ImageSpec(path=packed.path, sha256=packed.sha256)
    try:
        return ImageSpec(path=vm.initramfs, sha256=remembered_hash(vm.initramfs))
    except OSError as error:
        message = f"the initramfs {vm.initramfs} cannot be read: {error.strerror}"
        raise UsageError(message, hint="check its name in the VM file, and that you may read it") from error


def _hash(path: Path) -> str:
    try:
        return remembered_hash(path)
    except OSError as error:
        raise StealtimeError(f"the kernel {path} cannot be read: {error.strerror}") from error
