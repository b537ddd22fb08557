"""A domain of libvirt (``virsh dumpxml``) as a machine that is protected.

What is known is taken, replaced by its equal, or dropped, and each of the latter two is told. What cannot be left out
without changing what the guest is, and what is not known, is refused by name. Nothing is passed through: of each
element only the keys that are named here are read (https://libvirt.org/formatdomain.html).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from stealtime.protect.disk_images import ImageFormat
from stealtime.protect.disks import DiskBus
from stealtime.protect.importing import Imported, Importing
from stealtime.protect.vm_file import BOOTS_ITSELF
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.own_text import read_own_text

_ACCELERATORS = {"kvm": "kvm", "qemu": "tcg"}
_UNITS = {
    **{"b": 1, "bytes": 1, "KB": 10**3, "k": 2**10, "KiB": 2**10, "MB": 10**6, "M": 2**20, "MiB": 2**20},
    **{"GB": 10**9, "G": 2**30, "GiB": 2**30, "TB": 10**12, "T": 2**40, "TiB": 2**40},
}
_IGNORED = frozenset(
    {
        *(
            "name",
            "uuid",
            "title",
            "description",
            "metadata",
            "memory",
            "currentMemory",
            "vcpu",
            "os",
            "devices",
            "cpu",
        ),
        *("on_poweroff", "on_reboot", "on_crash", "on_lockfailure", "pm", "perf", "resource", "genid", "features"),
        *("clock", "seclabel"),
    }
)
"""Read elsewhere, or of no meaning for what the guest is."""
_DROPPED = {
    "memoryBacking": "how the memory is backed (it is a shared file here)",
    "memtune": "limits of memory",
    "cputune": "where virtual CPUs run, and their shares",
    "numatune": "where the memory is",
    "blkiotune": "shares of disks",
    "iothreads": "threads of disks",
    "iothreadids": "threads of disks",
    "keywrap": "keys of the host",
}
_DROPPED_DEVICES = {
    "emulator": None,
    "input": "keyboard or mouse",
    "graphics": "the screen (VNC, SPICE)",
    "video": "the graphics adapter",
    "sound": "sound",
    "audio": None,
    "memballoon": "the balloon of memory",
    "channel": "a channel to an agent",
    "redirdev": "a redirected USB device",
    "redirfilter": None,
    "hub": "a USB hub",
    "controller": None,
    "serial": "a serial port: what the guest says on its first one is kept in the member's console.log",
    "console": None,
}
"""Without which a server is the same; in words, or nothing to say."""
_REFUSED_DEVICES = {
    "hostdev": "a passed-through device writes memory that no page table shows",
    "filesystem": "a folder of the host is no part of the guest that could be copied",
    "tpm": "the state of a TPM is not replicated",
    "vsock": "what leaves the guest through it would not be held",
    "shmem": "another process writes that memory",
    "memory": "memory in modules is not tracked",
    "iommu": "its state is not known to be saved",
    "smartcard": "its state is outside of the guest",
    "nvram": "its state is not known to be saved",
    "lease": "locks of libvirt are not taken",
    "crypto": "its state is not known to be saved",
    "pstore": "its state is outside of the guest",
}


@dataclass
class _Domain(Importing):
    scsi_controllers: frozenset[str] = frozenset()
    """Their models."""


def read_domain(path: Path, bridge: str | None = None) -> Imported:
    """Read a domain's XML.

    Args:
        path: The file, as ``virsh dumpxml`` prints it.
        bridge: The bridge that its network card is to join; None: the one that it names.

    Raises:
        UsageError: It is none, or has what cannot be protected; the message names it.
    """
    domain = _Domain(str(path), bridge)
    root = _parse(domain, read_own_text(path, "domain"))
    _take_head(domain, root)
    _take_boot(domain, root)
    _take_devices(domain, root)
    return domain.finish()


def _parse(domain: _Domain, text: str) -> Element:
    hint = "give what `virsh dumpxml NAME` prints"
    try:
        root: Element = fromstring(text.encode(), forbid_dtd=True)
    except (DefusedXmlException, ParseError, LookupError, ValueError) as error:
        raise UsageError(
            f"{domain.source} is no domain of libvirt: {error or type(error).__name__}", hint=hint
        ) from None
    if root.tag != "domain":
        raise UsageError(f"{domain.source} is no domain of libvirt: it begins with <{root.tag}>", hint=hint)
    return root


def _take_head(domain: _Domain, root: Element) -> None:
    kind = root.get("type", "")
    if kind not in _ACCELERATORS:
        raise domain.refuse(f"a domain of type {kind!r}", "only those of kvm and qemu are machines of QEMU")
    domain.machine["accelerator"] = _ACCELERATORS[kind]
    domain.take_name((root.findtext("name") or "").strip())
    domain.machine["memory"] = _bytes_of(domain, root.find("memory"))
    current = root.find("currentMemory")
    if current is not None and _bytes_of(domain, current) != domain.machine["memory"]:
        domain.drop("a smaller current memory: the guest has all of its memory")
    vcpu = root.find("vcpu")
    domain.machine["vcpus"] = int(vcpu.text or "1") if vcpu is not None and (vcpu.text or "1").strip().isdigit() else 1
    for element in root:
        if element.tag in _DROPPED:
            domain.drop(_DROPPED[element.tag])
        elif element.tag not in _IGNORED:
            raise domain.refuse(f"<{element.tag}>", "it is not known what the guest would be without it")
    clock = root.find("clock")
    if clock is not None and clock.get("offset", "utc") != "utc":
        raise domain.refuse(f"a clock of offset {clock.get('offset')!r}", "the guest's real-time clock is in UTC")
    _take_processor(domain, root)


def _bytes_of(domain: _Domain, element: Element | None) -> str:
    text = ((element.text if element is not None else None) or "").strip()
    unit = element.get("unit", "KiB") if element is not None else "KiB"
    if not text.isdigit() or unit not in _UNITS:
        raise domain.refuse(f"memory of {text} {unit}".replace("  ", " "), "that is no size")
    return f"{int(text) * _UNITS[unit]}B"


def _take_processor(domain: _Domain, root: Element) -> None:
    emulated = domain.machine["accelerator"] == "tcg"
    domain.machine["cpu"] = "max" if emulated else "host"
    processor = root.find("cpu")
    if processor is not None:
        model = (processor.findtext("model") or "").strip()
        if processor.get("mode", "custom") == "custom" and model and not emulated:
            domain.machine["cpu"] = model
        elif model or processor.get("mode"):
            domain.replace(f"the CPU ({model or processor.get('mode')})", f"QEMU's model {domain.machine['cpu']!r}")
        if processor.find("feature") is not None:
            domain.drop("single features of the CPU")
        if processor.find("numa") is not None:
            raise domain.refuse("memory in NUMA nodes", "a machine has one block of memory")
    features = root.find("features")
    for name in ("hyperv", "kvm", "xen"):
        if features is not None and features.find(name) is not None:
            domain.drop(f"enlightenments ({name})")


def _take_boot(domain: _Domain, root: Element) -> None:
    system = root.find("os")
    kind = None if system is None else system.find("type")
    if system is None or kind is None or (kind.text or "").strip() != "hvm":
        raise domain.refuse("what is no whole machine (os type hvm)", "QEMU boots only those")
    if kind.get("arch", "x86_64") != "x86_64":
        raise domain.refuse(f"the architecture {kind.get('arch')!r}", "only x86_64 is")
    loader = system.find("loader")
    is_flash = loader is not None and loader.get("type") == "pflash"
    if system.get("firmware") == "efi" or system.find("nvram") is not None or is_flash:
        raise domain.refuse("UEFI", "its variables are not replicated", "let it boot by BIOS")
    domain.machine["machine"] = kind.get("machine", "pc")
    kernel = (system.findtext("kernel") or "").strip()
    if not kernel:
        domain.machine["kernel"] = BOOTS_ITSELF
        return
    domain.machine["kernel"] = kernel
    if initrd := (system.findtext("initrd") or "").strip():
        domain.machine["initramfs"] = initrd
    domain.machine["kernel_arguments"] = (system.findtext("cmdline") or "").strip()


def _take_devices(domain: _Domain, root: Element) -> None:
    domain.machine["devices"] = []
    controllers = (one for one in _devices(root) if one.tag == "controller" and one.get("type") == "scsi")
    domain.scsi_controllers = frozenset(one.get("model", "lsilogic") for one in controllers)
    take: dict[str, Callable[[_Domain, Element], None]] = {
        "disk": _take_disk,
        "interface": _take_interface,
        "rng": _take_rng,
        "watchdog": _take_watchdog,
        "panic": _take_panic,
    }
    for device in _devices(root):
        if device.tag in take:
            take[device.tag](domain, device)
        elif device.tag in _REFUSED_DEVICES:
            raise domain.refuse(f"a device <{device.tag}>", _REFUSED_DEVICES[device.tag], "take it out of the domain")
        elif device.tag in _DROPPED_DEVICES:
            words = _DROPPED_DEVICES[device.tag]
            if words is not None:
                domain.drop(words)
        else:
            raise domain.refuse(f"a device <{device.tag}>", "it is not known that all its state is saved")


def _devices(root: Element) -> Iterator[Element]:
    devices = root.find("devices")
    yield from () if devices is None else devices


def _attribute(element: Element, path: str, name: str) -> str:
    found = element.find(path)
    return "" if found is None else found.get(name, "")


def _take_disk(domain: _Domain, disk: Element) -> None:
    target, kind = _attribute(disk, "target", "dev"), disk.get("device", "disk")
    what = f"the {kind} {target or '(without a target)'}"
    if kind in ("cdrom", "floppy"):
        domain.drop(what)
        return
    if kind != "disk":
        raise domain.refuse(what, "only disks are copied")
    source = {"file": "file", "block": "dev"}.get(disk.get("type", ""))
    if source is None:
        raise domain.refuse(f"{what} of type {disk.get('type')!r}", "only images in files and block devices are copied")
    path = _attribute(disk, "source", source)
    image_format = _attribute(disk, "driver", "type")
    if image_format not in get_args(ImageFormat):
        raise domain.refuse(
            f"{what} with an image of the format {image_format or 'unknown'!r}",
            "only raw ones and qcow2 are",
            f"qemu-img convert -O qcow2 {path} {target}.qcow2",
        )
    bus = _attribute(disk, "target", "bus")
    if bus not in get_args(DiskBus):
        raise domain.refuse(f"{what} on the bus {bus!r}", "only virtio and scsi are", "give it bus='virtio'")
    if bus == "scsi" and domain.scsi_controllers != {"virtio-scsi"}:
        models = ", ".join(sorted(domain.scsi_controllers)) or "none"
        raise domain.refuse(
            f"{what} on a SCSI controller of the model {models}", "only virtio-scsi is", "give it model='virtio-scsi'"
        )
    for tag in ("readonly", "shareable", "transient", "encryption", "backingStore"):
        found = disk.find(tag)
        # An image without a backing file says so by an empty element.
        if found is not None and not (tag == "backingStore" and not len(found) and not found.attrib):
            raise domain.refuse(f"{what}, which is {tag}", "a disk is one image that the guest writes alone")
    for tag in ("iotune", "throttlefilters"):
        if disk.find(tag) is not None:
            domain.drop(f"limits of {what}")
    domain.add_disk(target, path, image_format, bus)


def _take_interface(domain: _Domain, interface: Element) -> None:
    what = "a network card" if (mac := _attribute(interface, "mac", "address")) == "" else f"the network card {mac}"
    if (model := _attribute(interface, "model", "type")) not in ("virtio", "virtio-non-transitional"):
        raise domain.refuse(
            f"{what} of the model {model or 'unknown'!r}", "only virtio is", "give it model type='virtio'"
        )
    if model != "virtio":
        domain.machine["virtio"] = "transitional"
    for tag in ("vlan", "virtualport", "filterref", "port"):
        if interface.find(tag) is not None:
            raise domain.refuse(f"{what} with <{tag}>", "its frames would go another way")
    for tag in ("bandwidth", "tune"):
        if interface.find(tag) is not None:
            domain.drop(f"limits of {what} (<{tag}>)")
    if _attribute(interface, "driver", "name") != "qemu":
        domain.replace(f"vhost for {what}", "QEMU's own")
    # A network of libvirt has one as well, which is told of a domain that runs.
    joins = interface.get("type") in ("bridge", "network")
    bridge = _attribute(interface, "source", "bridge") if joins else ""
    hint = "name it with --bridge, or <interface type='bridge'><source bridge='br0'/>"
    domain.add_card(f"{what} of type {interface.get('type')!r}", mac, bridge or None, hint)


def _take_rng(domain: _Domain, rng: Element) -> None:
    if rng.get("model", "").startswith("virtio"):
        domain.machine["devices"].append("virtio-rng-pci")
    else:
        domain.drop(f"a random number generator of the model {rng.get('model')!r}")


def _take_watchdog(domain: _Domain, watchdog: Element) -> None:
    if watchdog.get("model") == "i6300esb":
        domain.machine["devices"].append("i6300esb")
    else:
        domain.drop(f"the watchdog {watchdog.get('model')!r}")


def _take_panic(domain: _Domain, panic: Element) -> None:
    if panic.get("model", "isa") == "isa":
        domain.machine["devices"].append("pvpanic")
    else:
        domain.drop(f"the panic device {panic.get('model')!r}")
