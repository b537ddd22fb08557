"""QEMU's command line, as a pure function of what is wanted.

``-nodefaults -no-user-config``: the guest has exactly what stands here. Everything that talks to us does so over
inherited descriptors, so that nothing has to be found, waited for or removed: QMP and the agent's channel are socket
pairs, the bulk disk is an unnamed file.
"""

from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.platforms.qemu_devices import BackedDevice, device_arguments
from stealtime.lab.platforms.qemu_flavour import QemuFlavour
from stealtime.lab.platforms.qemu_trace import trace_arguments
from stealtime.vocabulary.errors import UsageError

CHANNEL_PORT = "stealtime"
"""The name of the virtio port of the agent's channel."""

BULK_DEVICE = "/dev/sda"


@dataclass(frozen=True)
class QemuGuest:
    """What a guest is made of."""

    flavour: QemuFlavour
    program: str
    """The QEMU binary."""
    name: str
    """A name that a person sees in `ps`."""
    vcpus: int
    memory_bytes: int
    kernel: Path
    initramfs: Path
    serial_log: Path
    qmp: int
    """The inherited descriptor of a socket for QMP."""
    channel: int
    """The inherited descriptor of a socket for the agent."""
    bulk: int | None = None
    """The inherited descriptor of the file behind the bulk disk."""
    hyperv_options: tuple[str, ...] = ()
    """The enlightenments of the style *hyperv*, as ``hyperv.choose`` gives them."""
    host_tsc_khz: int | None = None
    """The rate of the host's time-stamp counter, where it is known and the guest's own."""
    talkative: bool = False
    """Whether the kernel tells all on its console, to show how far a boot came."""
    devices: tuple[BackedDevice, ...] = ()
    """Beside those of the flavour."""
    emulator_trace: Path | None = None
    """Where QEMU writes down its trace points of devices."""


