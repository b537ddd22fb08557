"""Which module files a guest needs, in the order in which they must be loaded.

``modules.dep`` (kmod, ``depmod(8)``) has a line ``module: dependency dependency ...`` for each module; the dependencies
are complete and must be loaded from the last to the first, as ``modprobe`` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from stealtime.vocabulary.errors import StealtimeError

_SUFFIXES = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")


@dataclass(frozen=True)
class ModuleWish:
    """A module that a platform has a use for."""

    name: str
    required: bool = True
    """Whether the guest cannot be measured without it; others are loaded where the kernel has them."""


def module_name(path: str) -> str:
    """Give the name of a module file as the kernel knows it: ``virtio-rng.ko`` is ``virtio_rng``."""
    name = PurePosixPath(path).name
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            name = name.removesuffix(suffix)
            break
    return name.replace("-", "_")


def parse_dependencies(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Read a ``modules.dep``.

    Returns:
        By module name: its path and the paths of what it needs, in the order of loading.
    """
    table: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line in text.splitlines():
        path, separator, needs = line.partition(":")
        if separator:
            table[module_name(path)] = (path.strip(), tuple(reversed(needs.split())))
    return table


def load_order(wishes: Sequence[ModuleWish], modules_dep: str, builtin: frozenset[str], release: str) -> list[str]:
    """Give the paths of the wished modules and all they need, each once, each after what it needs.

    Args:
        wishes: What to load.
        modules_dep: The content of ``modules.dep``.
        builtin: Names of what the kernel has without a module.
        release: The kernel's, for the message.

    Raises:
        StealtimeError: A required module is neither there nor built in.
    """
    table = parse_dependencies(modules_dep)
    order: dict[str, None] = {}
    for wish in wishes:
        name = wish.name.replace("-", "_")
        if name in table:
            path, needs = table[name]
            order.update(dict.fromkeys((*needs, path)))
        elif wish.required and name not in builtin:
            raise StealtimeError(
                f"the kernel {release} has no module {name!r} and does not have it built in",
                hint="use the kernel `rt` or `cloud`, or put its modules under lib/modules/ beside the image",
            )
    return list(order)


def find_modules(wishes: Sequence[ModuleWish], modules_folder: Path | None, release: str) -> list[Path]:
    """Give the files of the wished modules of one kernel in the order of loading.

    Raises:
        StealtimeError: A required module is missing, or the folder cannot be read.
    """
    if modules_folder is None:
        # Nothing is known of what is built in; the guest itself will tell what is missing.
        return []
    try:
        modules_dep = (modules_folder / "modules.dep").read_text()
        builtin_path = modules_folder / "modules.builtin"
        builtin_text = builtin_path.read_text() if builtin_path.exists() else ""
    except OSError as error:
        raise StealtimeError(f"the modules in {modules_folder} cannot be read: {error.strerror}") from error
    builtin = frozenset(module_name(line) for line in builtin_text.splitlines())
    return [modules_folder / path for path in load_order(wishes, modules_dep, builtin, release)]
