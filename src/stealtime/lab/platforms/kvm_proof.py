"""Whether KVM works here, proved by booting: that ``/dev/kvm`` opens says too little.

Some hosts (nested ones without nested VMX or SVM, paravirtual KVM backends) offer a ``/dev/kvm`` that answers every
ioctl and then never gets a stock kernel up. So a guest must have said hello within ``proof_limit_s()``. The answer is
kept for as long as host boot, QEMU and guest kernel stay the same, so that those seconds are spent once.
"""

import asyncio
import hashlib
import os
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from pydantic import BaseModel, ValidationError

from stealtime.lab.image.cache import cache_folder, write_atomically
from stealtime.lab.image.kernel import Kernel, find_kernel
from stealtime.lab.platforms.below import EMULATED, is_emulated
from stealtime.lab.platforms.leftovers import temporary_folder
from stealtime.lab.platforms.model import Availability, Machine, MachineRequest
from stealtime.lab.platforms.qemu_flavour import QemuFlavour
from stealtime.lab.processors import read_cpu_sets
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.readings import Absent

LIMIT_VARIABLE = "STEALTIME_KVM_PROOF_LIMIT_S"
"""The environment variable that sets the limit, in seconds, instead of a measurement of the host."""
LEAST_LIMIT_S = 8.0
"""Four times what the same kernel needs under TCG on an idle host (2 s), where every instruction is translated; more on
hosts that are slower than the one this was found on."""
_SILENT_SHARE = 1 / 4
"""Of the limit: whose kernel has said nothing by then does not boot. Under TCG a whole boot takes no longer, and what
only looks like KVM hangs before the first word."""
_STEPS = 200_000
_REFERENCE_S = 0.014
"""What ``_STEPS`` turns of ``_work`` take on that host (the fastest of nine on a Xeon, Python 3.11, 2026-11-23)."""

_DEVICE = Path("/dev/kvm")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_KERNEL = "rt"
_BASE = QemuFlavour("kvm", "paravirt")
"""What the other flavours are not even tried without."""

Boot = Callable[[MachineRequest], AbstractAsyncContextManager[Machine]]

_locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()


class Proof(BaseModel):
    """What a proof boot found."""

    usable: bool
    reason: str
    hint: str | None = None


def proof_limit_s() -> float:
    """Give how long a guest may need here: as ``LIMIT_VARIABLE`` says, or scaled by how slow this host runs code.

    Raises:
        UsageError: The variable holds no duration.
    """
    chosen = os.environ.get(LIMIT_VARIABLE)
    if chosen is None:
        return LEAST_LIMIT_S * max(1.0, min(_work_s() for _ in range(5)) / _REFERENCE_S)
    try:
        limit_s = float(chosen)
    except ValueError:
        limit_s = 0.0
    if not 0.0 < limit_s < float("inf"):
        raise UsageError(f"${LIMIT_VARIABLE} is {chosen!r}", hint="give it seconds, for example 60, or unset it")
    return limit_s


def _work_s() -> float:
    """Time some ordinary code, as a slow host is slow with all of it; the fastest of several was disturbed least."""
    began_s, value = time.perf_counter(), 0
    for step in range(_STEPS):
        value = (31 * value + step) & 0xFFFF_FFFF
    return time.perf_counter() - began_s


async def prove(flavour: QemuFlavour, qemu_version: str, boot_of: Callable[[QemuFlavour], Boot]) -> Availability:
    """Find whether guests of a KVM flavour boot here.

    Args:
        flavour: Which.
        qemu_version: Part of what the remembered answer holds for.
        boot_of: Gives what boots a guest of a flavour that tells all on its console.
    """
    if (refusal := device_refusal()) is not None:
        return refusal
    try:
        kernel = await asyncio.to_thread(find_kernel, _KERNEL)
    except StealtimeError as error:
        return Availability(usable=False, reason=f"KVM cannot be proved: {error.message}", hint=error.hint)
    # Checked all at once, the flavours would otherwise compete for the CPU and all run into the limit.
    async with _locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        base = await _proof_of(_BASE, qemu_version, kernel, boot_of)
        proof = await _proof_of(flavour, qemu_version, kernel, boot_of) if base.usable else base
    return _availability(proof)


