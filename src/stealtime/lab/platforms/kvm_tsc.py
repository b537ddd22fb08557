"""How far a guest's time-stamp counter is from the host's, as KVM itself says.

debugfs has a folder for each virtual machine, ``kvm/PID-DESCRIPTOR``, and in it one for each virtual CPU (Linux
``arch/x86/kvm/debugfs.c``). ``tsc-offset`` is what KVM adds to the host's counter; where it also scales, which
``tsc-scaling-ratio`` tells, the two do not differ by a constant.
"""

from pathlib import Path

from stealtime.vocabulary.readings import Absent, Reading, Value

_FOLDER = Path("/sys/kernel/debug/kvm")


def tsc_offset(process: int, vcpu: int, folder: Path = _FOLDER) -> Reading:
    """Give the guest's counter minus the host's, in cycles.

    Args:
        process: QEMU's process id, as the initial PID namespace has it.
        vcpu: The number of the virtual CPU.
        folder: Another one in tests.
    """
    try:
        machines = sorted(path for path in folder.glob(f"{process}-*") if path.is_dir())
        if len(machines) != 1:
            return Absent(absent=f"{folder} holds {len(machines)} machines of process {process}, not one")
        of_vcpu = machines[0] / f"vcpu{vcpu}"
        ratio = of_vcpu / "tsc-scaling-ratio"
        # The files are there only where the processor can scale.
        if ratio.exists():
            one = 1 << int((of_vcpu / "tsc-scaling-ratio-frac-bits").read_text())
            if int(ratio.read_text()) != one:
                return Absent(absent=f"KVM scales the guest's counter: {ratio} is not {one}")
        return Value(value=int((of_vcpu / "tsc-offset").read_text()))
    except OSError as error:
        return Absent(absent=f"{error.filename}: {error.strerror}")
    except ValueError as error:
        return Absent(absent=f"{folder}: {error}")


def unchanged(before: Reading, after: Reading) -> Reading:
    """Give an offset that was the same before and after a trial."""
    if not isinstance(before, Value):
        return before
    if not isinstance(after, Value):
        return after
    if before.value != after.value:
        return Absent(absent=f"KVM changed the offset meanwhile, from {before.value} to {after.value} cycles")
    return after
