"""The specifications that the Rust programs read: ``spec.rs`` and ``host_config.rs`` of ``crates/replicator``.

Everything that a member could not find out for itself, or must find the same on every host, is resolved here: the
versioned machine type, the absolute paths of the images and their SHA-256. ``tests/golden/members.schema.json`` holds
both sides to the same keys and types.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from stealtime.protect.bypass import BypassRule
from stealtime.protect.disk_images import ImageFormat
from stealtime.protect.disks import DiskBus
from stealtime.protect.endpoint import StandbyHost
from stealtime.protect.qemu_user import find_user
from stealtime.protect.vm_file import DeviceState, Flush, IdentityFiles, Mode, Register, Tracker, VmFile
from stealtime.vocabulary.errors import StealtimeError

VERSION = 2
"""The layout of a member's spec."""


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    def text(self) -> str:
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


class ImageSpec(_Document):
    """A file that QEMU loads; a standby refuses one of another content."""

    path: Path
    sha256: str


class DiskSpec(_Document):
    """A disk of the machine."""

    name: str
    bytes_: int = Field(alias="bytes")
    bus: DiskBus = "virtio"


class ImageFileSpec(_Document):
    """Where the image of a disk is on a host."""

    path: Path
    format_: ImageFormat = Field(default="raw", alias="format")


class MachineSpec(_Document):
    """The machine, the same on every host."""

    name: str
    accelerator: Literal["tcg", "kvm"]
    machine: str
    """A versioned type: an alias means another machine in the next QEMU."""
    cpu: str
    vcpus: int
    memory_bytes: int
    kernel: ImageSpec | None
    initramfs: ImageSpec | None
    kernel_arguments: str
    mac: str
    virtio: Literal["legacy", "transitional"]
    devices: tuple[str, ...]
    disks: tuple[DiskSpec, ...] = ()


class FixedInterval(_Document):
    """Checkpoints after always the same time."""

    fixed_ns: int


class AutomaticInterval(_Document):
    """Checkpoints as often as keeps the guest stopped for this share of the time."""

    auto_overhead: float


class NetworkSpec(_Document):
    """Where the guest's frames go."""

    tap: str
    bridge: str | None


class FileRegisterSpec(_Document):
    """A folder on one machine."""

    file: Path


class EtcdLoginSpec(_Document):
    """A user of etcd's own authentication."""

    user: str
    password_file: Path


class EtcdSpec(_Document):
    """A cluster."""

    endpoints: tuple[str, ...]
    identity: IdentityFiles | None
    login: EtcdLoginSpec | None
    insecure: bool


class EtcdRegisterSpec(_Document):
    """An etcd cluster decides."""

    etcd: EtcdSpec


RegisterSpec = FileRegisterSpec | EtcdRegisterSpec


class TimingSpec(_Document):
    """Deadlines, in nanoseconds of the monotonic clock."""

    heartbeat_interval_ns: int
    active_deadline_ns: int
    standby_timeout_ns: int
    register_deadline_ns: int


class QemuUserSpec(_Document):
    """A user that QEMU runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]


class MemberSpec(_Document):
    """All that a member needs."""

    version: int = VERSION
    machine: MachineSpec
    qemu: Path
    """On this host; another one that takes the machine has its own."""
    qemu_user: QemuUserSpec | None
    """Here; None: one of its own."""
    host: str
    standby_hosts: tuple[StandbyHost, ...]
    mode: Mode
    interval: FixedInterval | AutomaticInterval
    min_interval_ns: int | None
    """Where output waits, from one checkpoint to the next at the least; None: it waits for the next one that is due."""
    bypass: tuple[BypassRule, ...]
    tracker: Tracker | None
    device_state: DeviceState
    flush: Flush = "memory"
    """When the guest hears that something is on its disks' medium."""
    disk_images: tuple[ImageFileSpec, ...] = ()
    """Of the machine's disks here, in their order."""
    disk_copy_bytes_per_s: int | None
    """How much of the disks is copied a second, at most, while the machine is not protected yet."""
    network: NetworkSpec
    register_: RegisterSpec = Field(alias="register")
    timing: TimingSpec
    identity: IdentityFiles | None
    folder: Path
    longest_first_pause_ns: int
    longest_hold_ns: int
    copy_order: int
    epochs_in_flight: int
    hold_bytes: int
    qemu_deadline_ns: int
    log_bytes: int
    metrics: str | None
    allow_faults: bool


