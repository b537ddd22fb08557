"""``VM.toml``: a virtual machine that is to be protected, as a person writes it.

The keys of the file are the aliases of the fields. What is left out has a default that works on one machine; every
value is checked here, before anything is started, so that a message can name the line.
"""

import hashlib
import ipaddress
import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from stealtime.protect.bypass import BypassRule
from stealtime.protect.devices import ALLOWED, reason_against
from stealtime.protect.disks import MOST_DISKS, Disk
from stealtime.protect.endpoint import StandbyHost, describe_problem
from stealtime.protect.paths import with_absolute_paths
from stealtime.protect.qemu_user import QemuUserName
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.own_text import read_own_text
from stealtime.vocabulary.quantities import DurationNs, SizeBytes, format_duration, parse_duration_ns
from stealtime.vocabulary.toml_errors import explain, parse
from stealtime.vocabulary.toml_table import Table

Mode = Literal["off", "no-net", "net", "net+bypass"]
Tracker = Literal["userfault", "soft-dirty", "shadow"]
DeviceState = Literal["xen-save", "ignore-shared"]
Flush = Literal["memory", "stable"]

BOOTS_ITSELF = "disk"
"""The kernel of a machine whose first disk has its own boot loader."""

SHORTEST_INTERVAL_NS = 5_000_000
"""Below this the guest would be stopped more than it runs; the members refuse it too."""

SMALLEST_MEMORY_BYTES = 64 << 20
"""Debian's cloud kernel with its initramfs does not come up with less."""

_DISKS = {"disk", "drive", "drives", "image"}
"""What somebody writes who has protected machines of another kind."""
_SCHEMA_HINT = "`stealtime schema vm` shows what each key takes"

LONGEST_INTERFACE_NAME = 15
"""IFNAMSIZ of linux/if.h without its final zero."""

INTERFACE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$"

VM_NAME = r"^[a-z0-9][a-z0-9-]{0,39}$"
"""As ``crates/succession/src/names.rs`` takes it, from whatever host a name comes."""

_WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""A value on QEMU's command line that can be nothing else: with a comma it would be further options."""

_MS = 1_000_000
_FIRST_AUTOMATIC_NS = 100 * _MS
"""The interval that is left to us, before anything is known of the guest."""
HOLDING = ("net", "net+bypass")
"""The modes in which output waits."""
_LONGEST_NS = 3_600_000 * _MS
"""The longest time that the members take."""
_AutoOrNs = Annotated[DurationNs | Literal["auto"], Field()]


