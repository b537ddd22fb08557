"""Programs of Debian that images are made with: run to their end, and what they complain of."""

import os
import subprocess
from pathlib import Path
from typing import IO

from stealtime.vocabulary.errors import StealtimeError


def run_tool(argv: list[str], failure: str, hint: str, cwd: Path | None = None) -> str:
    """Run a program that prints English; give what it printed.

    Args:
        argv: The program and its arguments.
        failure: The beginning of the error, a sentence without its end.
        hint: What to do then.
        cwd: Where it runs.

    Raises:
        StealtimeError: It is not installed or fails; with the last line that it wrote.
    """
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=environment, capture_output=True, text=True, errors="replace", check=False
        )
    except FileNotFoundError:
        raise StealtimeError(f"{failure}: the program {argv[0]} is not installed", hint=hint) from None
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("W:")]
        detail = said[-1] if said else f"{argv[0]} ended with exit code {done.returncode}"
        raise StealtimeError(f"{failure}: {detail}", hint=hint)
    return done.stdout


def pack_tree(tree: Path, what: str, into: IO[bytes]) -> None:
    """Pack a file tree by GNU cpio in the kernel's ``newc`` format, the same bytes for the same names and contents.

    Args:
        tree: The times of all that is in it are set to 0.
        what: Is packed, for the error.
        into: An open file.

    Raises:
        StealtimeError: cpio is not there or fails.
    """
    paths = sorted(path.relative_to(tree) for path in tree.rglob("*"))
    for path in (*paths, Path()):
        os.utime(tree / path, (0, 0))
    # A listing with `.` first; each folder sorts before what is in it.
    listing = b"\0".join(str(path).encode() for path in [Path(), *paths]) + b"\0"
    argv = ["cpio", "--create", "--format=newc", "--reproducible", "--owner=+0:+0", "--null", "--quiet"]
    try:
        done = subprocess.run(argv, input=listing, stdout=into, stderr=subprocess.PIPE, cwd=tree, check=False)
    except FileNotFoundError:
        raise StealtimeError(
            f"{what} cannot be packed: the program cpio is not installed", hint="install the package cpio"
        ) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise StealtimeError(f"{what} cannot be packed: {said or f'cpio ended with {done.returncode}'}")
