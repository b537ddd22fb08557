"""What a guest's QEMU tells over QMP: which threads are virtual CPUs, its balloon, KVM's own counters.

QEMU serves one client at a time. A monitor that somebody holds (libvirt does) leaves us in the queue: we go after
``_PATIENCE_S``, and nobody has noticed. So this is asked seldom, at the beginning and at the end. Where there is no
monitor, root finds KVM's counters in debugfs too.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from stealtime.capacity.guest import Guest
from stealtime.lab.platforms import kvm_counters
from stealtime.lab.platforms.failure import MachineError
from stealtime.lab.platforms.kvm_counters import CountersGained, CountersLook
from stealtime.lab.platforms.qemu_monitor import QemuMonitor
from stealtime.vocabulary.readings import Absent, Reading, Value

DEBUGFS = Path("/sys/kernel/debug/kvm")
_PATIENCE_S = 2.0
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class MonitorLook:
    """What QEMU told at one moment."""

    balloon_bytes: Reading
    """What the guest has now; QEMU's balloon never gives more by itself, so being at the maximum means nothing."""
    counters: CountersLook | Absent


@dataclass(frozen=True)
class MonitorGained:
    """What QEMU told at the end, and what KVM counted meanwhile."""

    balloon_bytes: Reading
    counters: CountersGained | Absent


def vcpu_threads(guest: Guest) -> list[int] | Absent:
    """Ask QEMU which threads its virtual CPUs are, in their order, as its own PID namespace numbers them.

    Waits for the answer, wherever it is called from: also where an event loop runs.
    """
    with ThreadPoolExecutor(max_workers=1) as short_lived:
        return short_lived.submit(lambda: asyncio.run(_ask(guest, QemuMonitor.vcpu_threads))).result()


async def look(guest: Guest, debugfs: Path = DEBUGFS) -> MonitorLook:
    """Ask QEMU for its balloon and KVM's counters; it raises nothing."""
    told = await _ask(guest, _look)
    if isinstance(told, MonitorLook):
        return told
    counters = read_debugfs(guest, debugfs)
    return MonitorLook(told, told if isinstance(counters, Absent) else counters)


def between(before: MonitorLook, after: MonitorLook) -> MonitorGained:
    for one in (before.counters, after.counters):
        if isinstance(one, Absent):
            return MonitorGained(after.balloon_bytes, one)
    assert isinstance(before.counters, CountersLook) and isinstance(after.counters, CountersLook)  # noqa: S101, PT018
    return MonitorGained(after.balloon_bytes, kvm_counters.between(before.counters, after.counters))


async def look_at_all(guests: Mapping[tuple[int, int], Guest]) -> dict[tuple[int, int], MonitorLook]:
    asked = {key: guest for key, guest in guests.items() if guest.kind != "uml"}
    looks = await asyncio.gather(*(look(guest) for guest in asked.values()))
    return dict(zip(asked, looks, strict=True))


def read_debugfs(guest: Guest, debugfs: Path = DEBUGFS) -> CountersLook | Absent:
    """Read KVM's counters of a guest where debugfs shows them: ``kvm/PID-FD/NAME``, all virtual CPUs together."""
    try:
        folders = [folder for folder in debugfs.iterdir() if folder.name.partition("-")[0] == str(guest.pid)]
    except OSError as error:
        return Absent(absent=f"{debugfs}: {error.strerror}")
    if not folders:
        return Absent(absent=f"{debugfs} has no folder of process {guest.pid}: it does not run under KVM")
    asked_ns = kvm_counters.now_ns()
    counts = {}
    for counter in kvm_counters.COUNTERS:
        try:
            counts[counter.name] = int((folders[0] / counter.name).read_text())
        except (OSError, ValueError):
            continue  # this kernel does not count it
    return CountersLook(asked_ns, kvm_counters.now_ns(), {0: counts})


async def _look(monitor: QemuMonitor) -> MonitorLook:
    balloon: Reading
    try:
        balloon = Value(value=int((await monitor.execute("query-balloon"))["actual"]))
    except MachineError as error:
        balloon = Absent(absent=error.message)
    return MonitorLook(balloon, await kvm_counters.look(monitor))


async def _ask(guest: Guest, question: Callable[[QemuMonitor], Awaitable[_Answer]]) -> _Answer | Absent:
    if guest.monitor is None:
        return Absent(absent=f"the QEMU of {guest.name} has no monitor on a Unix socket")
    monitor = QemuMonitor(guest.name)
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            ours.setblocking(False)
            await asyncio.get_running_loop().sock_connect(ours, str(guest.monitor))
            await monitor.connect(ours)
            return await question(monitor)
    except TimeoutError:
        return Absent(absent=f"the monitor {guest.monitor} of {guest.name} is in use by somebody else")
    except Exception as error:
        why = error if isinstance(error, (OSError, MachineError)) else f"its answer is none of QEMU's ({error!r})"
        return Absent(absent=f"the monitor {guest.monitor} of {guest.name}: {why}")
    finally:
        await monitor.close()
        ours.close()
