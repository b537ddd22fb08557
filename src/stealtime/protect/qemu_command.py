"""A command line of QEMU (``qm showcmd`` of Proxmox, ``virsh domxml-to-native``) as a machine that is protected.

What is known is taken, replaced by its equal, or dropped, and each of the latter two is told. What cannot be left out
without changing what the guest is, and what is not known, is refused by name. Nothing is passed through: of each option
only the keys that are named here are read.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from stealtime.protect.disk_images import ImageFormat
from stealtime.protect.importing import Imported, Importing
from stealtime.protect.qemu_options import Values, is_on, nested, options_of, values_of
from stealtime.protect.vm_file import BOOTS_ITSELF
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.own_text import read_own_text

_SILENT = frozenset(
    {
        *("S", "chardev", "D", "d", "daemonize", "display", "id", "iscsi", "mon", "monitor", "msg", "no-shutdown"),
        *("no-user-config", "nodefaults", "nographic", "overcommit", "pidfile", "qmp", "runas", "sandbox", "uuid"),
        *("vga", "k", "no-hpet", "only-migratable", "parallel", "trace", "audiodev", "no-fd-bootchk"),
    }
)
"""Of no meaning for what the guest is, or of parts of the machine that are told with their device."""
_DROPPED = {
    "boot": "the order in which it boots: the first disk has the boot loader",
    "global": "defaults of devices (-global)",
    "no-reboot": "an end at the guest's reboot",
    "serial": "a serial port: what the guest says on its first one is kept in the member's console.log",
    "smbios": "what the BIOS tells of the machine (-smbios)",
    "spice": "the screen (VNC, SPICE)",
    "vnc": "the screen (VNC, SPICE)",
    "usb": "USB",
    "cdrom": "a CD-ROM drive",
}
_UEFI = ("UEFI", "its variables are not replicated", "let it boot by BIOS")
_REFUSED = {
    "acpitable": ("tables of ACPI of its own", "its guest would find others"),
    "bios": ("a firmware of its own", "only QEMU's BIOS is known to be the same everywhere"),
    "fsdev": ("a folder of the host", "it is no part of the guest that could be copied"),
    "fw_cfg": ("values for the firmware", "they are not taken along"),
    "incoming": ("a machine that waits for a state", "it is booted here"),
    "loadvm": ("a saved state", "a machine is booted"),
    "nic": ("a network card by -nic", "which bridge it joins is not said"),
    "pflash": _UEFI,
    "set": ("values that -set gives to devices", "they are not taken along", "give them with -device"),
    "snapshot": ("a disk whose changes are thrown away", "a disk is one image that the guest writes"),
    "tpmdev": ("a TPM", "its state is not replicated"),
    "virtfs": ("a folder of the host", "it is no part of the guest that could be copied"),
}
_DROPPED_DEVICES = (
    (r"VGA|.*-vga|virtio-gpu.*|qxl.*|cirrus-vga|bochs-display|secondary-vga|virtio-vga.*", "the graphics adapter"),
    (r"usb-(tablet|mouse|kbd|hub|ccid)|virtio-(keyboard|mouse|tablet).*", "keyboard or mouse"),
    (r"(piix3|piix4|ich9|vt82c686b)-usb-.*|.*-xhci|usb-ehci|usb-redir", "USB"),
    (r"virtserialport|virtconsole|virtio-serial.*", "a channel to an agent"),
    (r"isa-serial|pci-serial", _DROPPED["serial"]),
    (r"virtio-balloon.*", "the balloon of memory"),
    (r"ide-cd|scsi-cd", "a CD-ROM drive"),
    (r"intel-hda|ich9-intel-hda|hda-.*|AC97", "sound"),
    (r"vmgenid", "the number of the machine's generation"),
    (r"pci-bridge|pcie-root-port|ioh3420|i82801b11-bridge|pcie-pci-bridge|ahci|ich9-ahci", None),
)
_REFUSED_DEVICES = (
    (r"vfio-.*", "a passed-through device writes memory that no page table shows"),
    (r"vhost-.*", "another process or the kernel writes the guest's memory"),
    (r"tpm-.*", "the state of a TPM is not replicated"),
    (r"ide-hd|ide-drive|nvme.*|usb-storage|scsi-block|scsi-generic|sd-card", "disks are on virtio or virtio-scsi"),
    (r"e1000.*|rtl8139|ne2k.*|vmxnet3|pcnet|i82.*", "only a virtio network card is"),
    (r".*9p.*|.*-fs.*", "a folder of the host is no part of the guest that could be copied"),
    (r"ivshmem.*", "another process writes that memory"),
    (r"pc-dimm|nvdimm|virtio-mem.*", "memory in modules is not tracked"),
)
_DISK_DEVICES = {"virtio-blk-pci": "virtio", "virtio-blk": "virtio", "scsi-hd": "scsi"}
_CARDS = ("virtio-net-pci", "virtio-net", "virtio-net-pci-non-transitional", "virtio-net-pci-transitional")
_SCSI_CONTROLLERS = ("virtio-scsi-pci", "virtio-scsi", "virtio-scsi-pci-non-transitional")
_UNITS = {"": 1 << 20, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LAYERS = frozenset({"throttle", "copy-on-read"})
"""Drivers of a block graph through which content goes unchanged."""
_FILES = frozenset({"file", "host_device"})


@dataclass
class _Command(Importing):
    drives: dict[str, Values] = field(default_factory=dict)
    nodes: dict[str, Values] = field(default_factory=dict)
    netdevs: dict[str, Values] = field(default_factory=dict)
    devices: list[Values] = field(default_factory=list)


def read_command(path: Path, bridge: str | None = None) -> Imported:
    """Read a command line from a file.

    Args:
        path: The file; one option a line with a backslash at its end, or all in one.
        bridge: The bridge that its network card is to join; a command line names it seldom.

    Raises:
        UsageError: It is none, or has what cannot be protected; the message names it.
    """
    command = _Command(str(path), bridge)
    command.machine = {"accelerator": "tcg", "vcpus": 1, "memory": "128MiB", "devices": [], "kernel": BOOTS_ITSELF}
    try:
        for option, value in options_of(read_own_text(path, "command line")):
            _take(command, option, value)
    except ValueError as error:
        raise UsageError(
            f"{path} is no command line of QEMU: {error}", hint="give what `qm showcmd ID --pretty` prints"
        ) from None
    if "name" not in command.machine:
        raise command.refuse(
            "a machine without -name", "its name is that of its folder and its record", "add -name NAME"
        )
    for device in command.devices:
        _take_device(command, device)
    _take_processor(command)
    return command.finish()


def _take(command: _Command, option: str, text: str) -> None:
    if option in _SILENT:
        return
    if option in _DROPPED:
        command.drop(_DROPPED[option])
    elif option in _REFUSED:
        raise command.refuse(*_REFUSED[option])
    elif option in _TAKEN:
        _TAKEN[option](command, text)
    else:
        raise command.refuse(f"-{option}", "it is not known what the guest would be without it")


def _take_name(command: _Command, text: str) -> None:
    command.take_name(str(values_of(text, "guest").get("guest", "")))


def _take_memory(command: _Command, text: str) -> None:
    values = values_of(text, "size")
    found = re.fullmatch(r"(\d+)([kKmMgGtT]?)[bB]?", str(values.get("size", "")))
    if found is None:
        raise command.refuse(f"memory of {text}", "that is no size")
    command.machine["memory"] = f"{int(found[1]) * _UNITS[found[2].lower()]}B"
    if "slots" in values or "maxmem" in values:
        command.drop("room for more memory while it runs")


def _take_cpus(command: _Command, text: str) -> None:
    values = values_of(text, "cpus")

    def number(key: str, default: int) -> int:
        word = str(values.get(key, default))
        if not word.isdigit():
            raise command.refuse(f"-smp {text}", f"{word!r} is no number")
        return int(word)

    sockets, dies, cores, threads = (number(key, 1) for key in ("sockets", "dies", "cores", "threads"))
    cpus = number("cpus", sockets * dies * cores * threads)
    command.machine["vcpus"] = cpus
    if number("maxcpus", cpus) > cpus:
        command.drop("room for more virtual CPUs while it runs")
    if max(sockets, dies, threads) > 1:
        command.replace("sockets, dies and threads of virtual CPUs", "one socket with as many cores")


def _take_cpu(command: _Command, text: str) -> None:
    values = values_of(text, "model")
    command.machine["cpu"] = str(values.pop("model", "max"))
    if values:
        command.drop("single features of the CPU")


def _take_processor(command: _Command) -> None:
    model = command.machine.get("cpu")
    if command.machine["accelerator"] == "tcg":
        if model not in (None, "max"):
            command.replace(f"the CPU ({model})", "QEMU's model 'max'")
        command.machine["cpu"] = "max"
    elif model is None:
        command.machine["cpu"] = "host"


def _take_machine(command: _Command, text: str) -> None:
    values = values_of(text, "type")
    kind = str(values.get("type", "pc"))
    # Proxmox counts its own changes of a type.
    own = re.sub(r"\+pve\d+$", "", kind)
    if own != kind:
        command.replace(f"the machine type {kind}", own)
    command.machine["machine"] = own
    if "accel" in values:
        _take_accelerator(command, str(values["accel"]))
    if any(key.startswith("pflash") for key in values):
        raise command.refuse(*_UEFI)
    if "confidential-guest-support" in values:
        raise command.refuse("an encrypted guest", "nobody else can read its memory")


def _take_accelerator(command: _Command, text: str) -> None:
    accelerator = str(values_of(text, "accel").get("accel", "")).split(":")[0]
    if accelerator not in ("kvm", "tcg"):
        raise command.refuse(f"the accelerator {accelerator!r}", "only kvm and tcg are")
    command.machine["accelerator"] = accelerator


def _take_clock(command: _Command, text: str) -> None:
    if (base := values_of(text, "base").get("base", "utc")) != "utc":
        raise command.refuse(f"a clock that begins at {base!r}", "the guest's real-time clock is in UTC")


def _take_object(command: _Command, text: str) -> None:
    kind = str(values_of(text, "qom-type").get("qom-type", ""))
    if kind.startswith("memory-backend"):
        command.drop("how the memory is backed (it is a shared file here)")
    elif kind in ("iothread", "throttle-group"):
        command.drop("threads and limits of disks")
    elif not kind.startswith(("rng-", "secret")):
        raise command.refuse(f"an object {kind!r}", "it is not known what the guest would be without it")


def _take_drive(command: _Command, text: str) -> None:
    values = values_of(text, "file")
    kind = values.get("if", "ide")
    if values.get("media") == "cdrom":
        command.drop("a CD-ROM drive")
    elif kind == "pflash":
        raise command.refuse(*_UEFI)
    elif kind == "virtio":
        _add_disk(command, f"drive{len(command.machine.get('disks', []))}", values, "virtio")
    elif kind != "none":
        raise command.refuse(f"a disk on the bus {kind!r}", "disks are on virtio or virtio-scsi")
    command.drives[str(values.get("id", ""))] = values


def _take_blockdev(command: _Command, text: str) -> None:
    values = nested(values_of(text, "driver"))
    command.nodes[str(values.get("node-name", ""))] = values


def _take_netdev(command: _Command, text: str) -> None:
    values = values_of(text, "type")
    command.netdevs[str(values.get("id", ""))] = values


def _keep_device(command: _Command, text: str) -> None:
    command.devices.append(values_of(text, "driver"))


def _take_device(command: _Command, device: Values) -> None:
    name = str(device.get("driver", ""))
    if name in _DISK_DEVICES:
        _take_disk(command, device, _DISK_DEVICES[name])
    elif name in _CARDS:
        _take_card(command, device)
    elif name in _SCSI_CONTROLLERS:
        pass  # It comes with its disks.
    elif name.startswith("virtio-rng"):
        command.machine["devices"].append("virtio-rng-pci")
    elif name in ("i6300esb", "pvpanic", "pvpanic-pci"):
        command.machine["devices"].append(name)
    else:
        _drop_or_refuse(command, name)


def _drop_or_refuse(command: _Command, name: str) -> None:
    for pattern, why in _REFUSED_DEVICES:
        if re.fullmatch(pattern, name):
            raise command.refuse(f"the device {name}", why)
    for pattern, words in _DROPPED_DEVICES:
        if re.fullmatch(pattern, name):
            if words is not None:
                command.drop(words)
            return
    raise command.refuse(f"the device {name}", "it is not known that all its state is saved")


def _take_disk(command: _Command, device: Values, bus: str) -> None:
    drive = str(device.get("drive", ""))
    name = re.sub(r"[^A-Za-z0-9._-]", "-", str(device.get("id", drive)))[:20]
    if bus == "scsi" and not any(str(one.get("driver")) in _SCSI_CONTROLLERS for one in command.devices):
        raise command.refuse(f"the disk {name} on another SCSI controller", "only virtio-scsi is")
    if drive in command.drives:
        _add_disk(command, name, command.drives[drive], bus)
    elif drive in command.nodes:
        _add_disk(command, name, _resolved(command, name, command.nodes[drive]), bus)
    else:
        raise command.refuse(f"the disk {name}", f"there is no drive {drive!r}")


def _resolved(command: _Command, name: str, node: Values) -> Values:
    """Give a block graph as a ``-drive`` says the same."""
    is_read_only, image_format = False, None
    for _ in range(8):
        is_read_only = is_read_only or is_on(node, "read-only")
        driver = node.get("driver")
        if driver in _FILES:
            path = node.get("filename", "")
            return {"file": path, "format": image_format or "raw", "readonly": "on" if is_read_only else "off"}
        if node.get("backing"):
            raise command.refuse(f"the disk {name}, which has a backing file", "a disk is one image")
        if driver in _LAYERS:
            command.drop(f"limits of the disk {name}")
        elif image_format is None:
            image_format = str(driver)
        else:
            raise command.refuse(
                f"the disk {name} behind the driver {driver!r}", "only files and block devices are copied"
            )
        below = node.get("file")
        node = command.nodes.get(below, {}) if isinstance(below, str) else dict(below or {})
    raise command.refuse(f"the disk {name}", "its block graph has no file at its end")


def _add_disk(command: _Command, name: str, drive: Values, bus: str) -> None:
    what = f"the disk {name}"
    path, image_format = str(drive.get("file", "")), drive.get("format")
    if is_on(drive, "readonly") or is_on(drive, "read-only") or is_on(drive, "snapshot"):
        raise command.refuse(f"{what}, which is not written", "a disk is one image that the guest writes")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path):
        raise command.refuse(f"{what} at {path}", "only files and block devices are copied")
    if image_format not in get_args(ImageFormat):
        why = "its format is not said" if image_format is None else f"only {' and '.join(get_args(ImageFormat))} are"
        raise command.refuse(f"{what} of the format {image_format or 'unknown'!r}", why)
    if any("iops" in key or "bps" in key or key.startswith("throttling") for key in drive):
        command.drop(f"limits of {what}")
    command.add_disk(name, path, str(image_format), bus)


def _take_card(command: _Command, device: Values) -> None:
    netdev = command.netdevs.get(str(device.get("netdev", "")), {})
    mac = str(device.get("mac", "")).lower()
    what = f"the network card {mac}".strip()
    if netdev.get("type") not in ("tap", "bridge"):
        raise command.refuse(f"{what} of the type {netdev.get('type', 'unknown')!r}", "it joins a bridge, or none")
    if is_on(netdev, "vhost"):
        command.replace(f"vhost for {what}", "QEMU's own")
    if str(device.get("driver")).endswith("non-transitional"):
        command.machine["virtio"] = "transitional"
    bridge = netdev.get("br", "br0") if netdev.get("type") == "bridge" else None
    command.add_card(what, mac, bridge, "name it with --bridge, e.g. --bridge vmbr0")


_TAKEN: dict[str, Callable[[_Command, str], None]] = {
    "name": _take_name,
    "m": _take_memory,
    "smp": _take_cpus,
    "cpu": _take_cpu,
    "machine": _take_machine,
    "M": _take_machine,
    "accel": _take_accelerator,
    "enable-kvm": lambda command, _: _take_accelerator(command, "kvm"),
    "rtc": _take_clock,
    "object": _take_object,
    "drive": _take_drive,
    "blockdev": _take_blockdev,
    "netdev": _take_netdev,
    "device": _keep_device,
    "kernel": lambda command, text: command.machine.update(kernel=text),
    "initrd": lambda command, text: command.machine.update(initramfs=text),
    "append": lambda command, text: command.machine.update(kernel_arguments=text),
}
