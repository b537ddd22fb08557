"""Guest kernels out of Debian packages: fetched and unpacked, never installed.

A metapackage (``linux-image-rt-amd64``) depends on the package of one release; that one is downloaded with apt-get
into our cache and unpacked there with ``dpkg-deb``. ``modules.dep`` is not in the package (its installation script
would make it), so ``depmod`` makes it in the unpacked tree. From Linux 7 on that package is empty: image and modules
are in others of the same version, the image under ``usr/lib/modules``.
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
    suite: str | None = None
    """The suite of Debian that it is taken from, whatever the host runs."""


META_PACKAGES = {
    "rt": MetaPackage("linux-image-rt-amd64"),
    "cloud": MetaPackage("linux-image-cloud-amd64"),
    "standard": MetaPackage("linux-image-amd64"),
    "backports": MetaPackage("linux-image-amd64", from_backports=True),
    "rt-new": MetaPackage("linux-image-rt-amd64", suite="trixie-backports"),
}
"""The kernels by the names that users choose them by: PREEMPT_RT, the small one for clouds, the one that most Debian
hosts run, that of the next Debian, and a PREEMPT_RT of Linux 7 that has ``sched_entry_tp`` and ``sched_exit_tp``."""

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
"""Knows the keys of newer suites, too."""
_PART = re.compile(r"(linux-(?:base|binary|modules)-[0-9][^\s,()]*) \(= ([^)]+)\)")

_DEPENDENCY = re.compile(r"(linux-image-[0-9][^\s,()]*) \(= ([^)]+)\)")
_OWN_KERNEL_HINT = "name a kernel of your own with --kernel PATH (bzImage or vmlinux)"


@dataclass(frozen=True)
class KernelPackage:
    """One release of a Debian kernel."""

    name: str
    version: str
    apt_options: tuple[str, ...] = ()
    """By which apt knows it."""
    parts: tuple[str, ...] = ()
    """The packages of the same version that hold its files; none where it holds them itself."""


def resolve_package(meta_package: MetaPackage) -> KernelPackage:
    """Find the package that a metapackage stands for today; reads apt's lists, of backports anew over the network.

    Raises:
        StealtimeError: apt is not there, or its lists do not know the package.
    """
    options: tuple[str, ...] = ()
    if meta_package.from_backports:
        codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
        options = _suite_options(f"{codename}-backports", "apt", "")
    elif meta_package.suite is not None:
        signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
        options = _suite_options(meta_package.suite, f"apt-{meta_package.suite}", signed)
    shown = run_tool(
        ["apt-cache", *options, "show", "--no-all-versions", meta_package.name],
        f"apt does not know the package {meta_package.name}",
        f"run `apt-get update`, or {_OWN_KERNEL_HINT}",
    )
    package = replace(parse_dependency(meta_package.name, shown), apt_options=options)
    if meta_package.suite is None:
        return package
    shown = run_tool(
        ["apt-cache", *options, "show", f"{package.name}={package.version}"],
        f"apt does not know the package {package.name} {package.version}",
        _OWN_KERNEL_HINT,
    )
    return replace(package, parts=parse_parts(package.version, shown))


def parse_dependency(meta_package: str, shown: str) -> KernelPackage:
    """Read the package of one release out of what ``apt-cache show`` prints for a metapackage.

    Raises:
        StealtimeError: It depends on no kernel of an exact version.
    """
    for line in shown.splitlines():
        if line.startswith("Depends:") and (match := _DEPENDENCY.search(line)):
            return KernelPackage(match.group(1), match.group(2))
    raise StealtimeError(f"the package {meta_package} depends on no kernel of an exact version", hint=_OWN_KERNEL_HINT)


def parse_parts(version: str, shown: str) -> tuple[str, ...]:
    """Read out of what ``apt-cache show`` prints for a kernel's package which others of its version hold its files."""
    lines = [line for line in shown.splitlines() if line.startswith("Depends:")]
    found = [match for line in lines for match in _PART.findall(line)]
    return tuple(name for name, own in found if own == version)


def unpack_package(package: KernelPackage, folder: Path) -> str:
    """Download a kernel package and unpack it into an empty folder.

    Returns:
        The release: ``boot/vmlinuz-RELEASE`` and ``lib/modules/RELEASE/modules.dep`` are there afterwards.

    Raises:
        StealtimeError: It cannot be fetched or unpacked, or holds no kernel.
    """
    for name in package.parts or (package.name,):
        with tempfile.TemporaryDirectory(prefix="download-", dir=folder.parent) as downloads:
            run_tool(
                ["apt-get", *package.apt_options, "download", f"{name}={package.version}"],
                f"the package {name} {package.version} cannot be downloaded",
                f"run `apt-get update` and check the network, or {_OWN_KERNEL_HINT}",
                cwd=Path(downloads),
            )
            archives = sorted(Path(downloads).glob("*.deb"))
            if len(archives) != 1:
                raise StealtimeError(f"apt-get downloaded {len(archives)} files for {name} {package.version}")
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
    _gather(folder)
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


def _gather(folder: Path) -> None:
    """Put what Linux 7 has under ``usr/lib/modules`` where the kernels before it have it."""
    for image in sorted((folder / "usr" / "lib" / "modules").glob("*/vmlinuz")):
        release = image.parent.name
        modules = folder / "lib" / "modules" / release
        (folder / "boot").mkdir(exist_ok=True)
        image.replace(folder / "boot" / f"vmlinuz-{release}")
        modules.mkdir(parents=True, exist_ok=True)
        # One of the packages has the modules, the other lists what is built in; both may be in either place.
        for entry in image.parent.iterdir():
            entry.replace(modules / entry.name)


def _suite_options(suite: str, folder_name: str, signed: str) -> tuple[str, ...]:
    """Fetch the lists of a suite into our cache, as the host's stay as they are; give apt's options for them."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    targets = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", f"Codename: {codename}"]
    mirrors = run_tool(targets, "apt lists no mirrors", _OWN_KERNEL_HINT).split()
    if not mirrors:
        hint = f"run `apt-get update`, or {_OWN_KERNEL_HINT}"
        raise StealtimeError(f"apt has no lists of Debian {codename!r}", hint=hint)
    folder = cache_folder() / folder_name
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    sources = folder / "sources.list"
    write_atomically(sources, f"deb {signed}{mirrors[0]} {suite} main\n")
    settings = (
        f"Dir::Etc::SourceList={sources}",
        "Dir::Etc::SourceParts=-",
        f"Dir::State::Lists={folder / 'lists'}",
        f"Dir::Cache={folder}",
    )
    options = tuple(word for setting in settings for word in ("-o", setting))
    run_tool(["apt-get", *options, "update"], f"the list of {suite} cannot be fetched", _OWN_KERNEL_HINT)
    return options


def _find_depmod() -> str:
    # /usr/sbin is not in the PATH of an ordinary Debian user.
    return shutil.which("depmod") or shutil.which("depmod", path="/usr/sbin:/sbin") or "depmod"
