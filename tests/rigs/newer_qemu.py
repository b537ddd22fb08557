"""The QEMUs of a newer Debian, each in a tree of its own: nothing is installed.

The mirror that this host has its packages from has the other suites, too.
"""

import json
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

NEWEST = "trixie-backports"
_SUITES = ("trixie", NEWEST)
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_PACKAGES = ("qemu-system-x86", "qemu-system-data", "seabios")
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_HINT = "check the network: the suites of Debian 13 are fetched from where this host has its packages from"
_SETTINGS = """
Dir::State "{folder}/state";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
APT::Default-Release "{suite}";
"""


_PROGRAM = """#include <unistd.h>
int main(int count, char **arguments) {
    char *all[count + %(count)d];
    char *first[] = {%(first)s};
    for (int i = 0; i < %(count)d; i++) all[i] = first[i];
    for (int i = 1; i <= count; i++) all[%(count)d + i - 1] = arguments[i];
    return execv(all[0], all);
}
"""


@dataclass(frozen=True)
class NewerQemu:
    """A program that runs here with the libraries of its tree."""

    command: tuple[str, ...]
    version: str

    def in_path(self, folder: Path) -> Path:
        """Make it one program; give its folder.

        It is static: a library that is preloaded for QEMU would do its work in another program before it.

        Raises:
            StealtimeError: It cannot be compiled.
        """
        source, program = folder / "qemu.c", folder / "bin" / "qemu-system-x86_64"
        program.parent.mkdir(parents=True)
        first = ", ".join(json.dumps(word) for word in self.command)
        source.write_text(_PROGRAM % {"count": len(self.command), "first": first})
        run_tool(["cc", "-static", "-o", str(program), str(source)], "a program cannot be compiled", "install gcc")
        return program.parent


def newer_qemu(cache: Path, suite: str = NEWEST) -> NewerQemu:
    """Give that of a suite; it is fetched (some 100 MB) where the folder does not have it yet.

    Raises:
        StealtimeError: It cannot be had.
    """
    what = f"QEMU of {suite}"
    tree = cache / "tree"
    if not tree.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        _fetch(cache, tree, suite)
    libraries = tree / _LIBRARIES
    folders = f"{libraries}:{libraries}/pulseaudio"
    linker = libraries / "ld-linux-x86-64.so.2"
    program = [str(linker), "--inhibit-cache", "--library-path", folders, str(tree / "usr/bin/qemu-system-x86_64")]
    data = [argument for name in ("qemu", "seabios") for argument in ("-L", str(tree / "usr/share" / name))]
    said = subprocess.run([*program, "--version"], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise StealtimeError(f"{what} does not run: {said.stderr.strip()}", hint=f"remove {cache} and try again")
    return NewerQemu((*program, *data), said.stdout.split()[3])


def _fetch(cache: Path, tree: Path, suite: str) -> None:
    mirror, what = _mirror(), f"QEMU of {suite}"
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (cache / folder).mkdir(parents=True, exist_ok=True)
    lines = [f"deb [signed-by={_KEYS}] {mirror} {suite} main\n" for suite in _SUITES]
    (cache / "sources.list").write_text("".join(lines))
    settings = cache / "apt.conf"
    settings.write_text(_SETTINGS.format(folder=cache, suite=suite))
    with _apt_of(settings):
        run_tool(["apt-get", "update"], f"the lists of {what} cannot be fetched", _HINT)
        unpacked = cache / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)
        unpack_packages(resolve_packages(_PACKAGES, what), unpacked, what)
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
