"""Which processes run a guest under KVM: those that hold descriptors of its virtual CPUs, whatever they are called.

KVM gives whoever makes a virtual CPU a descriptor that ``/proc/PID/fd`` shows as ``anon_inode:kvm-vcpu:N`` (Linux 4.16;
``kvm-vcpu`` alone before). QEMU, Firecracker, cloud-hypervisor, crosvm and kvmtool all have them, also under another
name or behind a wrapper. Only root and the process's own user may look.
"""

import os
import re

_VCPU = re.compile(r"anon_inode:\[?kvm-vcpu(:\d+)?\]?$")
"""Not ``kvm-vcpu-stats:N``, which tells of one. The kernel's version decides on the number and the brackets."""


def count_vcpus(proc: str, pid: int) -> int:
    """Count the virtual CPUs whose descriptors a process holds; 0 also where it may not be looked at.

    Args:
        proc: The kernel's ``/proc``.
        pid: Of the process.
    """
    try:
        names = os.listdir(f"{proc}/{pid}/fd")  # noqa: PTH208 - it is hot
    except OSError:
        return 0
    found = set()
    for name in names:
        try:
            shown = os.readlink(f"{proc}/{pid}/fd/{name}")  # noqa: PTH115 - it is hot
        except OSError:
            continue  # it was closed meanwhile
        if (vcpu := _VCPU.match(shown)) is not None:
            # A descriptor that was duplicated is the same virtual CPU.
            found.add(vcpu[1] or name)
    return len(found)
