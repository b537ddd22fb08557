"""Which platforms this host can boot: tested by the platform's own check and then by booting a guest."""

from collections.abc import Callable, Sequence

from stealtime.doctor.files import Files
from stealtime.doctor.model import Data, Finding, Group, Subject
from stealtime.lab.platforms.leftovers import temporary_folder
from stealtime.lab.platforms.model import Availability, MachineRequest, Platform
from stealtime.lab.platforms.traits import NATIVE
from stealtime.lab.processors import CpuSets
from stealtime.lab.scenarios.model import SCENARIOS
from stealtime.lab.scenarios.placing import place
from stealtime.vocabulary.errors import StealtimeError

KVM_DEVICE = Subject(
    "kvm_device",
    Group.PLATFORMS,
    "/dev/kvm",
    "Hardware virtualization is what most users run; without it guests run under UML, or in emulation (TCG).",
)
GUESTS = Subject(
    "guest_platforms",
    Group.PLATFORMS,
    "a guest to compare with",
    "The main job compares this machine with its virtual machines: at least one must boot.",
)


def kvm_device(files: Files) -> Finding:
    """Whether the device is there and open to this user; what it is worth is for the platforms' checks to say."""
    if not files.exists("/dev/kvm"):
        fix = "turn on VT-x or AMD-V in the firmware (in a VM: nesting), then modprobe kvm_intel or kvm_amd"
        return KVM_DEVICE.limits("does not exist", {"exists": False, "writable": False}, fix)
    if not files.writable("/dev/kvm"):
        fix = "sudo usermod --append --groups kvm $USER, then log in anew"
        return KVM_DEVICE.limits("this user may not open it", {"exists": True, "writable": False}, fix)
    return KVM_DEVICE.ok(
        "can be opened; whether it can run a guest is tested below, by booting one", {"exists": True, "writable": True}
    )


async def prove_platforms(
    platforms: Sequence[Platform], cpus: CpuSets, on_start: Callable[[str], None]
) -> list[Finding]:
    """Check and boot one platform after the other, so that none is slowed down by the proof of another.

    Args:
        platforms: Those to check.
        cpus: The guests run where a measurement would take place, all else on the others.
        on_start: Told the name of each before its check, which may take seconds.
    """
    findings: list[Finding] = []
    usable: list[str] = []
    for platform in platforms:
        on_start(platform.name)
        try:
            availability = await _prove(platform, cpus)
        except StealtimeError as error:
            availability = Availability(usable=False, reason=error.message, hint=error.hint)
        if availability.usable and platform.name != NATIVE:
            usable.append(platform.name)
        findings.append(_platform(platform.name, availability))
    findings.append(_guests(usable))
    return findings


async def _prove(platform: Platform, cpus: CpuSets) -> Availability:
    availability = await platform.check()
    if not availability.usable:
        return availability
    placement = place(SCENARIOS["alone"], cpus.usable, None, cpus)
    with temporary_folder() as folder:
        request = MachineRequest(
            vcpu_cpus=placement.vcpu_cpus,
            housekeeping_cpus=placement.housekeeping_cpus,
            folder=folder,
        )
        async with platform.boot(request) as machine:
            elapsed_s = machine.boot.elapsed_to_hello_s
    return Availability(usable=True, reason=f"its agent answered after {elapsed_s:.1f} s; {availability.reason}")


def _platform(name: str, availability: Availability) -> Finding:
    subject = Subject(f"platform:{name}", Group.PLATFORMS, name, "A platform that does not boot is missing from a run.")
    value: Data = {"usable": availability.usable, "reason": availability.reason}
    if availability.usable:
        return subject.ok(f"usable: {availability.reason}", value)
    text = f"not usable, because {availability.reason}"
    if name == NATIVE:
        return subject.blocks(text, value, availability.hint or "see the other findings that block")
    return subject.limits(text, value, availability.hint)


def _guests(usable: list[str]) -> Finding:
    if usable:
        return GUESTS.ok(f"{len(usable)} usable: {', '.join(usable)}", usable)
    return GUESTS.blocks("none is usable", [], "fix one of the platforms above; uml needs no hardware support")
