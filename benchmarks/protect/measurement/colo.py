"""QEMU's own checkpointing, COLO, over a bare guest: how long the primary stands for each checkpoint, or why it fails.

No disk is replicated and no packets are compared, as the guest has neither a disk nor a peer: what is left is the
periodic checkpoint (``x-checkpoint-delay``). How it is set up: docs/COLO-FT.txt of QEMU.

Under TCG QEMU 7.2 does not do it for long: after a few checkpoints the thread that does them asks for a lock that it
holds itself, as :func:`lock_of_main_loop` shows. From QEMU's code it seems to come by it where TCG has it wait for the
virtual CPU (``tcg_log_global_after_sync``), in a wait that gives the lock of the main loop back and takes it, although
the thread had not taken it before.
"""

import re
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stealtime.protect.specification import MachineSpec

from .bare import BareQemu, MonitorError, stops_us
from .yardsticks import NO_LIMIT_BYTES_PER_S, await_migration

_FLUSHED = re.compile(r"colo_flush_ram_cache_begin dirty_pages (\d+)")
_FEWEST = 2
_ANSWERS_WITHIN_S = 10.0

# asm/unistd_64.h and linux/futex.h: FUTEX_WAIT with FUTEX_PRIVATE_FLAG, as pthread_mutex_lock calls it.
_SYS_FUTEX = 202
_WAIT_PRIVATE = 0x80


@dataclass(frozen=True)
class Colo:
    """A time under COLO."""

    stops_ms: tuple[float, ...]
    """The primary's, from ``STOP`` to ``RESUME`` of each checkpoint."""
    pages: tuple[int, ...]
    """That the secondary took over at each checkpoint: written by the primary, or by itself."""


class ColoError(Exception):
    """COLO does not run here.

    Args:
        message: The words of QEMU and of the guests.
        stops_ms: How long the primary stood for the checkpoints that were done.
    """

    def __init__(self, message: str, stops_ms: Sequence[float]) -> None:
        super().__init__(message)
        self.stops_ms = tuple(stops_ms)


def colo(primary: BareQemu, machine: MachineSpec, folder: Path, seconds: float, delay_ms: int) -> Colo:
    """Let QEMU checkpoint a guest to a second QEMU by COLO, and then go on without.

    Args:
        primary: Goes on running.
        machine: The guest.
        folder: For the socket and the logs.
        seconds: How long, from the first checkpoint.
        delay_ms: From the end of a checkpoint to the next.

    Raises:
        ColoError: It does not work; ``primary`` may be unusable then.
    """
    trace = ["-trace", "colo_flush_ram_cache_begin"]
    (folder / "secondary.console").unlink(missing_ok=True)
    with BareQemu(machine, folder, "secondary", incoming="defer", more=trace) as secondary:
        try:
            _begin(primary, secondary, folder, delay_ms)
            stood_us = _watch(primary, seconds)
            pages = [int(count) for count in _FLUSHED.findall(secondary.log.read_text("utf-8", "replace"))]
            _end(primary)
        except MonitorError as error:
            said = [str(error), *lock_of_main_loop(primary.process.pid), *crashes(primary), *crashes(secondary)]
            raise ColoError("; ".join(said), [us / 1e3 for us in stops_us(primary.monitor.events)]) from error
    # The first one takes over all of the first copy.
    return Colo(tuple(us / 1e3 for us in stood_us), tuple(pages[1:]))


def _begin(primary: BareQemu, secondary: BareQemu, folder: Path, delay_ms: int) -> None:
    path = Path(tempfile.mkdtemp(dir=folder)) / "s"
    _switch(secondary, on=True)
    secondary.monitor.execute("migrate-incoming", uri=f"unix:{path}")
    _switch(primary, on=True)
    primary.monitor.execute("migrate-set-parameters", x_checkpoint_delay=delay_ms, max_bandwidth=NO_LIMIT_BYTES_PER_S)
    primary.monitor.events.clear()
    primary.monitor.execute("migrate", uri=f"unix:{path}")
    await_migration(primary, "colo")
    # It stood from the end of the first copy until the secondary had loaded it.
    primary.monitor.await_event("RESUME", _ANSWERS_WITHIN_S)
    primary.monitor.events.clear()


def _watch(primary: BareQemu, seconds: float) -> list[int]:
    primary.monitor.listen(seconds)
    stood_us = stops_us(primary.monitor.events)
    state = primary.monitor.execute("query-migrate").get("status")
    running = primary.monitor.execute("query-status")["status"]
    if len(stood_us) < _FEWEST or state != "colo":
        raise MonitorError(
            f"{len(stood_us)} checkpoints in {seconds:g} s; the migration is {state}, the guest {running}"
        )
    return stood_us


def _end(primary: BareQemu) -> None:
    primary.monitor.execute("x-colo-lost-heartbeat")
    primary.monitor.await_event("COLO_EXIT", _ANSWERS_WITHIN_S)
    _switch(primary, on=False)


def _switch(qemu: BareQemu, *, on: bool) -> None:
    qemu.monitor.execute("migrate-set-capabilities", capabilities=[{"capability": "x-colo", "state": on}])


def lock_of_main_loop(pid: int) -> list[str]:
    """Say which thread of a QEMU holds the lock that its main loop waits for; nothing if it waits for none.

    The first words of glibc's mutex are the lock, a counter, and the thread that holds it (struct __pthread_mutex_s).
    """
    waited_for = {thread: _futex(Path(f"/proc/{pid}/task/{thread}")) for thread in _threads(pid)}
    lock = waited_for.get(pid)
    if lock is None:
        return []
    with Path(f"/proc/{pid}/mem").open("rb") as memory:
        memory.seek(lock)
        _, _, holder = struct.unpack("iii", memory.read(12))
    name = Path(f"/proc/{pid}/task/{holder}/comm")
    if not name.exists():
        return []
    waits = ", which waits for the same lock" if waited_for.get(holder) == lock else ""
    return [f"QEMU's main loop waits for a lock that its thread {name.read_text().strip()!r} holds{waits}"]


def _threads(pid: int) -> list[int]:
    return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]


def _futex(task: Path) -> int | None:
    """Give the address of the mutex that a thread waits for."""
    call = (task / "syscall").read_text().split()
    is_lock = len(call) > 2 and int(call[0]) == _SYS_FUTEX and int(call[2], 16) == _WAIT_PRIVATE
    return int(call[1], 16) if is_lock else None


def crashes(qemu: BareQemu) -> list[str]:
    """Say how the guest of a QEMU crashed; nothing if it has not."""
    lines = qemu.console.read_text("utf-8", "replace").splitlines() if qemu.console.exists() else []
    found = [line.strip() for line in lines if "Kernel panic" in line or "kernel BUG" in line]
    return [f"the guest of the {qemu.name} QEMU: {found[0]}"] if found else []
