"""Which of Hyper-V's enlightenments a guest gets: those that this QEMU knows and this host's KVM can give.

QEMU ends at once if it is asked for one that KVM lacks, so KVM is asked first (``KVM_GET_SUPPORTED_HV_CPUID``, Linux
Documentation/virt/kvm/api.rst 4.118; of the system, Linux 5.11). The leaves of its answer are defined in Microsoft's
Hypervisor Top-Level Functional Specification; which bits each enlightenment needs, in QEMU's ``kvm_hyperv_properties``.
"""

import fcntl
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_FEATURES, _RECOMMENDATIONS = 0x4000_0003, 0x4000_0004
"""The leaf of what a guest may use, and that of what it is advised to use."""

_KVM_CHECK_EXTENSION = 0xAE03
_KVM_CAP_SYS_HYPERV_CPUID = 191
_KVM_GET_SUPPORTED_HV_CPUID = 0xC008_AEC1
"""``_IOWR(0xAE, 0xc1, struct kvm_cpuid2)``"""
_MOST_LEAVES = 64
_HEADER = struct.Struct("=II")
_LEAF = struct.Struct("=10I")
"""``struct kvm_cpuid_entry2``: function, index, flags, eax, ebx, ecx, edx, three of padding."""

Register = Literal["eax", "ebx", "ecx", "edx"]
Leaves = Mapping[int, Mapping[Register, int]]
"""What KVM answers, by function."""


@dataclass(frozen=True)
class Enlightenment:
    """One of them, as QEMU's option and as bits of CPUID."""

    name: str
    bits: tuple[tuple[int, Register, int], ...] = ()
    """Leaf, register and mask that KVM must have; none: KVM is not asked."""
    needs: tuple[str, ...] = ()
    """Others that QEMU refuses it without."""
    value: str = "on"
    for_hardware_interrupts: bool = False
    """Whether it only helps where the processor delivers interrupts to guests by itself (AVIC, APICv)."""

    @property
    def option(self) -> str:
        return f"{self.name}={self.value}"


ENLIGHTENMENTS = (
    Enlightenment("hv-relaxed", ((_RECOMMENDATIONS, "eax", 1 << 5),)),
    Enlightenment("hv-vapic", ((_FEATURES, "eax", 1 << 4),)),
    # So many spins before a guest tells the host are what Hyper-V itself offers.
    Enlightenment("hv-spinlocks", value="0x1fff"),
    Enlightenment("hv-vpindex", ((_FEATURES, "eax", 1 << 6),)),
    Enlightenment("hv-runtime", ((_FEATURES, "eax", 1 << 0),)),
    Enlightenment("hv-synic", ((_FEATURES, "eax", 1 << 2),), needs=("hv-vpindex",)),
    Enlightenment("hv-time", ((_FEATURES, "eax", 1 << 1 | 1 << 9),)),
    Enlightenment("hv-stimer", ((_FEATURES, "eax", 1 << 3),), needs=("hv-synic", "hv-time")),
    Enlightenment("hv-stimer-direct", ((_FEATURES, "edx", 1 << 19),), needs=("hv-stimer",)),
    Enlightenment("hv-frequencies", ((_FEATURES, "eax", 1 << 11), (_FEATURES, "edx", 1 << 8))),
    Enlightenment("hv-tlbflush", ((_RECOMMENDATIONS, "eax", 1 << 2 | 1 << 11),), needs=("hv-vpindex",)),
    Enlightenment("hv-tlbflush-ext", ((_FEATURES, "edx", 1 << 14),), needs=("hv-tlbflush",)),
    Enlightenment("hv-ipi", ((_RECOMMENDATIONS, "eax", 1 << 10 | 1 << 11),), needs=("hv-vpindex",)),
    Enlightenment("hv-xmm-input", ((_FEATURES, "edx", 1 << 4),)),
    # With hv-synic alone KVM turns the processor's own delivery of interrupts off, which would handicap this platform
    # beside `paravirt`; without such a processor it costs a guest exits (QEMU docs/system/i386/hyperv.rst, hv-avic).
    Enlightenment("hv-avic", ((_RECOMMENDATIONS, "eax", 1 << 9),), for_hardware_interrupts=True),
)
"""The set that QEMU ``docs/system/i386/hyperv.rst`` recommends, each after what it needs.

Left out: what only nested guests (evmcs, emsr-bitmap, tlbflush-direct), Windows crash reports (crash), migration
(reenlightenment) or a debugger (syndbg) use.
"""


@dataclass(frozen=True)
class HypervChoice:
    """What a guest gets, and what it does not."""

    options: tuple[str, ...]
    left_out: Mapping[str, str]
    """Name: reason."""


def choose(properties: frozenset[str], leaves: Leaves | None, *, hardware_interrupts: bool) -> HypervChoice:
    """Choose the enlightenments of a guest.

    Args:
        properties: The names of the properties that this QEMU's processors have.
        leaves: What KVM can give; None where it cannot be asked, then QEMU finds out.
        hardware_interrupts: Whether KVM uses AVIC or APICv here.
    """
    options: list[str] = []
    left_out: dict[str, str] = {}
    for one in ENLIGHTENMENTS:
        missing = [need for need in one.needs if need in left_out]
        if one.name not in properties:
            left_out[one.name] = "this QEMU does not know it"
        elif leaves is not None and not _has(leaves, one):
            left_out[one.name] = "this host's KVM does not have it"
        elif missing:
            left_out[one.name] = f"it needs {', '.join(missing)}"
        elif one.for_hardware_interrupts and not hardware_interrupts:
            left_out[one.name] = "KVM uses no AVIC or APICv here"
        else:
            options.append(one.option)
    return HypervChoice(tuple(options), left_out)


def _has(leaves: Leaves, one: Enlightenment) -> bool:
    return all(leaves.get(leaf, {}).get(register, 0) & mask == mask for leaf, register, mask in one.bits)


def supported_leaves(device: Path = Path("/dev/kvm")) -> Leaves | None:
    """Ask KVM which CPUID leaves of Hyper-V it can give; None where it cannot be asked (older than Linux 5.11)."""
    answer = bytearray(_HEADER.size + _MOST_LEAVES * _LEAF.size)
    _HEADER.pack_into(answer, 0, _MOST_LEAVES, 0)
    try:
        kvm = os.open(device, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if fcntl.ioctl(kvm, _KVM_CHECK_EXTENSION, _KVM_CAP_SYS_HYPERV_CPUID) <= 0:
            return None
        fcntl.ioctl(kvm, _KVM_GET_SUPPORTED_HV_CPUID, answer)
    except OSError:
        return None
    finally:
        os.close(kvm)
    return parse_leaves(bytes(answer))


def parse_leaves(answer: bytes) -> Leaves:
    count, _ = _HEADER.unpack_from(answer)
    leaves: dict[int, Mapping[Register, int]] = {}
    for row in range(count):
        function, _, _, eax, ebx, ecx, edx, *_ = _LEAF.unpack_from(answer, _HEADER.size + row * _LEAF.size)
        leaves[function] = {"eax": eax, "ebx": ebx, "ecx": ecx, "edx": edx}
    return leaves


def uses_hardware_interrupts(modules: Path = Path("/sys/module")) -> bool:
    """Tell whether KVM lets the processor deliver interrupts to guests: AVIC of AMD, APICv of Intel."""
    for parameter in ("kvm_amd/parameters/avic", "kvm_intel/parameters/enable_apicv"):
        try:
            if (modules / parameter).read_text().strip() in ("Y", "1"):
                return True
        except OSError:
            continue
    return False
