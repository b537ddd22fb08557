"""A guest's whole file system: the appliance's tree, what it is told, and the modules of its kernel.

Two archives, one after the other, as the kernel unpacks them: a small plain one with ``/init``, the configuration and
the modules, and the tree, which is the same for all configurations and is compressed: a guest holds it in its memory
while it is unpacked.
"""

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stealtime.lab.image.cache import cache_folder, obtain_entry
from stealtime.lab.image.initramfs import pack_initramfs
from stealtime.lab.image.kernel import find_kernel
from stealtime.lab.image.modules import ModuleWish
from stealtime.lab.image.tools import pack_tree
from stealtime.studies.telephony.appliance.configuration import CONFIGURATION_FOLDER, INIT
from stealtime.studies.telephony.appliance.root import KAMAILIO, Role, Root, obtain_root, programs_of

_MODULES = (ModuleWish("virtio_pci"), ModuleWish("virtio_net"), ModuleWish("virtio_rng", required=False))
_ARCHIVE = "appliance.cpio"
_TREE_ARCHIVE = "tree.cpio.zst"
_ZSTD_LEVEL = 9
"""A good deal smaller than the default at little more time; the window stays at 8 MiB, which the guest has to hold."""
_FORMAT_VERSION = 1

_MEMORY_BESIDE_IMAGE_BYTES = 128 << 20
"""For the kernel, the sockets of thousands of phones, and their registrations: seen were 1.1 KiB of each."""
_BYTES_OF_A_USER = 2 << 10
"""For users whom it knows before any load; seen were 1.2 KiB of each, beside the tree, which stays in memory."""
_BYTES_OF_A_CPU = 32 << 20
"""For the workers of each further virtual CPU: without it 97,000 users did not fit into a guest of two."""
_MIB = 1 << 20


class Configuration(Protocol):
    """What a server is told."""

    @property
    def role(self) -> Role:
        """What it does."""
        ...

    @property
    def files(self) -> Mapping[str, str]:
        """The content of each file in the folder of its configuration."""
        ...


class GuestConfiguration(Configuration, Protocol):
    """What a server in a guest is told."""

    @property
    def shared_memory_bytes(self) -> int:
        """How much Kamailio gets, if the role has one."""
        ...


@dataclass(frozen=True)
class Image:
    """What a guest boots."""

    initramfs: Path
    memory_bytes: int
    """What it needs to unpack the initramfs, which is over when its servers fill their shared memory, and to run."""
    root: Root


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large the guest of a server is."""

    cpus: int = 1
    """Virtual CPUs."""
    registered: int = 0
    """Users that it has room for beside those of loads."""

    def memory_bytes(self, image: Image) -> int:
        """Give the memory that it needs with what it boots."""
        return image.memory_bytes + (self.cpus - 1) * _BYTES_OF_A_CPU + self.registered * _BYTES_OF_A_USER


USUAL_SIZE = Size()


def configuration_folder(configuration: Configuration) -> Path:
    """Give a folder in the cache that holds the files of a configuration."""
    files = configuration.files
    key = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:32]
    folder = cache_folder() / "appliance" / f"told-{key}"

    def build(partial: Path) -> tuple[list[str], Mapping[str, str]]:
        for name, text in files.items():
            (partial / name).write_text(text)
        return sorted(files), {}

    obtain_entry(folder, build)
    return folder


def obtain_image(configuration: GuestConfiguration, kernel_choice: str) -> Image:
    """Give the initramfs of a server, packed first if it is not in the cache.

    Raises:
        StealtimeError: Packages or a kernel cannot be had, or cpio is not there.
    """
    root = obtain_root(configuration.role)
    told = configuration_folder(configuration)
    programs = {f"{CONFIGURATION_FOLDER}/{name}": told / name for name in configuration.files if name != INIT}
    packed = pack_initramfs(told / INIT, _MODULES, find_kernel(kernel_choice), programs=programs)
    tree = _tree_archive(root)
    key = hashlib.sha256(f"{_FORMAT_VERSION} {packed.sha256} {root.key}".encode()).hexdigest()[:32]
    folder = cache_folder() / "appliance" / f"image-{key}"

    def build(partial: Path) -> tuple[list[str], Mapping[str, str]]:
        (partial / _ARCHIVE).write_bytes(packed.path.read_bytes() + tree.read_bytes())
        return [_ARCHIVE], {}

    obtain_entry(folder, build)
    archive = folder / _ARCHIVE
    unpacked_bytes = sum(path.stat().st_size for path in root.tree.rglob("*") if path.is_file())
    shared_bytes = configuration.shared_memory_bytes if KAMAILIO in programs_of(configuration.role) else 0
    needed_bytes = max(archive.stat().st_size + unpacked_bytes, shared_bytes) + _MEMORY_BESIDE_IMAGE_BYTES
    return Image(archive, -(-needed_bytes // (16 * _MIB)) * 16 * _MIB, root)


def _tree_archive(root: Root) -> Path:
    """Pack and compress a tree, the same bytes for the same tree."""
    folder = cache_folder() / "appliance" / f"tree-{root.key}"

    def build(partial: Path) -> tuple[list[str], Mapping[str, str]]:
        import zstandard

        compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
        with tempfile.TemporaryFile() as packed, (partial / _TREE_ARCHIVE).open("wb") as archive:
            pack_tree(root.tree, "the appliance", packed)
            packed.seek(0)
            compressor.copy_stream(packed, archive)
        return [_TREE_ARCHIVE], {}

    obtain_entry(folder, build)
    return folder / _TREE_ARCHIVE