class Network(Table):
    """``[network]``: the guest's one network card."""

    bridge: str | None = Field(default=None, pattern=INTERFACE_NAME)
    """The host's bridge that the guest's TAP joins; the same name on every host. Default: none."""
    tap: str | None = Field(default=None, pattern=INTERFACE_NAME)
    """The TAP's name; default: derived from the VM's."""
    mac: str | None = None
    """The card's MAC address; default: derived from the VM's name, so the same on every host."""
    address: str | None = None
    """With its prefix, ``10.0.0.2/24``: the address of the builtin program. Other guests configure their own."""
    gateway: str | None = None
    """The builtin program's default route."""

    @field_validator("mac")
    @classmethod
    def _unicast(cls, mac: str | None) -> str | None:
        if mac is None:
            return None
        if not re.fullmatch(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", mac):
            raise ValueError(f"{mac!r} is not a MAC address; expected six bytes such as 52:54:00:12:34:56")
        if int(mac[:2], 16) & 1:
            raise ValueError(f"{mac!r} is the address of a group, not of one card; 52:54:00:... is usual for guests")
        if int(mac.replace(":", ""), 16) == 0:
            raise ValueError(f"{mac!r} is not the address of a single card; 52:54:00:... is usual for guests")
        return mac.lower()

    @field_validator("address")
    @classmethod
    def _with_prefix(cls, address: str | None) -> str | None:
        if address is None:
            return None
        try:
            interface = ipaddress.IPv4Interface(address)
        except ValueError:
            raise ValueError(f"{address!r} is not an IPv4 address with a prefix such as 10.0.0.2/24") from None
        if "/" not in address:
            raise ValueError(f"{address!r} has no prefix; expected one such as 10.0.0.2/24")
        if interface.ip in (interface.network.network_address, interface.network.broadcast_address):
            raise ValueError(f"{address!r} is the address of the network itself, not of a machine in it")
        return address

    @field_validator("gateway")
    @classmethod
    def _plain_address(cls, gateway: str | None) -> str | None:
        if gateway is not None:
            try:
                ipaddress.IPv4Address(gateway)
            except ValueError:
                raise ValueError(f"{gateway!r} is not an IPv4 address such as 10.0.0.1") from None
        return gateway

    @model_validator(mode="after")
    def _gateway_is_near(self) -> Self:
        if self.gateway is None:
            return self
        if self.address is None:
            raise ValueError(f"the gateway {self.gateway} needs an address of the guest in the same network")
        network = ipaddress.IPv4Interface(self.address).network
        if ipaddress.IPv4Address(self.gateway) not in network:
            raise ValueError(f"the gateway {self.gateway} is not in the guest's network {network}")
        return self


class IdentityFiles(Table):
    """PEM files, as members are told of them."""

    ca: Path
    """The certificate of the authority that signs for both sides."""
    certificate: Path
    """This host's certificate, issued for its name."""
    key: Path
    """The private key of the certificate."""
    revoked: Path | None = None
    """The authority's list of certificates that are not to be trusted any more."""


class Identity(IdentityFiles):
    """Paths of PEM files: who signs for both sides, our certificate, its key."""

    @field_validator("ca", "certificate", "key", "revoked")
    @classmethod
    def _readable(cls, path: Path | None) -> Path | None:
        if path is None:
            return None
        try:
            with path.open("rb") as file:
                head = file.read(64)
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from None
        if not head.lstrip().startswith(b"-----BEGIN "):
            raise ValueError(f"{path} is not a PEM file: it does not begin with -----BEGIN")
        return path.absolute()


class Register(Table):
    """``[register]``: what decides who may be active; a folder on one machine, or an etcd cluster."""

    folder: Path | None = None
    """Only for members that all run on one machine. Default, without etcd: beside the members' folders."""
    etcd: list[str] | None = Field(default=None, min_length=1)
    """URLs of the etcd cluster's members."""
    identity: Identity | None = None
    """The client certificate for https://."""
    user: str | None = Field(default=None, min_length=1)
    """The user for etcd's authentication, where that is on."""
    password_file: Path | None = None
    """The file with the user's password; readable only for its owner."""
    insecure: bool = False
    """Allow http:// to other machines, although anybody on the path could then decide which host is active."""

    @field_validator("password_file")
    @classmethod
    def _is_secret(cls, path: Path | None) -> Path | None:
        if path is None:
            return None
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from None
        if mode & 0o077:
            raise ValueError(f"{path} holds a password and others may read it; chmod 600 {path}")
        return path.absolute()

    @field_validator("etcd")
    @classmethod
    def _urls(cls, urls: list[str] | None) -> list[str] | None:
        for url in urls or []:
            if not re.fullmatch(r"https?://[^/\s:@]+(:\d+)?/?|https?://\[[0-9a-fA-F:]+\](:\d+)?/?", url):
                raise ValueError(f"{url!r} is not a URL of an etcd member such as https://10.0.0.9:2379")
        return [url.rstrip("/") for url in urls] if urls is not None else None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if self.identity is not None and self.identity.revoked is not None:
            raise ValueError("revoked is for the link between hosts; etcd has a list of its own (--client-crl-file)")
        if self.folder is not None and self.etcd is not None:
            raise ValueError("a folder and etcd are both given; one register decides")
        if self.etcd is None and (self.identity is not None or self.user is not None):
            raise ValueError("an identity or a user is for etcd, and none is given")
        if (self.user is None) != (self.password_file is None):
            raise ValueError("a user and a password_file are needed together")
        return self

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        for url in self.etcd or []:
            parts = urlsplit(url)
            if parts.scheme == "https" and self.identity is None:
                raise ValueError(f"{url} needs an identity: the authority, and what is shown to the cluster")
            if parts.scheme == "http" and self.identity is not None:
                raise ValueError(f"{url} does not use the identity; https:// does")
            if parts.scheme == "http" and not self.insecure and not is_loopback(parts.hostname or ""):
                raise ValueError(
                    f"{url} is on another machine, and whoever is on the way could decide which host is active; "
                    "use https:// and an identity, or say insecure = true"
                )
        return self


def is_loopback(host: str) -> bool:
    """Tell whether a name or address is this machine's own, whatever resolves names."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Timing(Table):
    """``[timing]``: deadlines of the monotonic clock."""

    heartbeat_interval_ns: DurationNs = Field(default=25 * _MS, alias="heartbeat")
    """How often members send each other heartbeats."""
    active_deadline_ns: DurationNs = Field(default=120 * _MS, alias="active_deadline")
    """An active member whose heartbeats are unanswered for so long stops releasing output."""
    standby_timeout_ns: DurationNs = Field(default=200 * _MS, alias="standby_timeout")
    """A standby that hears nothing for so long claims the machine in the register."""
    register_deadline_ns: DurationNs = Field(default=2_000 * _MS, alias="register_deadline")
    """An active member without standby and register stops the guest after this time."""
    qemu_deadline_ns: DurationNs = Field(default=5_000 * _MS, alias="qemu_deadline", ge=100 * _MS)
    """A QEMU that does not answer for so long is killed, and the standby resumes what it acknowledged."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        ordered = {
            "heartbeat": self.heartbeat_interval_ns,
            "active_deadline": self.active_deadline_ns,
            "standby_timeout": self.standby_timeout_ns,
            "register_deadline": self.register_deadline_ns,
        }
        for (shorter, shorter_ns), (longer, longer_ns) in pairwise(ordered.items()):
            if shorter_ns >= longer_ns:
                raise ValueError(
                    f"{shorter} is {format_duration(shorter_ns)}, which must be less than {longer}, "
                    f"{format_duration(longer_ns)}: the active member must fall silent before the standby may speak"
                )
        return self


