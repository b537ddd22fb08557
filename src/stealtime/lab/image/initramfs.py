"""The guest's whole file system: what runs as ``/init``, mostly the agent, and the modules that its platform needs.

Packed so that the same content gives the same bytes (``tools.pack_tree``). Not compressed: that is one thing less for
the guest to do; a difference in boot time to gzip was not shown (three boots of each on a busy host). ``/dev/console``
comes from the archive that is built into every kernel.
"""

import gzip
import hashlib
import json
import lzma
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.image.cache import cache_folder, obtain_entry, remembered_hash
from stealtime.lab.image.kernel import Kernel
from stealtime.lab.image.modules import ModuleWish, find_modules
from stealtime.lab.image.tools import pack_tree
from stealtime.vocabulary.errors import StealtimeError

_ARCHIVE = "initramfs.cpio"
_FORMAT_VERSION = 2
"""Rises when the layout of the archive changes, so that older ones are packed anew."""

_EMPTY_FOLDERS = ("proc", "sys", "dev", "tmp", "run", "root")
_GUEST_MODULES = "lib/modules"


@dataclass(frozen=True)
class Initramfs:
    """A packed initramfs."""

    path: Path
    sha256: str
    modules: tuple[str, ...]
    """The names of the module files in it, in the order of loading."""


def pack_initramfs(
    init: Path,
    wishes: Sequence[ModuleWish] = (),
    kernel: Kernel | None = None,
    *,
    programs: Mapping[str, Path] | None = None,
) -> Initramfs:
    """Pack an initramfs, or give the one that was packed of the same content before.

    Args:
        init: What runs first: the agent, or a script for one of ``programs``; it must be static.
        wishes: The modules that the platform has a use for.
        kernel: Where they come from; None packs no modules (User-Mode Linux has what it needs built in).
        programs: Further static programs, by the path that they get, without its first slash.

    Raises:
        StealtimeError: A required module is missing, or cpio is not there or fails.
    """
    executables = {"init": init, **(programs or {})}
    content = {
        "format": _FORMAT_VERSION,
        "executables": {name: _hash(path) for name, path in executables.items()},
        "kernel": kernel.sha256 if kernel is not None else None,
        "modules_folder": str(kernel.modules_folder) if kernel is not None else None,
        "wishes": [[wish.name, wish.required] for wish in wishes],
    }
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]

    def build(partial: Path) -> tuple[list[str], Mapping[str, str]]:
        modules = find_modules(wishes, kernel.modules_folder, kernel.release) if kernel is not None else []
        names = _fill(partial / "tree", executables, modules)
        with (partial / _ARCHIVE).open("wb") as archive:
            pack_tree(partial / "tree", "the initramfs", archive)
        shutil.rmtree(partial / "tree")
        return [_ARCHIVE], {"modules": "\n".join(names)}

    folder = cache_folder() / "initramfs" / key
    entry = obtain_entry(folder, build)
    return Initramfs(folder / _ARCHIVE, entry.files[_ARCHIVE].sha256, tuple(entry.facts["modules"].splitlines()))


def _hash(executable: Path) -> str:
    try:
        return remembered_hash(executable)
    except OSError as error:
        raise StealtimeError(f"{executable} cannot be read: {error.strerror}") from error


def _fill(tree: Path, executables: Mapping[str, Path], modules: Sequence[Path]) -> list[str]:
    for name in (*_EMPTY_FOLDERS, "etc/stealtime", _GUEST_MODULES):
        (tree / name).mkdir(parents=True)
    for name, source in executables.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
        path.chmod(0o755)
    names = []
    for module in modules:
        name, content = _read_module(module)
        (tree / _GUEST_MODULES / name).write_bytes(content)
        names.append(name)
    listing = "".join(f"/{_GUEST_MODULES}/{name}\n" for name in names)
    (tree / "etc/stealtime/modules").write_text(listing)
    return names


def _read_module(path: Path) -> tuple[str, bytes]:
    """Give a module's name and content, decompressed: not every kernel can do that itself."""
    try:
        content = path.read_bytes()
        match path.suffix:
            case ".xz":
                return path.stem, lzma.decompress(content)
            case ".gz":
                return path.stem, gzip.decompress(content)
            case ".zst":
                import zstandard

                return path.stem, zstandard.ZstdDecompressor().decompressobj().decompress(content)
            case _:
                return path.name, content
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise StealtimeError(f"the kernel module {path} cannot be read: {error}") from error
