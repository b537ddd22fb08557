"""Where a host keeps the disk images of machines.

Those of received machines are in a folder of its own, as ``VM/DISK.raw``. Where a machine is started from an image
elsewhere, a link ``VM/DISK.FORMAT`` leads to it: so the machine finds its own image when it comes back.
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from stealtime.protect.disk_images import ImageFormat
from stealtime.protect.specification import ImageFileSpec
from stealtime.vocabulary.errors import StealtimeError, UsageError

_ROOT_FOLDER = Path("/var/lib/stealtime/disks")
_ROOT_STATE = Path("/run/stealtime/protect")


def default_folder(state: Path, host: str) -> Path:
    """Say where a host keeps the images of received machines: they outlive a reboot, unlike its members' state."""
    if state == _ROOT_STATE:
        return _ROOT_FOLDER / host
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and state == Path(runtime) / "stealtime" / "protect":
        from platformdirs import user_data_path

        return user_data_path("stealtime") / "disks" / host
    return state / ".disks" / host


def keep_links(
    host_config: Path, fallback: Path, vm: str, disks: Iterable[tuple[str, ImageFileSpec]]
) -> Iterator[ImageFileSpec]:
    """Have a host find the images of its own machine when that comes back from another one.

    Args:
        host_config: What the daemon of the host was told (``host.json``), if there is one.
        fallback: The folder for images where that says nothing.
        vm: The machine's name.
        disks: The name and the image of each disk.

    Yields:
        Each image as its member is to open it: a device by its link, beside which there is room for what is noted.

    Raises:
        UsageError: The host has another image of that machine.
        StealtimeError: A link cannot be made.
    """
    folder = _folder_of(host_config) or fallback
    for name, image in disks:
        link = _link(folder, vm, name, image)
        others = [folder / vm / f"{name}.{other}" for other in get_args(ImageFormat) if other != image.format_]
        for place in (link, *others):
            if place.exists() and not place.is_symlink() and place.resolve() != image.path.resolve():
                raise UsageError(
                    f"{place} is an image of the disk {name!r} of {vm!r}, too, which came from another host",
                    hint=f"start the machine from it (path = {str(place)!r}), or move it away",
                )
        try:
            for other in others:
                # A link of an earlier start, of an image of another format.
                if other.is_symlink():
                    other.unlink()
            if link.resolve() != image.path.resolve():
                link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                link.unlink(missing_ok=True)
                link.symlink_to(image.path.resolve())
        except OSError as error:
            raise StealtimeError(
                f"{link} cannot be made: {error.strerror}", hint="it leads to the machine's image when it comes back"
            ) from error
        yield _opened(image, link)


def as_opened(
    host_config: Path, fallback: Path, vm: str, disks: Iterable[tuple[str, ImageFileSpec]]
) -> Iterator[ImageFileSpec]:
    """Give the images of a machine as its member would open them, as far as there are links already.

    The arguments are those of :func:`keep_links`; nothing is made.
    """
    folder = _folder_of(host_config) or fallback
    for name, image in disks:
        link = _link(folder, vm, name, image)
        yield _opened(image, link) if link.resolve() == image.path.resolve() else image


def _link(folder: Path, vm: str, disk: str, image: ImageFileSpec) -> Path:
    return folder / vm / f"{disk}.{image.format_}"


def _opened(image: ImageFileSpec, link: Path) -> ImageFileSpec:
    """Give a device by its link; a file is opened where it is."""
    return image.model_copy(update={"path": link}) if image.path.is_block_device() else image


def _folder_of(host_config: Path) -> Path | None:
    try:
        told = json.loads(host_config.read_text())["disks"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if told is None else Path(told)
