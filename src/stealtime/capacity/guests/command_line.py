"""Reads a guest from the command line of its process: QEMU's, User-Mode Linux's, and others' under KVM; pure.

libvirt, Proxmox and the like start QEMU too, and name it there (``-name guest=NAME``): no binding of theirs is needed.
"""

import contextlib
import json
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from stealtime.capacity.guest import Guest

_QEMU = re.compile(r"(qemu-system-\w+|qemu-kvm|kvm)$")
_ONLY_QEMUS = frozenset({"machine", "M", "accel", "smp", "nodefaults", "chardev", "device", "enable-kvm", "qmp"})
"""Options by which QEMU is known under any name."""
_ASKS = frozenset({"version", "help", "h"})
_NAMES = frozenset({"id", "name", "vm-name"})
"""Options of Firecracker (its jailer sets it), crosvm and kvmtool."""
_XEN = "its virtual CPUs run in Xen, of which this process is only the device model: no counter of this kernel has them"
AGENT_PORT = "org.qemu.guest_agent.0"
_UML = re.compile(r"linux(\.uml)?$|vmlinux$")
_UML_ARGUMENT = re.compile(r"(umid|mem|ubd\w+|initrd|uml_dir|con\d*|root)=")
_SIZE = re.compile(r"([0-9]{1,15})([kKmMgGtT]?)[bB]?$")
"""Of no more digits than any size has: any user of the host can write any command line."""
_LONGEST_NAME = 100
"""libvirt, Nova and KubeVirt have shorter ones."""
_UNITS = {"k": 1 << 10, "m": 1 << 20, "": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def presentable(name: str) -> str:
    """Give a name as it may be shown: any user of the host can give any name to a process, of any length."""
    shown = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in name)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"


def read_guest(pid: int, started_ticks: int, argv: Sequence[str], folder: Path = Path()) -> Guest | None:
    """Give the guest that a process is, or None if it is none.

    Args:
        pid: Of the process.
        started_ticks: When it began.
        argv: Its command line.
        folder: What its relative paths start from.
    """
    program = argv[0].rpartition("/")[2] if argv else ""
    if _QEMU.match(program):
        return None if _only_asks(argv) else _qemu(pid, started_ticks, argv, folder)
    # User-Mode Linux shows its command line in one piece where it has written its name over it.
    words = argv if len(argv) > 1 else argv[0].split() if argv else []
    if words and _UML.match(words[0].rpartition("/")[2]) and any(_UML_ARGUMENT.match(word) for word in words[1:]):
        return _uml(pid, started_ticks, words)
    return None


def read_kvm_holder(pid: int, started_ticks: int, argv: Sequence[str], folder: Path = Path()) -> Guest:
    """Give the guest of a process that holds virtual CPUs of KVM, whatever it is called.

    Args:
        pid: Of the process.
        started_ticks: When it began.
        argv: Its command line.
        folder: What its relative paths start from.
    """
    program = argv[0].rpartition("/")[2] if argv else ""
    options = list(_options(argv))
    if _QEMU.match(program) or any(option in _ONLY_QEMUS for option, _ in options):
        return _qemu(pid, started_ticks, argv, folder)
    named = (value for option, value in options if option in _NAMES and value and not value.startswith("-"))
    # An old name may stand behind a path or a word of a wrapper.
    name = next(named, None) or f"{program.partition(' ')[0] or 'kvm'}-{pid}"
    return Guest(name=name, kind="kvm", pid=pid, started_ticks=started_ticks)


def _only_asks(argv: Sequence[str]) -> bool:
    """Tell whether a QEMU is only asked what it can do, as managers do before they start one."""
    for option, value in _options(argv):
        if option in _ASKS or (option != "name" and "help" in _pieces(value)):
            return True
        if option in ("machine", "M") and (_property(value, "type") or _bare(value)) == "none":
            return True
    return False


def _is_of_xen(options: Sequence[tuple[str, str]]) -> bool:
    return any(
        option in ("xen-domid", "xen-attach")
        or (
            option in ("machine", "M")
            and ((_bare(value) or "").startswith("xen") or _property(value, "accel") == "xen")
        )
        or (option == "accel" and _bare(value) == "xen")
        for option, value in options
    )


