"""Run as a program: makes a real virtual machine of KVM with virtual CPUs that never run, and keeps it.

The arguments are the names of its threads, one for each virtual CPU, then anything. It prints a line when all is there.
The threads work in turn, so that their counters move.
"""

import ctypes
import fcntl
import os
import sys
import threading
import time

_CREATE_VM, _CREATE_VCPU = 0xAE01, 0xAE41
"""``_IO(KVMIO, 1)`` and ``_IO(KVMIO, 0x41)`` (include/uapi/linux/kvm.h)."""
_SET_NAME = 15
"""``PR_SET_NAME`` of prctl(2)."""


def work(name: str) -> None:
    ctypes.CDLL(None).prctl(_SET_NAME, name.encode(), 0, 0, 0)
    while True:
        end_s = time.monotonic() + 0.01
        while time.monotonic() < end_s:
            pass
        time.sleep(0.05)


def main() -> None:
    names = sys.argv[1].split(",")
    kvm = os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC)
    machine = fcntl.ioctl(kvm, _CREATE_VM, 0)
    for number, name in enumerate(names):
        fcntl.ioctl(machine, _CREATE_VCPU, number)
        threading.Thread(target=work, args=(name,), daemon=True).start()
    sys.stdout.write("there\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