class HostSpec(_Document):
    """Who a host is that receives machines."""

    name: str
    listen: str
    bridge: str | None
    register_: RegisterSpec = Field(alias="register")
    identity: IdentityFiles | None
    folder: Path
    """Holds a folder for each machine."""
    qemu: Path
    qemu_user: QemuUserSpec | None
    images: tuple[Path, ...]
    """Machines boot from files below these folders only."""
    disks: Path | None = None
    """Holds the images of machines with disks; None: no such machine is taken."""
    copies: int
    """How many machines are copied to it at a time."""
    metrics: str
    """The address at which members tell their figures."""
    allow_faults: bool


@dataclass(frozen=True)
class MemberHost:
    """Where a member runs, which its ``VM.toml`` does not say."""

    host: str
    """The host's name, as it stands in the register."""
    folder: Path
    """The member's own."""
    qemu: Path
    register_folder: Path
    """Taken where ``VM.toml`` names no register."""


def machine_spec(
    vm: VmFile, machine: str, kernel: ImageSpec | None, initramfs: ImageSpec | None, kernel_arguments: str
) -> MachineSpec:
    as_in_file = ("name", "accelerator", "cpu", "vcpus", "memory_bytes", "mac", "virtio", "devices")
    return MachineSpec(
        **{name: getattr(vm, name) for name in as_in_file},
        machine=machine,
        kernel=kernel,
        initramfs=initramfs,
        kernel_arguments=kernel_arguments,
        disks=tuple(DiskSpec(name=disk.name, bytes_=disk.size_bytes, bus=disk.bus) for disk in vm.disks),
    )


_AS_IN_VM_FILE = (
    *(
        "standby_hosts",
        "mode",
        "min_interval_ns",
        "bypass",
        "tracker",
        "device_state",
        "flush",
        "disk_copy_bytes_per_s",
        "identity",
        "longest_first_pause_ns",
    ),
    *("copy_order", "epochs_in_flight", "hold_bytes", "log_bytes", "metrics", "allow_faults"),
)


def member_spec(vm: VmFile, machine: MachineSpec, place: MemberHost) -> MemberSpec:
    return MemberSpec(
        **{name: getattr(vm, name) for name in _AS_IN_VM_FILE},
        machine=machine,
        qemu=place.qemu,
        qemu_user=qemu_user_spec(vm.qemu_user),
        host=place.host,
        interval=(
            AutomaticInterval(auto_overhead=vm.overhead)
            if vm.interval == "auto"
            else FixedInterval(fixed_ns=vm.interval)
        ),
        disk_images=tuple(ImageFileSpec(path=disk.path.absolute(), format_=disk.image_format) for disk in vm.disks),
        network=NetworkSpec(tap=vm.tap, bridge=vm.network.bridge),
        register_=register_spec(vm.register_, place.register_folder),
        timing=TimingSpec(**vm.timing.model_dump(exclude={"qemu_deadline_ns"})),
        folder=place.folder,
        longest_hold_ns=vm.hold_bound_ns,
        qemu_deadline_ns=vm.timing.qemu_deadline_ns,
    )


def qemu_user_spec(name: str | None) -> QemuUserSpec | None:
    if name is None:
        return None
    uid, gid, groups = find_user(name)
    return QemuUserSpec(uid=uid, gid=gid, groups=tuple(groups))


def register_spec(register: Register, default_folder: Path) -> RegisterSpec:
    """Say which register decides; ``default_folder`` where none is named."""
    if register.etcd is None:
        return FileRegisterSpec(file=register.folder or default_folder)
    login = None
    if register.user is not None and register.password_file is not None:
        login = EtcdLoginSpec(user=register.user, password_file=register.password_file)
    return EtcdRegisterSpec(
        etcd=EtcdSpec(
            endpoints=tuple(register.etcd),
            identity=register.identity,
            login=login,
            insecure=register.insecure,
        )
    )


def write_document(path: Path, document: MemberSpec | HostSpec) -> None:
    """Write a spec for its owner alone: with ``allow_faults`` or paths of keys it is nobody else's matter.

    Raises:
        StealtimeError: It cannot be written; then it is not there.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(document.text())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> StealtimeError:
    return StealtimeError(
        f"{path} cannot be written: {error.strerror or error}",
        hint=f"see that there is room in {path.parent} and that it is yours",
    )
