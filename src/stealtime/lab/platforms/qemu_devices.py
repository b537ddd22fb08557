"""The command line of the devices that a campaign measures, and what QEMU lacks of them.

Behind a disk is a file without a name, which QEMU has as an inherited descriptor: nothing of it can be left over, even
where everything is killed at once.
"""

import functools
import os
import re
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.platforms.device_models import DeviceChoice, mark_of
from stealtime.vocabulary.errors import StealtimeError, UsageError

DISK_FOLDER = Path("/var/tmp")  # noqa: S108 - files without a name
"""Where the files behind disks are: on the host's disk, where ``/tmp`` may be in memory."""
_TIMEOUT_S = 20
_FILL_BYTES = 1 << 20
_NBD_PREFIX = "nbd"
_KNOWN_DEVICE = re.compile(r'^name "([^"]+)"(?:.*alias "([^"]+)")?', re.MULTILINE)


@dataclass(frozen=True)
class BackedDevice:
    """A device with what is behind it on the host."""

    choice: DeviceChoice
    descriptor: int | None = None
    """Of the file behind a disk, where there is one."""
    is_direct: bool = False
    """Whether that file can be read and written past the page cache."""


@functools.cache
def known_devices(program: str) -> frozenset[str]:
    """Ask QEMU which devices it has.

    Raises:
        StealtimeError: It cannot be asked.
    """
    try:
        done = subprocess.run(
            [program, "-device", "help"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise StealtimeError(f"{program} does not tell which devices it has: {error}") from error
    return parse_known_devices(done.stdout)


def parse_known_devices(said: str) -> frozenset[str]:
    """Read what ``qemu-system-x86_64 -device help`` prints: names and their other names."""
    return frozenset(name for match in _KNOWN_DEVICE.finditer(said) for name in match.groups() if name)


def refuse_lacking(choices: Sequence[DeviceChoice], known: Collection[str], program: str) -> None:
    """Raise UsageError where QEMU lacks what a device model needs."""
    for choice in choices:
        lacking = [name for name in choice.model.qemu_devices if name not in known]
        if lacking:
            raise UsageError(
                f"{program} has no {lacking[0]!r}, which the device model {choice.model.name!r} needs",
                hint="leave the model out, or install the QEMU package that has it (Debian: qemu-system-x86)",
            )


def back_devices(choices: Sequence[DeviceChoice], folder: Path, resources: ExitStack) -> list[BackedDevice]:
    """Make what is behind each device; leaving ``resources`` lets go of it.

    Args:
        choices: The devices.
        folder: On the file system that is measured, of all disks that are files.
        resources: Holds the files.

    Raises:
        StealtimeError: The file system has no room for a disk.
    """
    return [_back(choice, folder, resources) for choice in choices]


def _back(choice: DeviceChoice, folder: Path, resources: ExitStack) -> BackedDevice:
    if choice.model.kind != "disk" or choice.backing not in ("file", "memory"):
        return BackedDevice(choice)
    if choice.backing == "memory":
        descriptor = os.memfd_create(choice.model.serial)
        resources.callback(os.close, descriptor)
        _fill(descriptor, choice)
        return BackedDevice(choice, descriptor)
    file = resources.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115
    try:
        _fill(file.fileno(), choice)
    except OSError as error:
        raise StealtimeError(
            f"{folder} has no room for a disk of {choice.size_bytes >> 20} MiB: {error.strerror}",
            hint="free some space there, or use a smaller `size`",
        ) from error
    return BackedDevice(choice, file.fileno(), _can_be_direct(file.fileno()))


def _fill(descriptor: int, choice: DeviceChoice) -> None:
    """Write all of a disk: a hole, and room that was only reserved, would be answered without a disk."""
    for _ in range(choice.size_bytes // _FILL_BYTES):
        os.write(descriptor, bytes(_FILL_BYTES))
    os.pwrite(descriptor, mark_of(choice.model), 0)
    os.fsync(descriptor)


def _can_be_direct(descriptor: int) -> bool:
    try:
        os.close(os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC))
    except OSError:
        return False  # of memory (tmpfs before Linux 6.6), for one
    return True


def files_of(devices: Sequence[BackedDevice]) -> list[int]:
    """Give the descriptors that QEMU inherits."""
    return [device.descriptor for device in devices if device.descriptor is not None]


def device_arguments(devices: Sequence[BackedDevice]) -> list[str]:
    """Give QEMU's options for devices."""
    return [argument for place, device in enumerate(devices) for argument in _arguments(place, device)]


def _arguments(place: int, device: BackedDevice) -> list[str]:
    model, number = device.choice.model, f"st{place}"
    match model.name:
        case "virtio-net":
            return [*_user_network(number), "-device", f"virtio-net-pci,netdev={number},romfile="]
        case "e1000":
            return [*_user_network(number), "-device", f"e1000,netdev={number},romfile="]
        case "virtio-blk":
            own = ["-device", f"virtio-blk-pci,drive={number},serial={model.serial}"]
        case "virtio-scsi":
            own = ["-device", f"virtio-scsi-pci,id={number}c"]
            own += ["-device", f"scsi-hd,drive={number},bus={number}c.0,product={model.serial}"]
        case "ahci":
            own = ["-device", f"ich9-ahci,id={number}c"]
            own += ["-device", f"ide-hd,drive={number},bus={number}c.0,model={model.serial}"]
        case "ide":
            own = ["-device", f"piix3-ide,id={number}c"]
            own += ["-device", f"ide-hd,drive={number},bus={number}c.0,model={model.serial}"]
        case _:
            raise UsageError(
                f"a guest of QEMU cannot have the device model {model.name!r}",
                hint="see the models of each platform in docs/devices.md",
            )
    return [*_block(number, device), *own]


def _user_network(number: str) -> list[str]:
    return ["-netdev", f"user,id={number},restrict=on"]


def _block(number: str, device: BackedDevice) -> list[str]:
    backing = device.choice.backing
    if device.descriptor is not None:
        cache = "none" if device.is_direct else "writeback"
        # One thread of QEMU's pool for each request in flight: its system calls are what the host's trace shows.
        return [
            "-drive",
            f"if=none,id={number},file=/proc/self/fd/{device.descriptor},format=raw,cache={cache},aio=threads",
        ]
    if backing == "nothing":
        return ["-drive", f"if=none,id={number},driver=null-co,size={device.choice.size_bytes},read-zeroes=on"]
    if backing.startswith(_NBD_PREFIX):
        return ["-drive", f"if=none,id={number},file={backing.replace(',', ',,')},format=raw,cache=none"]
    raise UsageError(
        f"nothing known is behind a disk {backing!r}", hint="it is file, memory, nothing or nbd+unix:///?socket=PATH"
    )
