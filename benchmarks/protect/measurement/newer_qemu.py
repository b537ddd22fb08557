"""The QEMU of a newer Debian, in a tree of its own: nothing is installed.

The mirror that this host has its packages from has the other suites, too.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stealtime.lab.image.debian_programs import resolve_packages, unpack_packages
from stealtime.lab.image.tools import run_tool
from stealtime.vocabulary.errors import StealtimeError

_SUITES = ("trixie", "trixie-backports")
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_PACKAGES = ("qemu-system-x86", "qemu-system-data", "seabios")
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_WHAT = f"QEMU of {_SUITES[-1]}"
_HINT = "check the network: the suites of Debian 13 are fetched from where this host has its packages from"
_SETTINGS = """
Dir::State "{folder}/state";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
APT::Default-Release "{suite}";
"""


@dataclass(frozen=True)
class NewerQemu:
    """A program that runs here with the libraries of its tree."""

    command: tuple[str, ...]
    version: str


def newer_qemu(cache: Path) -> NewerQemu:
    """Give it; it is fetched (some 100 MB) where the folder does not have it yet.

    Raises:
        StealtimeError: It cannot be had.
    """
    tree = cache / "tree"
    if not tree.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        _fetch(cache, tree)
    libraries = tree / _LIBRARIES
    folders = f"{libraries}:{libraries}/pulseaudio"
    linker = libraries / "ld-linux-x86-64.so.2"
    program = [str(linker), "--inhibit-cache", "--library-path", folders, str(tree / "usr/bin/qemu-system-x86_64")]
    data = [argument for name in ("qemu", "seabios") for argument in ("-L", str(tree / "usr/share" / name))]
    said = subprocess.run([*program, "--version"], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise StealtimeError(f"{_WHAT} does not run: {said.stderr.strip()}", hint=f"remove {cache} and try again")
    return NewerQemu((*program, *data), said.stdout.split()[3])


def _fetch(cache: Path, tree: Path) -> None:
    mirror = _mirror()
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (cache / folder).mkdir(parents=True, exist_ok=True)
    lines = [f"deb [signed-by={_KEYS}] {mirror} {suite} main\n" for suite in _SUITES]
    (cache / "sources.list").write_text("".join(lines))
    settings = cache / "apt.conf"
    settings.write_text(_SETTINGS.format(folder=cache, suite=_SUITES[-1]))
    with _apt_of(settings):
        run_tool(["apt-get", "update"], f"the lists of {_WHAT} cannot be fetched", _HINT)
        unpacked = cache / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)
        unpack_packages(resolve_packages(_PACKAGES, _WHAT), unpacked, _WHAT)
    # Whole, or not there.
    unpacked.rename(tree)


@contextmanager
def _apt_of(settings: Path) -> Iterator[None]:
    before = os.environ.get("APT_CONFIG")
    os.environ["APT_CONFIG"] = str(settings)
    try:
        yield
    finally:
        del os.environ["APT_CONFIG"]
        if before is not None:
            os.environ["APT_CONFIG"] = before


def _mirror() -> str:
    said = run_tool(["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)"], "apt tells no mirror", _HINT)
    for line in said.splitlines():
        address, component = line.split()
        if component == "main" and address.rstrip("/").endswith("/debian"):
            return address
    raise StealtimeError("this host has its packages from no mirror of Debian", hint=_HINT)
