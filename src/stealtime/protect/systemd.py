"""The unit files for hosts under systemd: data of this package, with the path of this installation put in."""

import sys
from importlib import resources
from pathlib import Path

UNITS = ("stealtime-host.service", "stealtime-leave.service", "stealtime-vm@.service")


def unit_text(name: str) -> str:
    """Give a unit file whose commands are those of this installation."""
    text = (resources.files("stealtime.protect") / "units" / name).read_text("utf-8")
    return text.replace("@STEALTIME@", str(Path(sys.executable).parent / "stealtime"))


def write_units(folder: Path) -> list[Path]:
    """Write all units into a folder, ``/etc/systemd/system`` for one.

    Raises:
        OSError: It cannot be written.
    """
    written = []
    for name in UNITS:
        path = folder / name
        path.write_text(unit_text(name), "utf-8")
        written.append(path)
    return written
