"""The models of disks and network cards that machines can have, and what a guest's kernel needs to drive them. Pure.

*Emulated* models are copies of real hardware, whose registers the guest touches one by one; *paravirtual* ones were
made for virtual machines: the guest leaves requests in memory and notifies once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from stealtime.lab.image.modules import ModuleWish
from stealtime.vocabulary.errors import UsageError

Kind = Literal["disk", "network"]

SERIAL_PREFIX = "st-"
"""By this and its model's name a guest tells a disk of ours from any other one; SCSI has room for 16 letters."""
_MARK = b"stealtime-disk\0\0"
"""With it a disk of ours begins, and allows to be written (``crates/probe/src/disk/mark.rs``); the name follows."""
_NAME_BYTES = 32


@dataclass(frozen=True)
class DeviceModel:
    """A kind of disk or network card."""

    name: str
    kind: Kind
    description: str
    is_emulated: bool
    """Whether it copies real hardware."""
    qemu_devices: tuple[str, ...] = ()
    """The names by which QEMU's ``-device`` must know all that it takes."""
    modules: tuple[str, ...] = ()
    """Of the guest's kernel."""

    @property
    def serial(self) -> str:
        """What a guest reads as the disk's name."""
        return f"{SERIAL_PREFIX}{self.name}"


@dataclass(frozen=True)
class DeviceChoice:
    """A device that a machine is to have beside its own."""

    model: DeviceModel
    backing: str = "file"
    """What is behind a disk on the host: ``file`` (unnamed, read and written with O_DIRECT where its file system can),
    ``memory`` (an unnamed file in memory), ``nothing`` (requests are answered at once), or the URI of a server of the
    network block device protocol (``nbd+unix:///?socket=PATH``)."""
    size_bytes: int = 64 << 20
    """Of a disk, all of it written before a guest boots: what was never written a file system answers without a disk.
    """


_ATA = "an ATA disk at an emulated controller"
DEVICE_MODELS: Mapping[str, DeviceModel] = {
    model.name: model
    for model in (
        DeviceModel("file", "disk", "a file of the host, without a virtual machine", is_emulated=False),
        DeviceModel("own", "disk", "a disk that the machine has, whatever it is", is_emulated=False),
        DeviceModel("ubd", "disk", "User-Mode Linux's block device", is_emulated=False),
        DeviceModel(
            "virtio-blk",
            "disk",
            "the paravirtual block device",
            is_emulated=False,
            qemu_devices=("virtio-blk-pci",),
            modules=("virtio_pci", "virtio_blk"),
        ),
        DeviceModel(
            "virtio-scsi",
            "disk",
            "a SCSI disk at the paravirtual controller",
            is_emulated=False,
            qemu_devices=("virtio-scsi-pci", "scsi-hd"),
            modules=("virtio_pci", "virtio_scsi", "sd_mod"),
        ),
        DeviceModel(
            "ahci",
            "disk",
            f"{_ATA} (AHCI)",
            is_emulated=True,
            qemu_devices=("ich9-ahci", "ide-hd"),
            modules=("ahci", "sd_mod"),
        ),
        DeviceModel(
            "ide",
            "disk",
            f"{_ATA} (PIIX3, IDE)",
            is_emulated=True,
            qemu_devices=("piix3-ide", "ide-hd"),
            modules=("ata_piix", "sd_mod"),
        ),
        DeviceModel(
            "virtio-net",
            "network",
            "the paravirtual network card",
            is_emulated=False,
            qemu_devices=("virtio-net-pci",),
            modules=("virtio_pci", "virtio_net"),
        ),
        DeviceModel(
            "e1000",
            "network",
            "an emulated Intel 82540EM",
            is_emulated=True,
            qemu_devices=("e1000",),
            modules=("e1000",),
        ),
    )
}
"""By name, natively first, then from paravirtual to emulated: the order of tables."""


QEMU_MODELS = tuple(name for name, model in DEVICE_MODELS.items() if model.qemu_devices)


def mark_of(model: DeviceModel) -> bytes:
    """Give the first bytes of a disk of that model."""
    return _MARK + model.name.encode().ljust(_NAME_BYTES, b"\0")


def find_model(name: str) -> DeviceModel:
    """Give the model of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in DEVICE_MODELS:
        raise UsageError(f"there is no device model {name!r}", hint=f"the models are {', '.join(DEVICE_MODELS)}")
    return DEVICE_MODELS[name]


def module_wishes(choices: Iterable[DeviceChoice]) -> tuple[ModuleWish, ...]:
    """Give the modules that a guest needs for devices; without one it could not be measured."""
    names = dict.fromkeys(name for choice in choices for name in choice.model.modules)
    return tuple(ModuleWish(name) for name in names)
