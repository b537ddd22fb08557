"""From the user's choice of a kernel to a file that QEMU boots and the folder with its modules.

``rt`` (the default), ``rt-new``, ``cloud``, ``standard`` and ``backports`` come from Debian packages, ``host`` is what
this machine runs, anything else is the path of a bzImage or vmlinux. The uncompressed kernel is booted wherever it has
a PVH entry. From start to the first byte from ``/init`` under TCG (QEMU 7.2, idle host with 2 CPUs, 2026-11-21; one
boot each on ``pc`` and on ``q35``): RT bzImage 5.5 and 5.2 s, vmlinux 2.2 and 2.0 s; cloud bzImage 2.1 and 2.1 s,
vmlinux 1.9 and 1.8 s.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stealtime.lab.image import debian
from stealtime.lab.image.bzimage import KernelImageError, extract_vmlinux, is_bzimage
from stealtime.lab.image.bzimage import read_version_text as read_bzimage_version
from stealtime.lab.image.cache import cache_folder, obtain_entry, read_entry, remembered_hash, write_atomically
from stealtime.lab.image.vmlinux import has_pvh_entry
from stealtime.lab.image.vmlinux import read_version_text as read_vmlinux_version
from stealtime.vocabulary.errors import UsageError

_HEAD_BYTES = 0x250
_VMLINUX_FILE = "vmlinux"
_RELEASE = re.compile(r"[\w.+~-]+")


@dataclass(frozen=True)
class Kernel:
    """A kernel that a guest can boot."""

    choice: str
    """What the user chose: ``rt``, ``rt-new``, ``cloud``, ``standard``, ``backports``, ``host`` or a path."""
    release: str
    """As ``uname -r`` will say in the guest."""
    version_text: str
    """The whole version, with build host and date."""
    boot_image: Path
    """What QEMU is given."""
    boot_format: Literal["vmlinux", "bzimage"]
    sha256: str
    """Of the image that the kernel came in."""
    modules_folder: Path | None
    """``.../lib/modules/RELEASE`` with ``modules.dep``, or None if there is none: drivers must then be built in."""


def find_kernel(choice: str) -> Kernel:
    """Find, and where needed fetch and unpack, a guest kernel.

    No network and no apt once it is cached: which package was taken is remembered.

    Args:
        choice: ``rt``, ``rt-new``, ``cloud``, ``standard``, ``backports``, ``host`` or the path of a bzImage or
            vmlinux.

    Raises:
        UsageError: The path is not a kernel, or the host's kernel is not readable.
        StealtimeError: The package cannot be had.
    """
    if choice in debian.META_PACKAGES:
        return _find_debian_kernel(choice)
    if choice == "host":
        return _find_host_kernel()
    return _find_kernel_file(choice, Path(choice))


def check_kernel(choice: str) -> None:
    """See that a choice can be a kernel, without fetching any: a package that is not cached is fetched by a boot.

    Raises:
        UsageError: The path is not a kernel, or the host's kernel is not readable.
    """
    if choice not in debian.META_PACKAGES:
        find_kernel(choice)


def is_cached(choice: str) -> bool:
    """Tell whether ``find_kernel`` would answer without fetching anything; costs a few file look-ups."""
    if choice not in debian.META_PACKAGES:
        return True
    folder = _remembered_folder(choice)
    return folder is not None and read_entry(folder) is not None


def _find_debian_kernel(choice: str) -> Kernel:
    folder = _remembered_folder(choice)
    entry = read_entry(folder) if folder is not None else None
    if folder is None or entry is None:
        package = debian.resolve_package(debian.META_PACKAGES[choice])
        folder = _kernels_folder() / f"{package.name}_{package.version.replace(':', '%3a')}"

        def build(partial: Path) -> tuple[list[str], Mapping[str, str]]:
            release = debian.unpack_package(package, partial)
            name = f"boot/vmlinuz-{release}"
            facts = _add_vmlinux(partial / name, partial)
            relied_on = [name, f"lib/modules/{release}/modules.dep"]
            return relied_on + ([_VMLINUX_FILE] if facts["format"] == "vmlinux" else []), facts

        entry = obtain_entry(folder, build)
        write_atomically(_lookup_path(choice), json.dumps({"folder": folder.name}))
    facts = entry.facts
    image = f"boot/vmlinuz-{facts['release']}"
    return Kernel(
        choice=choice,
        release=facts["release"],
        version_text=facts["version"],
        boot_image=folder / (_VMLINUX_FILE if facts["format"] == "vmlinux" else image),
        boot_format="vmlinux" if facts["format"] == "vmlinux" else "bzimage",
        sha256=entry.files[image].sha256,
        modules_folder=folder / "lib" / "modules" / facts["release"],
    )


def _find_host_kernel() -> Kernel:
    release = os.uname().release
    path = Path("/boot") / f"vmlinuz-{release}"
    if not os.access(path, os.R_OK):
        state = "is not readable" if path.exists() else "does not exist"
        raise UsageError(
            f"the kernel 'host' cannot be used: {path} {state}", hint="use `rt`, `cloud` or the path of a kernel image"
        )
    return _find_kernel_file("host", path)


def _find_kernel_file(choice: str, path: Path) -> Kernel:
    path = path.absolute()
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        sha256 = remembered_hash(path)
    except OSError as error:
        raise UsageError(
            f"the kernel {choice!r} cannot be read: {error.strerror}",
            hint="use `rt`, `cloud`, `host` or the path of a bzImage or vmlinux",
        ) from error
    if not is_bzimage(head) and not head.startswith(b"\x7fELF"):
        raise UsageError(
            f"the file {choice!r} is not a kernel: it begins with {head[:4].hex() or 'nothing'}",
            hint="give a bzImage (as /boot/vmlinuz-*) or an ELF vmlinux",
        )
    folder = _kernels_folder() / f"file-{sha256[:32]}"

    def build(partial: Path) -> tuple[list[str], Mapping[str, str]]:
        facts = _add_vmlinux(path, partial)
        return ([_VMLINUX_FILE] if facts["format"] == "vmlinux" and facts["extracted"] == "yes" else []), facts

    try:
        facts = obtain_entry(folder, build).facts
    except KernelImageError as error:
        raise UsageError(f"the kernel {choice!r} cannot be used: {error.message}", hint="is it complete?") from error
    return Kernel(
        choice=choice,
        release=facts["release"],
        version_text=facts["version"],
        boot_image=folder / _VMLINUX_FILE if facts["extracted"] == "yes" else path,
        boot_format="vmlinux" if facts["format"] == "vmlinux" else "bzimage",
        sha256=sha256,
        modules_folder=_find_modules(path, facts["release"]),
    )


def _add_vmlinux(image_path: Path, folder: Path) -> dict[str, str]:
    """Write ``vmlinux`` into ``folder`` if the image is a bzImage around a kernel with a PVH entry; give its facts."""
    image = image_path.read_bytes()
    if not is_bzimage(image[:_HEAD_BYTES]):
        if not has_pvh_entry(image):
            raise KernelImageError("the ELF kernel has no PVH entry (CONFIG_PVH), so QEMU cannot boot it")
        version = read_vmlinux_version(image)
        return {"release": _release_of(version), "version": version, "format": "vmlinux", "extracted": "no"}
    version = read_bzimage_version(image)
    vmlinux = extract_vmlinux(image)
    facts = {"release": _release_of(version), "version": version, "format": "bzimage", "extracted": "no"}
    if has_pvh_entry(vmlinux):
        (folder / _VMLINUX_FILE).write_bytes(vmlinux)
        facts |= {"format": "vmlinux", "extracted": "yes"}
    return facts


def _release_of(version_text: str) -> str:
    release = version_text.split(" ", 1)[0]
    # It becomes a part of paths.
    if not _RELEASE.fullmatch(release):
        raise KernelImageError(f"the kernel reports the release {release!r}, which is not a release")
    return release


def _find_modules(image: Path, release: str) -> Path | None:
    """Look beside the image (an unpacked package, a build's staging folder), then where the host keeps its own."""
    beside = (image.parent, image.parent.parent)
    candidates = [folder / "lib" / "modules" / release for folder in beside] + [Path("/lib/modules") / release]
    return next((folder for folder in candidates if (folder / "modules.dep").is_file()), None)


def _kernels_folder() -> Path:
    return cache_folder() / "kernels"


def _lookup_path(choice: str) -> Path:
    return _kernels_folder() / f"lookup-{choice}.json"


def _remembered_folder(choice: str) -> Path | None:
    try:
        name = json.loads(_lookup_path(choice).read_text())["folder"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return _kernels_folder() / str(name)
