"""Which of a guest's threads is a virtual CPU; pure.

QEMU names its threads where it is told to (``-name NAME,debug-threads=on``, which libvirt always says):
``CPU 0/KVM``, ``CPU 1/TCG``, ``IO iothread1``, ``worker``. Without names QEMU is asked over QMP, where it has a
monitor that is free. What is left is that a virtual CPU under KVM has time of a guest (field 43 of its ``stat``) or
waits inside KVM (its ``syscall``, for root); under TCG nothing tells them apart.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from stealtime.capacity.guest import GuestThread, Role

NAMELESS_HINT = (
    "start QEMU with -name NAME,debug-threads=on, as libvirt does, or with -qmp unix:PATH,server=on,wait=off"
)
UNSEEN_HINT = "it does not name their threads, and only root sees which of them run a guest"
_VCPU = re.compile(r"CPU (\d+)/(\w+)|(?:fc_|crosvm_|kvm-)?vcpu[ _-]?(\d+)$")
"""QEMU; Firecracker ``fc_vcpu 0``, crosvm ``crosvm_vcpu0``, kvmtool ``kvm-vcpu-0``, cloud-hypervisor ``vcpu0``."""
_ALL_VCPUS = "ALL CPUs/TCG"
"""TCG with one thread for all virtual CPUs (``-accel tcg,thread=single``)."""
_IO = re.compile(r"IO |worker$|vhost-|iou-wrk-|iothread")


def roles_by_name(names: Mapping[int, str]) -> list[GuestThread]:
    """Give the role of each thread by its name.

    Args:
        names: By thread id, as ``comm`` has them.

    Returns:
        One entry for each thread; none of them a virtual CPU where the program does not name its threads.
    """
    threads = []
    for tid, name in names.items():
        if found := _VCPU.match(name):
            threads.append(GuestThread(tid, "vcpu", int(found[1] or found[3])))
        elif name == _ALL_VCPUS:
            threads.append(GuestThread(tid, "vcpu", 0))
        else:
            role: Role = "io" if _IO.match(name) else "emulator"
            threads.append(GuestThread(tid, role))
    return threads


def roles_by_monitor(tids: Sequence[int], vcpus: Sequence[int]) -> list[GuestThread]:
    """Give the role of each thread of a QEMU that told over QMP which are its virtual CPUs.

    Args:
        tids: Of all threads.
        vcpus: Those of the virtual CPUs, in their order; a QEMU in a PID namespace of its own gives other ids.

    Returns:
        One entry for each thread; none if a virtual CPU is not among them.
    """
    numbers = {tid: number for number, tid in enumerate(vcpus)}
    if not numbers or not numbers.keys() <= set(tids):
        return []
    return [GuestThread(tid, "vcpu" if tid in numbers else "emulator", numbers.get(tid)) for tid in tids]


def roles_by_kvm(tids: Sequence[int], vcpus: Collection[int]) -> list[GuestThread]:
    """Give the role of each thread of a QEMU that does not name them, under KVM.

    QEMU makes the threads of its virtual CPUs in their order, so the lowest id is number 0.

    Args:
        tids: Of all threads.
        vcpus: Those that run a guest.
    """
    numbers = {tid: number for number, tid in enumerate(sorted(vcpus))}
    return [GuestThread(tid, "vcpu" if tid in numbers else "emulator", numbers.get(tid)) for tid in tids]
