"""COLO's comparison of packets: a reply waits until both guests have given it, or until a checkpoint has been made.

The primary mirrors what comes in to the secondary, and gets what the secondary's guest sends; ``colo-compare`` lets a
packet out if both are the same, and asks for a checkpoint if not (docs/COLO-FT.txt and docs/colo-proxy.txt of QEMU).
"""

from pathlib import Path
from typing import Any

from .bare import BareQemu

_SAME_WITHIN_MS = 3000
"""QEMU's default: what was not compared for so long has a checkpoint made."""


def compare(primary: BareQemu, secondary: BareQemu, folder: Path) -> None:
    """Put the filters between the guests' cards ``net0`` and their networks.

    Args:
        primary: Its guest runs.
        secondary: Waits for the migration.
        folder: Empty, for sockets.
    """
    for name in ("mirror", "second", "first", "out"):
        _listen(primary, name, folder)
    _connect(primary, "first0", folder / "first")
    _connect(primary, "out0", folder / "out")
    _connect(secondary, "red0", folder / "mirror")
    _connect(secondary, "red1", folder / "second")
    _add(secondary, "filter-redirector", "f1", netdev="net0", queue="tx", indev="red0")
    _add(secondary, "filter-redirector", "f2", netdev="net0", queue="rx", outdev="red1")
    _add(secondary, "filter-rewriter", "rew0", netdev="net0", queue="all")
    _add(primary, "filter-mirror", "m0", netdev="net0", queue="tx", outdev="mirror")
    _add(primary, "filter-redirector", "redire0", netdev="net0", queue="rx", indev="out")
    _add(primary, "filter-redirector", "redire1", netdev="net0", queue="rx", outdev="first")
    _add(primary, "iothread", "comparing")
    _add(
        primary,
        "colo-compare",
        "comp0",
        primary_in="first0",
        secondary_in="second",
        outdev="out0",
        iothread="comparing",
        compare_timeout=_SAME_WITHIN_MS,
    )


def let_go(secondary: BareQemu) -> None:
    """Have the secondary's guest talk by itself, after its primary has died."""
    for name in ("f2", "f1"):
        secondary.monitor.execute("object-del", id=name)


def stop_comparing(primary: BareQemu) -> None:
    """Take the filters of a primary away."""
    for name in ("comp0", "comparing", "redire1", "redire0", "m0"):
        primary.monitor.execute("object-del", id=name)
    for name in ("out0", "first0", "out", "first", "second", "mirror"):
        primary.monitor.execute("chardev-remove", id=name)


def _add(qemu: BareQemu, kind: str, name: str, **properties: Any) -> None:
    qemu.monitor.execute_plainly("object-add", {"qom-type": kind, "id": name, **properties})


def _listen(qemu: BareQemu, name: str, folder: Path) -> None:
    _add_socket(qemu, name, folder / name, server=True)


def _connect(qemu: BareQemu, name: str, path: Path) -> None:
    _add_socket(qemu, name, path, server=False)


def _add_socket(qemu: BareQemu, name: str, path: Path, *, server: bool) -> None:
    data: dict[str, Any] = {"addr": {"type": "unix", "data": {"path": str(path)}}, "server": server}
    if server:
        data["wait"] = False
    qemu.monitor.execute_plainly("chardev-add", {"id": name, "backend": {"type": "socket", "data": data}})
