"""Guest kernels out of Debian packages: fetched and unpacked, never installed.

A metapackage (``linux-image-rt-amd64``) depends on the package of one release; that one is downloaded with apt-get
into our cache and unpacked there with ``dpkg-deb``. ``modules.dep`` is not in the package (its installation script
would make it), so ``depmod`` makes it in the unpacked tree.
"""

import platform
import re
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from stealtime.lab.image.cache import cache_folder, write_atomically
from stealtime.lab.image.tools import run_tool
from stealtime.vocabulary.errors import StealtimeError


@dataclass(frozen=True)
class MetaPackage:
    """What stands for the latest release of a kind of kernel."""

    name: str
    from_backports: bool = False
    """Whether it is taken from the backports of the host's Debian, which apt need not know."""


META_PACKAGES = {
    "rt": MetaPackage("linux-image-rt-amd64"),
    "cloud": MetaPackage("linux-image-cloud-amd64"),
    "standard": MetaPackage("linux-image-amd64"),
    "backports": MetaPackage("linux-image-amd64", from_backports=True),
}
"""The kernels by the names that users choose them by: PREEMPT_RT, the small one for clouds, the one that most Debian
hosts run, and that of the next Debian."""

_DEPENDENCY = re.compile(r"(linux-image-[0-9][^\s,()]*) \(= ([^)]+)\)")
_OWN_KERNEL_HINT = "name a kernel of your own with --kernel PATH (bzImage or vmlinux)"


@dataclass(frozen=True)
class KernelPackage:
    """One release of a Debian kernel."""

    name: str
    version: str
    apt_options: tuple[str, ...] = ()
    """By which apt knows it."""


def resolve_package(meta_package: MetaPackage) -> KernelPackage:
    """Find the package that a metapackage stands for today; reads apt's lists, of backports anew over the network.

    Raises:
        StealtimeError: apt is not there, or its lists do not know the package.
    """
    options = _backports_options() if meta_package.from_backports else ()
    shown = run_tool(
        ["apt-cache", *options, "show", "--no-all-versions", meta_package.name],
        f"apt does not know the package {meta_package.name}",
        f"run `apt-get update`, or {_OWN_KERNEL_HINT}",
    )
    return replace(parse_dependency(meta_package.name, shown), apt_options=options)


def parse_dependency(meta_package: str, shown: str) -> KernelPackage:
    """Read the package of one release out of what ``apt-cache show`` prints for a metapackage.

    Raises:
        StealtimeError: It depends on no kernel of an exact version.
    """
    for line in shown.splitlines():
        if line.startswith("Depends:") and (match := _DEPENDENCY.search(line)):
            return KernelPackage(match.group(1), match.group(2))
    raise StealtimeError(f"the package {meta_package} depends on no kernel of an exact version", hint=_OWN_KERNEL_HINT)


def unpack_package(package: KernelPackage, folder: Path) -> str:
    """Download a kernel package and unpack it into an empty folder.

    Returns:
        The release: ``boot/vmlinuz-RELEASE`` and ``lib/modules/RELEASE/modules.dep`` are there afterwards.

    Raises:
        StealtimeError: It cannot be fetched or unpacked, or holds no kernel.
    """
    with tempfile.TemporaryDirectory(prefix="download-", dir=folder.parent) as downloads:
        run_tool(
            ["apt-get", *package.apt_options, "download", f"{package.name}={package.version}"],
            f"the package {package.name} {package.version} cannot be downloaded",
            f"run `apt-get update` and check the network, or {_OWN_KERNEL_HINT}",
            cwd=Path(downloads),
        )
        archives = sorted(Path(downloads).glob("*.deb"))
        if len(archives) != 1:
            raise StealtimeError(f"apt-get downloaded {len(archives)} files for {package.name} {package.version}")
        unpack_archive(archives[0], folder)
    return finish_tree(folder)


def unpack_archive(archive: Path, folder: Path) -> None:
    run_tool(
        ["dpkg-deb", "--extract", str(archive), str(folder)],
        f"the package {archive.name} cannot be unpacked",
        "check the free space of the cache folder",
    )


def finish_tree(folder: Path) -> str:
    """Find the release in an unpacked package and make its ``modules.dep``.

    Raises:
        StealtimeError: There is not exactly one kernel, or ``depmod`` fails.
    """
    images = sorted((folder / "boot").glob("vmlinuz-*"))
    if len(images) != 1:
        raise StealtimeError(f"an unpacked kernel package holds {len(images)} kernels under boot/, not one")
    release = images[0].name.removeprefix("vmlinuz-")
    for unused in ("usr", "boot/System.map-" + release):
        path = folder / unused
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    run_tool(
        [_find_depmod(), "--basedir", str(folder), release],
        f"the module list of kernel {release} cannot be made",
        "install the package kmod",
    )
    return release


def _backports_options() -> tuple[str, ...]:
    """Fetch the lists of backports into our cache, as the host's stay as they are; give apt's options for them."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    targets = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", f"Codename: {codename}"]
    mirrors = run_tool(targets, "apt lists no mirrors", _OWN_KERNEL_HINT).split()
    if not mirrors:
        hint = f"run `apt-get update`, or {_OWN_KERNEL_HINT}"
        raise StealtimeError(f"apt has no lists of Debian {codename!r}", hint=hint)
    folder = cache_folder() / "apt"
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    sources = folder / "sources.list"
    write_atomically(sources, f"deb {mirrors[0]} {codename}-backports main\n")
    settings = (
        f"Dir::Etc::SourceList={sources}",
        "Dir::Etc::SourceParts=-",
        f"Dir::State::Lists={folder / 'lists'}",
        f"Dir::Cache={folder}",
    )
    options = tuple(word for setting in settings for word in ("-o", setting))
    run_tool(["apt-get", *options, "update"], f"the list of {codename}-backports cannot be fetched", _OWN_KERNEL_HINT)
    return options


def _find_depmod() -> str:
    # /usr/sbin is not in the PATH of an ordinary Debian user.
    return shutil.which("depmod") or shutil.which("depmod", path="/usr/sbin:/sbin") or "depmod"
