"""Detection of an emulated host, on which measured times mean nothing."""

from stealtime._core import hypervisor_signature
from stealtime.vocabulary.findings import Finding

EMULATED_SIGNATURE = "TCGTCGTCGTCG"
"""Of QEMU's TCG (``target/i386/cpu.c``)."""

EMULATED = "this host is itself emulated (QEMU's TCG), so KVM runs inside an emulated machine: times mean nothing"


def is_emulated() -> bool:
    """Tell whether QEMU's TCG translates what this host runs, KVM and its guests included."""
    return hypervisor_signature() == EMULATED_SIGNATURE


def findings() -> tuple[Finding, ...]:
    if not is_emulated():
        return ()
    return (Finding(code="emulated_host", level="limits", text=EMULATED),)
