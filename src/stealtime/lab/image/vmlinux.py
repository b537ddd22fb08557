"""The uncompressed ELF kernel: what release it is, and whether it can be entered directly (PVH).

PVH (Xen ``docs/misc/pvh.pandoc``; Linux 4.20, QEMU 4.0) lets QEMU jump into the ELF file through the address in the ELF
note ``Xen`` of type 18. The guest then skips its own decompressor: under TCG that saves the RT kernel about 3 s of 5.
"""

import io
import re

from stealtime.lab.image.bzimage import KernelImageError

_PHYS32_ENTRY = 18
"""``XEN_ELFNOTE_PHYS32_ENTRY`` of Xen's ``elfnote.h``."""

_BANNER = re.compile(rb"Linux version (\S+) \([^\n\0]*")
"""``linux_banner`` of Linux ``init/version.c``."""


def read_version_text(vmlinux: bytes) -> str:
    """Give the version text of an ELF kernel, from its release on.

    Raises:
        KernelImageError: There is no banner in it.
    """
    match = _BANNER.search(vmlinux)
    if match is None or b"%s" in match.group(1):
        raise KernelImageError("the ELF file holds no `Linux version`")
    return match.group(0).removeprefix(b"Linux version ").decode("ascii", errors="replace")


def has_pvh_entry(vmlinux: bytes) -> bool:
    """Tell whether QEMU can enter the kernel directly.

    Raises:
        KernelImageError: The ELF file is damaged.
    """
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.segments import NoteSegment

    try:
        return any(
            note["n_name"] == "Xen" and note["n_type"] in (_PHYS32_ENTRY, str(_PHYS32_ENTRY))
            for segment in ELFFile(io.BytesIO(vmlinux)).iter_segments()
            if isinstance(segment, NoteSegment)
            for note in segment.iter_notes()
        )
    except (ELFError, ConstructError, UnicodeDecodeError) as error:
        raise KernelImageError(f"the ELF kernel is damaged: {error}") from error
