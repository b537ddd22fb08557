"""The five ways in which QEMU shows a PC to its guest.

*emulated*: what a PC of the turn of the century had, nothing that knows of virtualization: i440FX board, PIIX IDE,
e1000, 16550 serial lines, interrupts by the 8259 PIC, time by the 8254 PIT and the ACPI power-management timer (no
HPET, no local-APIC timer, no I/O APIC). *paravirt*: the q35 board with virtio devices; the local-APIC timer and the
TSC, and under KVM kvmclock and its other paravirtual features. *hyperv*: the same devices, but the processor offers
Microsoft's enlightenments instead of KVM's: the modern form of what the Hyper-V papers compared.
"""

from dataclasses import dataclass
from typing import Literal

from stealtime.lab.image.modules import ModuleWish

Accelerator = Literal["tcg", "kvm"]
Style = Literal["emulated", "paravirt", "hyperv"]


@dataclass(frozen=True)
class QemuFlavour:
    """One of the ways, under one accelerator."""

    accelerator: Accelerator
    style: Style

    @property
    def name(self) -> str:
        return f"qemu-{self.accelerator}-{self.style}"

    @property
    def has_bulk_disk(self) -> bool:
        """Whether tables leave the guest over an IDE disk, because its serial line is too slow for them."""
        return self.style == "emulated"

    @property
    def trusts_host_tsc(self) -> bool:
        """Whether the guest's clock is the host's time-stamp counter, at the host's rate."""
        return self.accelerator == "tcg" and self.style != "emulated"

    @property
    def modules(self) -> tuple[ModuleWish, ...]:
        return _EMULATED_MODULES if self.style == "emulated" else _VIRTIO_MODULES


_EMULATED_MODULES = (
    ModuleWish("ata_piix"),
    ModuleWish("sd_mod"),
    # The cloud kernel has no e1000.
    ModuleWish("e1000", required=False),
)

_VIRTIO_MODULES = (
    ModuleWish("virtio_pci"),
    ModuleWish("virtio_console"),
    ModuleWish("virtio_net", required=False),
    ModuleWish("virtio_rng", required=False),
)

FLAVOURS = (
    QemuFlavour("tcg", "emulated"),
    QemuFlavour("tcg", "paravirt"),
    QemuFlavour("kvm", "emulated"),
    QemuFlavour("kvm", "paravirt"),
    QemuFlavour("kvm", "hyperv"),
)


def paravirtual_accelerator(platform: str) -> Accelerator | None:
    """Give the accelerator of a paravirtual QEMU, by the platform's name; None for any other platform."""
    return next((one.accelerator for one in FLAVOURS if (one.name, one.style) == (platform, "paravirt")), None)
