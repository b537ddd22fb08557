"""Traits of a platform's machines, by the platform's name. Pure."""

from dataclasses import dataclass

from stealtime.lab.platforms.device_models import QEMU_MODELS
from stealtime.lab.platforms.ssh_name import SSH_PREFIX

NATIVE = "native"


@dataclass(frozen=True, kw_only=True)
class PlatformTraits:
    """What sets the machines of a platform apart."""

    description: str = "a platform that this version does not know"
    """What it is, so that nobody takes it for another one."""
    is_native: bool = False
    """Whether the machine is the host itself."""
    is_remote: bool = False
    """Whether it runs on another host than this one."""
    has_own_kernel_trace: bool = False
    """Whether its agent can trace its kernel. Natively the host's trace is the machine's."""
    is_seen_from_host: bool = False
    """Whether the host's trace shows what runs inside: guests of User-Mode Linux are processes of the host."""
    boots_chosen_kernel: bool = False
    """Whether its machines boot the kernel that a campaign chooses."""
    shares_host_counter: bool = True
    """Whether it reads the host's own time-stamp counter, without an offset."""
    is_told_host_rate: bool = False
    """Whether its kernel is given the rate of the counter instead of measuring it."""
    most_vcpus: int | None = None
    """How many virtual CPUs its machines can have; None for as many as there are CPUs."""
    no_guest_steal: str | None = None
    """Why its kernel knows nothing of stolen time; None where it does."""
    guest_time_is_counted: bool = False
    """Whether the host's kernel tells how long its vCPU threads executed the guest's instructions: KVM tells it."""
    device_models: tuple[str, ...] = ()
    """The names of the device models that its machines can be given (``device_models``)."""
    boot_s: float = 10.0
    """How long a boot takes where none was seen yet."""
    overhead_s: tuple[float, float] = (0.5, 1.0)
    """What an untraced and a traced trial take beyond their duration where none was seen yet. Seen on a 2-core machine,
    under TCG beside neighbours: 1.7 to 5.7 s and 2.8 to 7.7 s."""

    @property
    def is_guest(self) -> bool:
        return not self.is_native and not self.is_remote


def _qemu(
    accelerator: str, devices: str, no_guest_steal: str | None, *, most_vcpus: int | None = None
) -> PlatformTraits:
    is_tcg = accelerator == "tcg"
    how = (
        "QEMU's TCG translates every instruction in software (this is not KVM)"
        if is_tcg
        else "QEMU with hardware virtualization (KVM)"
    )
    return PlatformTraits(
        description=f"{how}, {devices}",
        has_own_kernel_trace=True,
        boots_chosen_kernel=True,
        shares_host_counter=False,
        is_told_host_rate=is_tcg,
        most_vcpus=most_vcpus,
        no_guest_steal=no_guest_steal,
        guest_time_is_counted=not is_tcg,
        device_models=QEMU_MODELS,
        boot_s=6.0 if is_tcg else 3.0,
        overhead_s=(2.5, 3.5) if is_tcg else (0.5, 1.0),
    )


_NO_STEAL_CLOCK = "a guest under TCG has no steal-time clock"
TRAITS = {
    NATIVE: PlatformTraits(
        description="the host itself, without a virtual machine of ours",
        is_native=True,
        no_guest_steal="natively the machine is the host",
        device_models=("file",),
        boot_s=0.1,
    ),
    # Debian's User-Mode Linux has no tracing.
    "uml": PlatformTraits(
        description="User-Mode Linux: a paravirtual kernel as a process, user code runs directly on the CPU",
        is_seen_from_host=True,
        most_vcpus=1,
        no_guest_steal="User-Mode Linux does not count steal time",
        device_models=("ubd",),
        boot_s=2.0,
    ),
    "qemu-kvm-emulated": _qemu(
        "kvm",
        "paravirtual clock and features off",
        "a guest that does not see KVM has no steal-time clock",
        most_vcpus=1,
    ),
    "qemu-kvm-paravirt": _qemu("kvm", "kvmclock and paravirtual features on", None),
    "qemu-kvm-hyperv": _qemu("kvm", "Hyper-V enlightenments", "Hyper-V reports no steal time to its guests"),
    "qemu-tcg-emulated": _qemu("tcg", "devices of a PC are emulated", _NO_STEAL_CLOCK, most_vcpus=1),
    "qemu-tcg-paravirt": _qemu("tcg", "virtio devices", _NO_STEAL_CLOCK),
}
"""By name, from the least to the most virtual: the order of tables and figures."""


def traits_of(platform: str) -> PlatformTraits:
    """Give the traits of a platform; one that this version does not know is a guest of which nothing more is known."""
    if platform.startswith(SSH_PREFIX):
        return PlatformTraits(
            description=f"the machine at {platform.removeprefix(SSH_PREFIX)}, over ssh",
            is_remote=True,
            has_own_kernel_trace=True,
            device_models=("own",),
            boot_s=3.0,
        )
    return TRAITS.get(platform, PlatformTraits())