class VmFile(Table):
    """A virtual machine and how it is protected."""

    name: str = Field(pattern=VM_NAME)
    """The machine's name, also of its folder, register record and TAP."""
    memory_bytes: SizeBytes = Field(default=128 << 20, alias="memory", le=1 << 40)
    """The memory of the guest, a whole number of MiB."""
    vcpus: int = Field(default=1, ge=1, le=8)
    """The number of vCPUs."""
    accelerator: Literal["tcg", "kvm"] = "tcg"
    """KVM needs a usable /dev/kvm on every host."""
    machine: str = Field(default="pc", pattern=_WORD)
    """A machine type of QEMU; an alias such as ``pc`` becomes the versioned type of this host's QEMU."""
    cpu: str = Field(default="max", pattern=_WORD)
    """A CPU model of QEMU, without additional features."""
    allow_qemu: str | None = Field(default=None, pattern=r"^\d+\.\d+$")
    """A release of QEMU, such as ``9.2``, with which the machine may be protected although no failover was shown."""
    kernel: str = Field(default="cloud", min_length=1)
    """``rt``, ``rt-new``, ``cloud``, ``standard``, ``backports``, ``host`` or the path of a bzImage or vmlinux; or
    ``disk``, where the first disk has its own boot loader (BIOS)."""
    initramfs: Path | None = None
    """The guest's whole file system, or what finds it on a disk; default: one with the builtin program."""
    program: Literal["counter"] | None = None
    """A builtin program as the guest's only process, where no initramfs is given."""
    program_arguments: list[Annotated[str, Field(pattern=r"^[^\s\"',-][^\s\"',]*$")]] = Field(
        default=["tcp=7000", "udp=7000"]
    )
    """The program's options without the dashes (``stealtime-agent counter -h``), passed on the kernel command line."""
    kernel_arguments: str = Field(default="", pattern=r"^[^\x00-\x1f\x7f]*$")
    """Kernel arguments besides those that the machine needs."""
    virtio: Literal["legacy", "transitional"] = "legacy"
    """The variant of the network card and all virtio devices. With virtio 1.0 each has 45 KB more state to save."""
    devices: list[str] = Field(default=["virtio-rng-pci"])
    """Further devices; those that cannot be protected are refused by name."""
    disks: list[Disk] = Field(default=[], max_length=MOST_DISKS)
    """The machine's disks."""
    flush: Flush = "memory"
    """``stable``: an epoch is acknowledged once it is on the standby's medium, not only in its memory. So what a client
    was told outlives a power cut of both hosts."""
    disk_copy_bytes_per_s: SizeBytes | None = Field(default=None, alias="disk_copy_rate", ge=64 << 10)
    """If given, how much of the disks is copied a second, at most, while the machine is not protected yet."""
    network: Network = Network()
    """The guest's one network card."""
    mode: Mode = "net"
    """What is held back until the standby has it; ``net`` loses nothing that was acknowledged to a client."""
    interval: _AutoOrNs = 100 * _MS
    """The time between checkpoints; ``auto`` adapts it so that the guest is paused for ``overhead`` of the time."""
    min_interval_ns: DurationNs | None = Field(default=None, alias="min_interval", ge=_MS)
    """If given, held output does not wait for ``interval``: it has a checkpoint made at once, but no sooner than this
    after the one before, and never before the guest has run as long as it was paused."""
    overhead: float = Field(default=0.1, ge=0.001, le=0.9)
    """With ``interval = "auto"``: the share of the time for which the guest may be paused."""
    bypass: list[BypassRule] = Field(default=[])
    """Flows that may leave at once, in the mode ``net+bypass``."""
    tracker: Tracker | None = None
    """How written pages are found; default: the best way that the kernel supports."""
    device_state: DeviceState = "xen-save"
    """How QEMU's device state is saved; ``ignore-shared`` is a migration that leaves shared memory out."""
    qemu_user: QemuUserName | None = None
    """The user of this host that runs QEMU; default: a separate user for each QEMU, with no rights but to use KVM."""
    longest_first_pause_ns: DurationNs = Field(default=1_000 * _MS, alias="longest_first_pause")
    """How long the first epoch may take until the standby has it, of a guest that writes faster than pages are shipped;
    if longer, it stays unprotected."""
    longest_hold_ns: DurationNs = Field(default=1_000 * _MS, alias="longest_hold")
    """How long output may wait for its acknowledgement: the guest is slowed down so that it does not, or an alarm; two
    intervals at least."""
    copy_order: int = Field(default=100, ge=0, le=1_000_000)
    """Where a host does not receive all machines at once, those of smaller numbers are copied first."""
    epochs_in_flight: int = Field(default=4, ge=1, le=64)
    """How many epochs may be unacknowledged before the guest has to wait."""
    hold_bytes: SizeBytes = Field(default=64 << 20, alias="hold", ge=1 << 20)
    """The amount of held output at which the guest's network card is no longer read."""
    standby_hosts: list[StandbyHost] = Field(default=[])
    """The hosts that may take over the machine."""
    identity: Identity | None = None
    """This host's certificate, for ``tcp:`` endpoints."""
    register_: Register = Field(default=Register(), alias="register")
    """What decides who may be active."""
    timing: Timing = Timing()
    """Deadlines of the members."""
    log_bytes: SizeBytes = Field(default=16 << 20, alias="log", ge=64 << 10, le=1 << 30)
    """The size limit of each log of a member: ``epochs.csv``, ``events.jsonl`` and ``console.log``, with its older
    half ``NAME.1``."""
    metrics: str | None = Field(default=None, pattern=r"^[0-9A-Za-z.\[\]:-]+:\d{1,5}$")
    """Where Prometheus can scrape: ``127.0.0.1:9464``; after a failover on the other host's address, on this port."""
    allow_faults: bool = False
    """Let a test break a member on purpose, over its control socket."""

    @field_validator("memory_bytes")
    @classmethod
    def _enough(cls, size_bytes: int) -> int:
        if size_bytes < SMALLEST_MEMORY_BYTES:
            raise ValueError(
                f"{size_bytes >> 20} MiB is too little memory, a guest needs {SMALLEST_MEMORY_BYTES >> 20} MiB at least"
            )
        if size_bytes % (1 << 20):
            raise ValueError(f"{size_bytes} bytes of memory are not a whole number of MiB")
        return size_bytes

    @field_validator("interval", mode="before")
    @classmethod
    def _interval(cls, value: Any) -> Any:
        if value == "auto" or not isinstance(value, str):
            return value
        interval_ns = parse_duration_ns(value)
        if interval_ns < SHORTEST_INTERVAL_NS:
            raise ValueError(f'{value!r} is too short; at least {format_duration(SHORTEST_INTERVAL_NS)}, or "auto"')
        return value

    @field_validator("devices")
    @classmethod
    def _protectable(cls, devices: list[str]) -> list[str]:
        for device in devices:
            reason = reason_against(device)
            if reason is not None:
                raise ValueError(
                    f"the device {device!r} cannot be protected: {reason}; those that can: {', '.join(ALLOWED)}"
                )
        return devices

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.virtio == "legacy" and any("non-transitional" in device for device in self.devices):
            raise ValueError('a device that is non-transitional speaks virtio 1.0 only: give virtio = "transitional"')
        if self.initramfs is not None and self.program is not None:
            raise ValueError(f"an initramfs and the program {self.program!r} are both given; one runs in the guest")
        if self.kernel == BOOTS_ITSELF:
            self._boots_from_a_disk()
        elif self.initramfs is None and self.program is None:
            raise ValueError('nothing runs in the guest: give an initramfs, or program = "counter"')
        names = [disk.name for disk in self.disks]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the disk {twice!r} is named twice")
        if self.bypass and self.mode != "net+bypass":
            raise ValueError(f'[[bypass]] is given and the mode is {self.mode!r}; rules count in mode = "net+bypass"')
        if not self.bypass and self.mode == "net+bypass":
            raise ValueError('the mode is "net+bypass" and there is no rule [[bypass]]; "net" holds everything')
        if self.min_interval_ns is not None:
            if self.mode not in HOLDING:
                raise ValueError(f'min_interval is given and the mode is {self.mode!r}; output waits in mode = "net"')
            longest = _FIRST_AUTOMATIC_NS if self.interval == "auto" else self.interval
            if self.min_interval_ns > longest:
                raise ValueError(
                    f"min_interval is {format_duration(self.min_interval_ns)}, which is longer than the interval; at "
                    f"most {format_duration(longest)}"
                )
        if "longest_hold_ns" in self.model_fields_set and self.longest_hold_ns < self._least_hold_ns:
            raise ValueError(
                f"longest_hold is {format_duration(self.longest_hold_ns)}, which is too short for its interval: output "
                f"waits for that and for an acknowledgement, so give {format_duration(self._least_hold_ns)} at least"
            )
        names = [host.name for host in self.standby_hosts]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the standby host {twice!r} is named twice")
        problem = describe_problem(self.standby_hosts, has_identity=self.identity is not None)
        if problem is not None:
            raise ValueError(problem)
        return self

    def _boots_from_a_disk(self) -> None:
        if not self.disks:
            raise ValueError('kernel = "disk" boots from the first disk, and there is none: name it under [[disks]]')
        for key in ("initramfs", "program", "kernel_arguments"):
            if getattr(self, key):
                raise ValueError(f'{key} is given and kernel = "disk": its boot loader has its own')

    @property
    def _least_hold_ns(self) -> int:
        """What output waits for at the least: an interval, and an acknowledgement, for which as much is left."""
        return 0 if self.interval == "auto" or self.mode not in HOLDING else min(2 * self.interval, _LONGEST_NS)

    @property
    def hold_bound_ns(self) -> int:
        """How long output may wait: as given, or the default, which is longer where the interval is."""
        return max(self.longest_hold_ns, self._least_hold_ns)

    @property
    def mac(self) -> str:
        """The guest's address: the one given, or one that follows from the name."""
        if self.network.mac is not None:
            return self.network.mac
        digest = hashlib.sha256(self.name.encode()).digest()
        # 52:54:00 is QEMU's own prefix, locally administered.
        return "52:54:00:" + ":".join(f"{byte:02x}" for byte in digest[:3])

    @property
    def tap(self) -> str:
        """The TAP's name: the one given, or one that follows from the VM's and fits."""
        if self.network.tap is not None:
            return self.network.tap
        plain = f"tap-{self.name}"
        if len(plain) <= LONGEST_INTERFACE_NAME:
            return plain
        return f"tap-{hashlib.sha256(self.name.encode()).hexdigest()[: LONGEST_INTERFACE_NAME - 4]}"


def read_vm_file(path: Path) -> VmFile:
    """Read a ``VM.toml``; relative paths in it are relative to its folder.

    Raises:
        UsageError: It cannot be read, or is wrong; the message names the line.
    """
    return parse_vm_file(read_own_text(path, "VM file"), str(path), path.absolute().parent)


def parse_vm_file(text: str, source: str, folder: Path) -> VmFile:
    """Read the text of a ``VM.toml``.

    Raises:
        UsageError: It is not TOML or not a VM file.
    """
    document = parse(text, source)
    for key in _DISKS & document.keys():
        raise UsageError(
            f"{source}: {key} = {document[key]!r}: disks are tables here",
            hint='write [[disks]] with name = "root" and path = "root.raw" for each',
        )
    try:
        return VmFile.model_validate(with_absolute_paths(document, folder))
    except ValidationError as error:
        raise explain(error, document, text, source, VmFile, _SCHEMA_HINT) from error
