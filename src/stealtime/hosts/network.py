"""Namespaces, veth pairs and bridges of the laboratory, by ``ip`` and ``tc``.

A frame is lost at the switch's port by a classifier of four bytes of BPF that says "drop" to all (``TC_ACT_SHOT`` of
linux/pkt_cls.h): silently, as a broken switch does it, without taking the carrier away. Neither netem nor nftables is
needed, which not every kernel and host has; NET_CLS_BPF is there wherever tc is used for BPF.
"""

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal

import psutil

from stealtime.hosts.frame_counters import (
    Traffic,
    frames_dropped_by_devices,
    frames_dropped_by_queues,
    traffic_of_device,
)
from stealtime.lab.platforms.leftovers import is_left_over
from stealtime.lab.platforms.process import run_mark
from stealtime.vocabulary.errors import StealtimeError

PREFIX = "stealtime-lab-"
"""Of the namespaces' names: then the mark of the process that made them, a number, and what they are."""

NAMESPACES = Path("/run/netns")

Direction = Literal["both", "from", "to"]
"""Of frames, seen from the machine whose link is cut."""

_DROP_ALL = "1,6 0 0 2"
"""One instruction of classic BPF: return 2."""

_HOOKS: dict[Direction, tuple[str, ...]] = {"both": ("ingress", "egress"), "from": ("ingress",), "to": ("egress",)}

_END_WITHIN_S = 10.0


def namespace_name(serial: int, what: str) -> str:
    return f"{PREFIX}{run_mark()}-{serial}-{what}"


def make_namespaces(names: Iterable[str]) -> None:
    """Make namespaces with a working loopback device.

    Raises:
        StealtimeError: The kernel refuses.
    """
    for name in names:
        run("ip", "netns", "add", name)
        batch(name, ["link set lo up"])


def batch(namespace: str, commands: Iterable[str]) -> None:
    """Carry out commands of ``ip`` in a namespace, in one process.

    Raises:
        StealtimeError: One of them failed.
    """
    run("ip", "-n", namespace, "-batch", "-", text="".join(f"{command}\n" for command in commands))


def make_filterable(namespace: str, device: str) -> None:
    run("tc", "-n", namespace, "qdisc", "add", "dev", device, "clsact")


def drop(namespace: str, device: str, direction: Direction) -> None:
    """Lose every frame that passes a switch's port, in one direction or both."""
    for hook in _HOOKS[direction]:
        run("tc", "-n", namespace, *f"filter add dev {device} {hook} bpf da bytecode".split(), _DROP_ALL)


def drop_no_more(namespace: str, device: str) -> None:
    for hook in ("ingress", "egress"):
        run("tc", "-n", namespace, "filter", "del", "dev", device, hook)


def frames_dropped(namespace: str, devices: Collection[str]) -> int:
    """Give how many frames some devices of a namespace have lost so far."""
    return frames_dropped_by_devices(run("ip", "-n", namespace, "-json", "-statistics", "link", "show"), devices)


def traffic(namespace: str, device: str) -> Traffic:
    """Give what a device of a namespace has passed so far."""
    return traffic_of_device(run("ip", "-n", namespace, "-json", "-statistics", "link", "show", device), device)


def frames_filtered(namespace: str, devices: Collection[str]) -> int:
    """Give how many frames :func:`drop`, and queues, have lost at some devices of a namespace so far."""
    return frames_dropped_by_queues(run("tc", "-n", namespace, "-json", "-statistics", "qdisc", "show"), devices)


def processes_in(namespace: str) -> list[int]:
    return [int(pid) for pid in run("ip", "netns", "pids", namespace).split()]


def kill_processes(namespace: str) -> list[int]:
    """Kill all processes of a namespace at once, as a power cut does; give their pids when they are gone.

    Raises:
        StealtimeError: One does not end.
    """
    killed: list[int] = []
    deadline = time.monotonic() + _END_WITHIN_S
    while pids := [pid for pid in processes_in(namespace) if not _is_zombie(pid)]:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            if pid not in killed:
                killed.append(pid)
        if time.monotonic() > deadline:
            raise StealtimeError(f"the processes {pids} in {namespace} do not end, even by SIGKILL")
        time.sleep(0.005)
    return killed


def remove_namespaces(names: Sequence[str]) -> None:
    for name in names:
        kill_processes(name)
    for name in names:
        run("ip", "netns", "del", name)


def clear_laboratories() -> tuple[str, ...]:
    """Remove the namespaces of laboratories whose process is gone; give their names."""
    if not NAMESPACES.is_dir():
        return ()
    left = [entry.name for entry in NAMESPACES.glob(f"{PREFIX}*") if _is_left_over(entry.name)]
    remove_namespaces(left)
    return tuple(left)


def run(*argv: str, text: str | None = None) -> str:
    """Carry out a command and give what it prints.

    Raises:
        StealtimeError: It failed; the message holds the end of its output.
    """
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError as error:
        raise StealtimeError(f"the program {argv[0]} is not installed", hint="install the package iproute2") from error
    except subprocess.TimeoutExpired as error:
        raise StealtimeError(f"`{' '.join(argv)}` did not end within 30 s") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise StealtimeError(
            f"`{' '.join(argv)}` failed: {said[0] if said else f'exit code {done.returncode}'}",
            hint="the laboratory needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN), and a kernel with veth, bridges, cls_bpf",
        )
    return done.stdout


def _is_left_over(name: str) -> bool:
    return is_left_over(name.removeprefix(PREFIX).rsplit("-", 2)[0])


def _is_zombie(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True
