"""Programs out of Debian packages that are never installed, with the libraries that they load.

apt resolves the packages against an empty list of installed ones, so the same programs come out on every host with the
same lists.
"""

import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from stealtime.lab.image.debian import unpack_archive
from stealtime.lab.image.tools import run_tool
from stealtime.vocabulary.errors import StealtimeError

INTERPRETER = "lib64/ld-linux-x86-64.so.2"
LIBRARIES = "lib/x86_64-linux-gnu"
"""All libraries go here, where every dynamic linker of Debian looks without a configuration."""
_LIBRARY_FOLDERS = (LIBRARIES, "usr/lib/x86_64-linux-gnu")

_INSTALLED_LINE = re.compile(r"^Inst (?P<name>\S+) \((?P<version>\S+) ")
_LIBRARY_LINE = re.compile(r"^\s*(?P<name>[^\s/]+) => (?P<path>/\S+|not found)")
"""The linker lists itself by an absolute path, and stands in the tree already: such a name is never a place in it."""
_LISTS_HINT = "run `apt-get update` and check the network; {what} is made of Debian 12 packages"


def resolve_packages(names: Sequence[str], what: str) -> dict[str, str]:
    """Give the versions of packages and of all that they depend on, by name.

    Args:
        names: The packages.
        what: What is made of them, for errors.

    Raises:
        StealtimeError: apt does not know one.
    """
    # An empty list of installed packages: what this host has installed must not be left out.
    argv = ["apt-get", "-o", "Dir::State::status=/dev/null", "--simulate", "--no-install-recommends", "install"]
    hint = _LISTS_HINT.format(what=what)
    packages = parse_resolution(run_tool([*argv, *names], f"apt cannot find the packages of {what}", hint))
    missing = [name for name in names if name not in packages]
    if missing:
        raise StealtimeError(f"apt does not know the package {missing[0]}", hint=hint)
    return packages


def unpack_packages(packages: Mapping[str, str], into: Path, what: str) -> None:
    """Download packages, by name and version, and unpack them into a folder that is not there yet.

    Raises:
        StealtimeError: They cannot be had.
    """
    wanted = [f"{name}={version}" for name, version in sorted(packages.items())]
    hint = _LISTS_HINT.format(what=what)
    with tempfile.TemporaryDirectory(prefix="download-", dir=into.parent) as downloads:
        run_tool(
            ["apt-get", "download", *wanted],
            f"the packages of {what} cannot be downloaded",
            hint,
            cwd=Path(downloads),
        )
        archives = sorted(Path(downloads).glob("*.deb"))
        if len(archives) != len(wanted):
            raise StealtimeError(f"apt-get downloaded {len(archives)} files for {len(wanted)} packages", hint=hint)
        into.mkdir()
        for archive in archives:
            unpack_archive(archive, into)


def unpacked_file(unpacked: Path, name: str, what: str) -> Path:
    """Give a file of unpacked packages; links in them lead into their tree, not into this host.

    Raises:
        StealtimeError: It is not there.
    """
    path = unpacked / name
    if path.is_symlink():
        target = path.readlink()
        path = unpacked / target.relative_to("/") if target.is_absolute() else path.parent / target
    if not path.is_file():
        raise StealtimeError(f"{what} cannot be made: no package of it has the file /{name}")
    return path


def libraries_of(
    programs: Iterable[Path], unpacked: Path, what: str, more_folders: Sequence[str] = ()
) -> dict[str, Path]:
    """Give the libraries that programs load, by name, as the packages' own dynamic linker finds them.

    Args:
        programs: Programs and plug-ins in ``unpacked``.
        unpacked: The tree of their packages.
        what: What is made of them, for errors.
        more_folders: Where some of them have libraries of their own.

    Raises:
        StealtimeError: One is not there.
    """
    folders = ":".join(str(unpacked / folder) for folder in (*_LIBRARY_FOLDERS, *more_folders))
    interpreter = unpacked_file(unpacked, INTERPRETER, what)
    linker = [str(interpreter), "--inhibit-cache", "--library-path", folders, "--list"]
    found: dict[str, Path] = {}
    for program in programs:
        said = run_tool(
            [*linker, str(program)],
            f"the libraries of {program.name} cannot be listed",
            _LISTS_HINT.format(what=what),
        )
        found |= parse_libraries(said, what)
    return found


def command_in(tree: Path, program: str) -> list[str]:
    """Give the command that runs a program of a tree on this host, with the libraries of the tree."""
    return [str(tree / INTERPRETER), "--inhibit-cache", "--library-path", str(tree / LIBRARIES), str(tree / program)]


def parse_resolution(said: str) -> dict[str, str]:
    """Read the versions of all packages out of what ``apt-get --simulate install`` prints."""
    return {match["name"]: match["version"] for line in said.splitlines() if (match := _INSTALLED_LINE.match(line))}


def parse_libraries(said: str, what: str) -> dict[str, Path]:
    """Read the libraries of a program out of what the dynamic linker lists.

    Raises:
        StealtimeError: One is not there.
    """
    found = {}
    for match in filter(None, map(_LIBRARY_LINE.match, said.splitlines())):
        if match["path"] == "not found":
            raise StealtimeError(f"{what} cannot be made: no package of it has the library {match['name']}")
        found[match["name"]] = Path(match["path"])
    return found


def copy_into(tree: Path, name: str, source: Path) -> None:
    """Copy a program or library to its place in a tree, and never anywhere else: we may be root, beside a live system.

    Raises:
        StealtimeError: The name leads out of the tree.
    """
    target = tree / name
    if not target.resolve().is_relative_to(tree.resolve()):
        raise StealtimeError(f"{source.name} cannot be copied: {name} is outside of its tree")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)
