"""A file system that a power cut takes everything from that was not synchronised.

It is an ext4 in a file behind a loop device. What programs write stays in its page cache until they have it
synchronised, or the kernel thinks of it: only then is it in the file. A copy of the file at one moment is what a power
cut leaves.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def mounted(backing: Path, folder: Path) -> Iterator[None]:
    """Mount a file system, and replay its journal if it has to be."""
    folder.mkdir(exist_ok=True)
    # Nothing goes to the medium by itself within the test.
    subprocess.run(["mount", "-o", "loop,commit=300", backing, folder], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, capture_output=True)


@contextmanager
def forgetful_disk(backing: Path, folder: Path, size_bytes: int) -> Iterator[None]:
    """Make one, and mount it."""
    with backing.open("wb") as file:
        file.truncate(size_bytes)
    subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", backing], check=True, capture_output=True)
    with mounted(backing, folder):
        yield


def after_a_power_cut(backing: Path, copy: Path) -> None:
    """Give what the medium has now."""
    subprocess.run(["cp", "--sparse=always", backing, copy], check=True)


@contextmanager
def small_file_system(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Give a folder with so much room, in memory."""
    folder.mkdir()
    options = f"size={size_bytes}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "stealtime-test", folder], check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, capture_output=True)