def device_refusal(device: Path = _DEVICE) -> Availability | None:
    """Say why the device cannot be used, or None if it opens."""
    if not device.exists():
        return Availability(
            usable=False,
            reason=f"{device} does not exist",
            hint="turn on VT-x or AMD-V in the firmware (nested virtualization in a VM) and load kvm_intel or kvm_amd",
        )
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return Availability(
            usable=False,
            reason=f"{device} cannot be opened: {error.strerror}",
            hint="join the group that owns it: sudo usermod --append --groups kvm $USER, then log in anew",
        )
    return None


async def _proof_of(
    flavour: QemuFlavour, qemu_version: str, kernel: Kernel, boot_of: Callable[[QemuFlavour], Boot]
) -> Proof:
    """Give the remembered answer, or find it."""
    proof = _remembered(flavour, qemu_version, kernel)
    if proof is None:
        proof = await _try(qemu_version, boot_of(flavour))
        write_atomically(_path(flavour, qemu_version, kernel), proof.model_dump_json(indent=1))
    return proof


async def _try(qemu_version: str, boot: Boot) -> Proof:
    cpus, limit_s = read_cpu_sets(), proof_limit_s()
    measured = cpus.preferred[-1]
    others = tuple(cpu for cpu in cpus.inherited if cpu != measured)
    with temporary_folder() as folder:
        request = MachineRequest(
            vcpu_cpus=((measured,),),
            housekeeping_cpus=others[:1] or (measured,),
            folder=folder,
            kernel=_KERNEL,
            boot_timeout_s=limit_s,
            silence_timeout_s=_SILENT_SHARE * limit_s,
        )
        try:
            async with boot(request) as machine:
                elapsed_s, lacks = machine.boot.elapsed_to_hello_s, await _lacks(machine)
        except StealtimeError as error:
            return Proof(
                usable=False,
                reason=f"{_DEVICE} opens, but a guest does not boot under it: {error.message}",
                hint="use a qemu-tcg platform, or a host whose KVM has VT-x or AMD-V; where guests boot slowly, set "
                f"{LIMIT_VARIABLE} to more than {limit_s:.0f}",
            )
    reason = f"a guest booted under KVM in {elapsed_s:.1f} s, QEMU {qemu_version}"
    return Proof(usable=True, reason="; ".join([reason, *lacks, *([EMULATED] if is_emulated() else [])]))


async def _lacks(machine: Machine) -> list[str]:
    """Say what a machine that runs under KVM goes without here."""
    lacks = []
    offset, counters = machine.tsc_offset(), await machine.hypervisor_counters()
    if isinstance(offset, Absent):
        lacks.append(f"the offset of a guest's counter is not known: {offset.absent}")
    if isinstance(counters, Absent):
        lacks.append(f"exits are not counted: {counters.absent}")
    if left_out := machine.boot.facts.get("hyperv_features_left_out"):
        lacks.append(f"left out: {left_out}")
    return lacks


def _availability(proof: Proof) -> Availability:
    return Availability(usable=proof.usable, reason=proof.reason, hint=proof.hint)


def _path(flavour: QemuFlavour, qemu_version: str, kernel: Kernel) -> Path:
    """Name the remembered answer after all that it holds for."""
    boot_id = _BOOT_ID.read_text().strip()
    key = "\n".join([flavour.name, boot_id, qemu_version, kernel.sha256, os.environ.get(LIMIT_VARIABLE, "")])
    return cache_folder() / "proofs" / f"{flavour.name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _remembered(flavour: QemuFlavour, qemu_version: str, kernel: Kernel) -> Proof | None:
    try:
        return Proof.model_validate_json(_path(flavour, qemu_version, kernel).read_bytes())
    except (OSError, ValidationError):
        return None
