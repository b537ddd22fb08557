"""Which devices a protected machine may have, as ``crates/capture/src/devices.rs`` decides it again.

A device is allowed if all its state is saved with the others, it writes the guest's memory through QEMU's own page
tables only, and nothing leaves the guest through it. What is not known to be so is refused by name.
"""

import re

ALLOWED = ("virtio-rng-pci", "virtio-rng-pci-non-transitional", "i6300esb", "pvpanic", "pvpanic-pci")
"""The network card is not among them: there is exactly one, the one that is held, and it is always there."""

_DISK = "disks are not devices here; name them under [[disks]]"

_REASONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("vfio",), "a passed-through device writes memory that no page table shows, and its state stays in the hardware"),
    (("vhost",), "another process or the kernel writes the guest's memory, unseen by any tracker"),
    (("blk", "scsi", "nvme", "disk", "ide-", "usb-storage"), _DISK),
    (("net", "e1000", "rtl8139"), "a machine has exactly one network card, the one that is held"),
    (("serial", "console", "vsock", "fs", "9p"), "what leaves the guest through it would not be held"),
)
_OPTIONS = re.compile(r"(max-bytes|period|ioport|events)=(0x)?[0-9a-fA-F]+")
_UNKNOWN_OPTION = "of its options only numbers are known to be safe: max-bytes, period, ioport, events"
_UNKNOWN = "it is not known that all its state is saved and that nothing leaves the guest through it"


def reason_against(device: str) -> str | None:
    """Say why a device, as on QEMU's command line, cannot be protected; None if it can."""
    name, *options = (part.strip() for part in device.split(","))
    if any(option.startswith("drive=") for option in options):
        return _DISK
    if name in ALLOWED:
        return None if all(_OPTIONS.fullmatch(option) for option in options) else _UNKNOWN_OPTION
    return next((reason for parts, reason in _REASONS if any(part in name for part in parts)), _UNKNOWN)
