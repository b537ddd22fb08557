"""QEMU's own checkpointing, COLO, over a bare guest: how long the primary stands for each checkpoint, or why it fails.

No disk is replicated, as the guest has none. Where no packets are compared either, what is left is the periodic
checkpoint (``x-checkpoint-delay``). How it is set up: docs/COLO-FT.txt of QEMU.

Under TCG QEMU 7.2 does not do it for long: after a few checkpoints the thread that does them asks for a lock that it
holds itself, as :func:`lock_of_main_loop` shows. From QEMU's code it seems to come by it where TCG has it wait for the
virtual CPU (``tcg_log_global_after_sync``), in a wait that gives the lock of the main loop back and takes it, although
the thread had not taken it before.
"""

import re
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stealtime.protect.specification import MachineSpec

from .bare import BareQemu, Emulator, MonitorError, stops_us
from .comparing import compare, let_go, stop_comparing
from .yardsticks import NO_LIMIT_BYTES_PER_S, await_migration

_FLUSHED = re.compile(r"colo_flush_ram_cache_begin dirty_pages (\d+)")
_FEWEST = 2
_ANSWERS_WITHIN_S = 10.0
LIVES_S = 3.0

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
    trips_ns: tuple[int | None, ...] = ()
    """Of what the guest was asked meanwhile."""


class ColoError(Exception):
    """COLO does not run here.

    Args:
        message: The words of QEMU and of the guests.
        stops_ms: How long the primary stood for the checkpoints that were done.
    """

    def __init__(self, message: str, stops_ms: Sequence[float]) -> None:
        super().__init__(message)
        self.stops_ms = tuple(stops_ms)


@dataclass(frozen=True)
class Way:
    """How QEMU is told to do it.

    Attributes:
        capabilities: Beside ``x-colo``.
        parameters: Of ``migrate-set-parameters``, beside the delay and no limit of the bandwidth.
        secondary: The secondary's QEMU and network; None: as the primary's.
        is_compared: Whether replies wait until both guests have given the same one, or a checkpoint was made.
    """

    capabilities: tuple[str, ...] = ()
    parameters: tuple[tuple[str, int], ...] = ()
    secondary: Emulator | None = None
    is_compared: bool = False
    ask: Callable[[float], list[int | None]] | None = None
    """Asks the guest for so many seconds and gives each round trip in ns, None where no answer came."""


OLD = Way()
"""Of QEMU 7.2."""


def colo(primary: BareQemu, machine: MachineSpec, folder: Path, seconds: float, delay_ms: int, way: Way = OLD) -> Colo:
    """Let QEMU checkpoint a guest to a second QEMU by COLO, and then go on without.

    Args:
        primary: Goes on running.
        machine: The guest.
        folder: For the socket and the logs.
        seconds: How long, from the first checkpoint.
        delay_ms: From the end of a checkpoint to the next.
        way: How.

    Raises:
        ColoError: It does not work; ``primary`` may be unusable then.
    """
    with _checkpointed(primary, machine, folder, delay_ms, way) as secondary:
        with _asked(way, seconds) as trips:
            stood_us = _watch(primary, seconds)
        pages = [int(count) for count in _FLUSHED.findall(secondary.log.read_text("utf-8", "replace"))]
        _end(primary, way)
        if way.is_compared:
            stop_comparing(primary)
    # The first one takes over all of the first copy.
    return Colo(tuple(us / 1e3 for us in stood_us), tuple(pages[1:]), tuple(trips))


@dataclass(frozen=True)
class Outlived:
    """A guest whose primary was killed."""

    took_ms: float
    """From the kill until the secondary, which was told at once, has taken over."""
    trips_ns: tuple[int | None, ...]
    """Of what was asked from some seconds before the kill to some after it."""


def outlive(
    primary: BareQemu, machine: MachineSpec, folder: Path, seconds: float, delay_ms: int, way: Way = OLD
) -> Outlived:
    """Kill the primary under COLO and tell the secondary at once.

    COLO has no heartbeat of its own: whoever uses it has to find out that the primary is dead.

    Raises:
        ColoError: The secondary does not run on, or its guest has crashed some seconds later.
    """
    with _checkpointed(primary, machine, folder, delay_ms, way) as secondary, _asked(way, seconds + LIVES_S) as trips:
        _watch(primary, seconds)
        begin_ns = time.monotonic_ns()
        primary.process.kill()
        secondary.monitor.execute("x-colo-lost-heartbeat")
        secondary.monitor.await_event("COLO_EXIT", _ANSWERS_WITHIN_S)
        if way.is_compared:
            let_go(secondary)
        took_ms = (time.monotonic_ns() - begin_ns) / 1e6
        secondary.monitor.listen(LIVES_S)
        running = secondary.monitor.execute("query-status")["status"]
        if running != "running" or crashes(secondary):
            raise MonitorError(f"{LIVES_S:g} s after it took over the guest is {running}")
    return Outlived(took_ms, tuple(trips))


@contextmanager
def _asked(way: Way, seconds: float) -> Iterator[list[int | None]]:
    """Ask the guest meanwhile; the round trips are in the list after the end."""
    trips: list[int | None] = []
    if way.ask is None:
        yield trips
        return
    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(way.ask, seconds)
        yield trips
        trips += asked.result()


@contextmanager
def _checkpointed(primary: BareQemu, machine: MachineSpec, folder: Path, delay_ms: int, way: Way) -> Iterator[BareQemu]:
    trace = ["-trace", "colo_flush_ram_cache_begin"]
    (folder / "secondary.console").unlink(missing_ok=True)
    emulator = way.secondary or primary.emulator
    with BareQemu(machine, folder, "secondary", incoming="defer", more=trace, emulator=emulator) as secondary:
        try:
            if way.is_compared:
                compare(primary, secondary, Path(tempfile.mkdtemp(dir=folder)))
            _begin(primary, secondary, folder, delay_ms, way)
            yield secondary
        except MonitorError as error:
            said = [str(error), *lock_of_main_loop(primary.process.pid), *crashes(primary), *crashes(secondary)]
            raise ColoError("; ".join(said), [us / 1e3 for us in stops_us(primary.monitor.events)]) from error


def _begin(primary: BareQemu, secondary: BareQemu, folder: Path, delay_ms: int, way: Way) -> None:
    path = Path(tempfile.mkdtemp(dir=folder)) / "s"
    own = dict(way.parameters)
    _switch(secondary, way, on=True)
    if own:
        secondary.monitor.execute("migrate-set-parameters", **own)
    secondary.monitor.execute("migrate-incoming", uri=f"unix:{path}")
    _switch(primary, way, on=True)
    settings = {"x_checkpoint_delay": delay_ms, "max_bandwidth": NO_LIMIT_BYTES_PER_S, **own}
    primary.monitor.execute("migrate-set-parameters", **settings)
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


def _end(primary: BareQemu, way: Way) -> None:
    primary.monitor.execute("x-colo-lost-heartbeat")
    primary.monitor.await_event("COLO_EXIT", _ANSWERS_WITHIN_S)
    _switch(primary, way, on=False)


def _switch(qemu: BareQemu, way: Way, *, on: bool) -> None:
    names = ("x-colo", *way.capabilities)
    qemu.monitor.execute("migrate-set-capabilities", capabilities=[{"capability": name, "state": on} for name in names])


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