def _qemu(pid: int, started_ticks: int, argv: Sequence[str], folder: Path) -> Guest:
    options = list(_options(argv))
    name = next((value for option, value in options if option == "name"), "")
    told = _property(name, "guest") or _bare(name)
    memory = next((value for option, value in options if option == "m"), None)
    monitor = _monitor(options)
    port = _agent_port(options)
    has_agent, agent = port is not None, None if port is None else _socket_of(options, {port})
    return Guest(
        name=told or f"qemu-{pid}",
        kind="qemu",
        pid=pid,
        started_ticks=started_ticks,
        # QEMU's own default.
        memory_bytes=128 << 20 if memory is None else _size(_property(memory, "size") or _bare(memory) or ""),
        monitor=None if monitor is None else folder / monitor,
        agent=None if agent is None else folder / agent,
        domain=told if has_agent and agent is None else None,
        elsewhere=_XEN if _is_of_xen(options) else None,
    )


def _uml(pid: int, started_ticks: int, argv: Sequence[str]) -> Guest:
    values = dict(word.split("=", 1) for word in argv[1:] if "=" in word)
    umid = values.get("umid")
    folder = values.get("uml_dir")
    return Guest(
        name=umid or f"uml-{pid}",
        kind="uml",
        pid=pid,
        started_ticks=started_ticks,
        memory_bytes=_size(values.get("mem", "")),
        console=None if umid is None or folder is None else Path(folder) / umid / "mconsole",
    )


def _options(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Give options with what follows each; ``--name`` is ``-name``, and ``--id=a`` is ``--id a``."""
    for position, word in enumerate(argv):
        if word.startswith("--") and "=" in word:
            yield tuple(word.lstrip("-").split("=", 1))  # type: ignore[misc]
        elif word.startswith("-"):
            yield word.lstrip("-"), argv[position + 1] if position + 1 < len(argv) else ""


def _monitor(options: Sequence[tuple[str, str]]) -> str | None:
    """Give the path of a Unix socket that has QMP on it."""
    for option, value in options:
        if option in ("qmp", "qmp-pretty") and value.startswith("unix:"):
            return _pieces(value)[0].removeprefix("unix:")
    control = {
        _property(value, "chardev") or _bare(value)
        for option, value in options
        if option == "mon" and _property(value, "mode") == "control"
    }
    return _socket_of(options, control)


def _socket_of(options: Sequence[tuple[str, str]], names: Collection[str | None]) -> str | None:
    """Give the path of the socket behind one of some character devices; libvirt hands QEMU an open one instead."""
    for option, value in options:
        if option == "chardev" and _bare(value) == "socket" and _property(value, "id") in names:
            return _property(value, "path")
    return None


def _agent_port(options: Sequence[tuple[str, str]]) -> str | None:
    """Give the character device behind the port of the guest agent. libvirt writes devices as JSON."""
    for option, value in options:
        if option != "device":
            continue
        if value.startswith("{"):
            # One that is nested without end is none of QEMU's.
            with contextlib.suppress(ValueError, RecursionError):
                device = json.loads(value)
                if device.get("name") == AGENT_PORT:
                    return str(device.get("chardev"))
        elif _property(value, "name") == AGENT_PORT:
            return _property(value, "chardev")
    return None


def _pieces(value: str) -> list[str]:
    """Split at commas; a doubled one is part of a value."""
    return [piece.replace("\0", ",") for piece in value.replace(",,", "\0").split(",")]


def _property(value: str, key: str) -> str | None:
    return next((piece[len(key) + 1 :] for piece in _pieces(value) if piece.startswith(f"{key}=")), None)


def _bare(value: str) -> str | None:
    first = _pieces(value)[0]
    return first if first and "=" not in first else None


def _size(text: str) -> int | None:
    found = _SIZE.match(text)
    return None if found is None else int(found[1]) * _UNITS[found[2].lower()]