def qemu_arguments(guest: QemuGuest) -> list[str]:
    """Give the command line of a guest that waits for `cont` before its first instruction.

    Raises:
        UsageError: The flavour cannot have that many virtual CPUs.
    """
    emulated = guest.flavour.style == "emulated"
    if emulated and guest.vcpus != 1:
        # With the 8259 and the 8254 there is one source of interrupts and time, and the second CPU gets neither.
        raise UsageError(
            f"the platform {guest.flavour.name} has one virtual CPU, {guest.vcpus} were asked for",
            hint="use a scenario with vcpus = 1 for this platform, or a paravirt platform",
        )
    return [
        guest.program,
        *("-name", f"{guest.name},process={guest.name},debug-threads=on"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-S"),
        *("-machine", _machine(guest.flavour)),
        *("-cpu", _cpu(guest)),
        *("-smp", str(guest.vcpus)),
        *("-m", f"{guest.memory_bytes >> 20}M"),
        *("-kernel", str(guest.kernel)),
        *("-initrd", str(guest.initramfs)),
        *(
            "-append",
            " ".join(kernel_arguments(guest.flavour, host_tsc_khz=guest.host_tsc_khz, talkative=guest.talkative)),
        ),
        *("-chardev", f"socket,id=qmp,fd={guest.qmp}", "-mon", "chardev=qmp,mode=control"),
        *("-chardev", f"file,id=console,path={_quote(guest.serial_log)}", "-device", "isa-serial,chardev=console"),
        *("-chardev", f"socket,id=channel,fd={guest.channel}"),
        *(_emulated_devices(guest) if emulated else _virtio_devices()),
        *device_arguments(guest.devices),
        *(trace_arguments(guest.emulator_trace) if guest.emulator_trace is not None else ()),
    ]


def kernel_arguments(flavour: QemuFlavour, *, host_tsc_khz: int | None = None, talkative: bool = False) -> list[str]:
    # `quiet`: the guest's boot should not depend on an emulated serial line. Warnings and panics still come.
    arguments = ["console=ttyS0", "earlyprintk=ttyS0" if talkative else "quiet", "panic=-1"]
    # The self-tests of ciphers that nobody here uses took 0.27 s of a translated boot (`initcall_debug`).
    arguments.append("cryptomgr.notests")
    if flavour.style == "emulated":
        arguments += ["noapic", "nolapic_timer", "clocksource=acpi_pm", "stealtime.channel=/dev/ttyS1"]
    else:
        arguments += [f"stealtime.channel=virtio:{CHANNEL_PORT}"]
    if flavour.trusts_host_tsc:
        # TCG's counter is the host's (QEMU `cpu_get_tsc`), but a busy host makes the guest's watchdog doubt it: without
        # this the clocksource, and with it what reading the time costs, would change from boot to boot.
        arguments.append("tsc=reliable")
        # A busy host may keep QEMU from giving ticks while the kernel counts them: "IO-APIC + timer doesn't work!" is a
        # panic then. Under KVM the kernel leaves this check out by itself (`kvm_guest_init()`).
        arguments.append("no_timer_check")
        if host_tsc_khz is not None:
            arguments.append(f"tsc_early_khz={host_tsc_khz}")
    if flavour.has_bulk_disk:
        arguments.append(f"stealtime.bulk={BULK_DEVICE}")
    return arguments


def _machine(flavour: QemuFlavour) -> str:
    board = "pc" if flavour.style == "emulated" else "q35"
    machine = f"{board},accel={flavour.accelerator},hpet=off,vmport=off,dump-guest-core=off"
    if flavour.accelerator == "kvm" and flavour.style == "emulated":
        # PIC and PIT are QEMU's, as all its devices. With those inside KVM a guest that uses them alone never boots
        # (seen with Linux 6.12 as host and 6.1 as guest): it stands still where it first needs a timer interrupt.
        machine += ",kernel-irqchip=split"
    return machine


def _cpu(guest: QemuGuest) -> str:
    match guest.flavour.accelerator, guest.flavour.style:
        case "tcg", _:
            return "max"
        case _, "emulated":
            # The guest must not find KVM. That the host also refuses its paravirtual MSRs (kvm-pv-enforce-cpuid) is not
            # to be had: QEMU itself sets MSR_KVM_SYSTEM_TIME and MSR_KVM_WALL_CLOCK, is refused, and aborts.
            return "host,+invtsc,kvm=off"
        case _, "hyperv":
            # Linux takes the hypervisor with the highest CPUID base, which would be KVM: hide it.
            return ",".join(["host", "+invtsc", "kvm=off", *guest.hyperv_options])
        case _:
            return "host,+invtsc"


def _emulated_devices(guest: QemuGuest) -> list[str]:
    devices = ["-device", "isa-serial,chardev=channel"]
    devices += ["-netdev", "user,id=network,restrict=on", "-device", "e1000,netdev=network,romfile="]
    if guest.bulk is not None:
        # A magic link, which also opens a file that has no name (and not `-add-fd`, whose set would have to hold the
        # file once for each way in which QEMU opens it).
        # The host's page cache is all that is needed: nothing here has to survive a crash of the host.
        devices += ["-drive", f"if=none,id=bulk,file=/proc/self/fd/{guest.bulk},format=raw,cache=unsafe"]
        devices += ["-device", "ide-hd,drive=bulk,bus=ide.0"]
    return devices


def _virtio_devices() -> list[str]:
    return [
        *("-device", "virtio-serial-pci", "-device", f"virtserialport,chardev=channel,name={CHANNEL_PORT}"),
        *("-netdev", "user,id=network,restrict=on", "-device", "virtio-net-pci,netdev=network,romfile="),
        *("-device", "virtio-rng-pci"),
    ]


def _quote(path: Path) -> str:
    """Write a path as a QEMU option value, in which a comma is doubled."""
    return str(path).replace(",", ",,")
