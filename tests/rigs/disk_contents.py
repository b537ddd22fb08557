"""What is in the disk that an image holds, whatever its format, also while somebody has it open: by QEMU's tools."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RAW, QCOW2 = "raw", "qcow2"


def format_of(image: Path) -> str:
    """Give the format of an image by its name, as a host does."""
    return image.suffix.removeprefix(".")


def content(image: Path) -> bytes:
    """Give all bytes of the disk."""
    if format_of(image) == RAW:
        return image.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.raw"
        # A member locks its image against each QEMU.
        source = f"driver={QCOW2},file.driver=file,file.locking=off,file.filename={image}"
        _run("qemu-img", "convert", "--force-share", "--image-opts", "-O", RAW, source, copy)
        return copy.read_bytes()


def overwrite(image: Path, offset: int, data: bytes) -> None:
    """Change a disk that nobody has open."""
    if format_of(image) == RAW:
        with image.open("r+b") as file:
            file.seek(offset)
            file.write(data)
        return
    with tempfile.NamedTemporaryFile() as source:
        source.write(data)
        source.flush()
        _run("qemu-io", "-f", QCOW2, "-c", f"write -s {source.name} {offset} {len(data)}", image)


def make_qcow2(source: Path, image: Path) -> None:
    """Make an image of the content of a raw one."""
    _run("qemu-img", "convert", "-f", RAW, "-O", QCOW2, source, image)


def assert_sound(image: Path) -> None:
    """Assert that QEMU's own check finds nothing wrong in a qcow2 image."""
    source = f"driver={QCOW2},file.driver=file,file.locking=off,file.filename={image}"
    command = ["qemu-img", "check", "--force-share", "--image-opts", source]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    # 3: clusters that are leaked, which is what an end without warning may leave.
    assert checked.returncode in (0, 3), checked.stdout + checked.stderr


@contextmanager
def block_device(backing: Path, size_bytes: int) -> Iterator[Path]:
    """Give a block device whose content is in a file."""
    with backing.open("wb") as file:
        file.truncate(size_bytes)
    device = _run("losetup", "--find", "--show", backing).strip()
    try:
        yield Path(device)
    finally:
        _run("losetup", "--detach", device)


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
