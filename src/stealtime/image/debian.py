"""Guest kernels out of Debian packages: fetched and unpacked, never installed.

A metapackage (``linux-image-rt-amd64``) depends on the package of one release; that one is downloaded with apt-get
into our cache and unpacked there with ``dpkg-deb``. ``modules.dep`` is not in the package (its installation script
would make it), so ``depmod`` makes it in the unpacked tree.
"""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stealtime.errors import StealtimeError

META_PACKAGES = {"rt": "linux-image-rt-amd64", "cloud": "linux-image-cloud-amd64"}
"""The kernels by the names that users choose them by: PREEMPT_RT, and the small one for clouds."""

_DEPENDENCY = re.compile(r"(linux-image-[0-9][^\s,()]*) \(= ([^)]+)\)")
_OWN_KERNEL_HINT = "name a kernel of your own with --kernel PATH (bzImage or vmlinux)"


@dataclass(frozen=True)
class KernelPackage:
    """One release of a Debian kernel."""

    name: str
    version: str


def resolve_package(meta_package: str) -> KernelPackage:
    """Find the package that a metapackage stands for today; reads apt's lists, no network.

    Raises:
        StealtimeError: apt is not there, or its lists do not know the package.
    """
    shown = _run(
        ["apt-cache", "show", "--no-all-versions", meta_package],
        f"apt does not know the package {meta_package}",
        f"run `apt-get update`, or {_OWN_KERNEL_HINT}",
    )
    return parse_dependency(meta_package, shown)


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
        _run(
            ["apt-get", "download", f"{package.name}={package.version}"],
            f"the package {package.name} {package.version} cannot be downloaded",
            f"run `apt-get update` and look at the network, or {_OWN_KERNEL_HINT}",
            cwd=Path(downloads),
        )
        archives = sorted(Path(downloads).glob("*.deb"))
        if len(archives) != 1:
            raise StealtimeError(f"apt-get downloaded {len(archives)} files for {package.name} {package.version}")
        unpack_archive(archives[0], folder)
    return finish_tree(folder)


def unpack_archive(archive: Path, folder: Path) -> None:
    """Unpack the files of a ``.deb``.

    Raises:
        StealtimeError: ``dpkg-deb`` refuses it.
    """
    _run(
        ["dpkg-deb", "--extract", str(archive), str(folder)],
        f"the package {archive.name} cannot be unpacked",
        "look at the free space of the cache folder",
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
    _run(
        [_find_depmod(), "--basedir", str(folder), release],
        f"the module list of kernel {release} cannot be made",
        "install the package kmod",
    )
    return release


def _find_depmod() -> str:
    # /usr/sbin is not in the PATH of an ordinary Debian user.
    return shutil.which("depmod") or shutil.which("depmod", path="/usr/sbin:/sbin") or "depmod"


def _run(argv: list[str], failure: str, hint: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        raise StealtimeError(f"{failure}: the program {argv[0]} is not installed", hint=hint) from None
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("W:")]
        detail = said[-1] if said else f"{argv[0]} ended with exit code {done.returncode}"
        raise StealtimeError(f"{failure}: {detail}", hint=hint)
    return done.stdout
