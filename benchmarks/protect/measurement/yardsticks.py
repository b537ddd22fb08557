"""What a pause is held against, on a bare QEMU: a copy of the same pages, stop and cont, a migration."""

import contextlib
import mmap
import stat
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stealtime.protect.specification import MachineSpec

from .bare import BareQemu, MonitorError, event_us

PAGE_BYTES = 4096

_MIGRATES_WITHIN_S = 60.0
NO_LIMIT_BYTES_PER_S = 1 << 40

Bytes = npt.NDArray[np.uint8]


class Memory:
    """The memory of a protected guest, mapped here, and room for a copy of some of its pages.

    Args:
        qemu_pid: Its QEMU, which has the memory as a file.
        size_bytes: How much it is.

    Raises:
        SystemExit: That QEMU has no such file.
    """

    def __init__(self, qemu_pid: int, size_bytes: int) -> None:
        with _memory_file(qemu_pid, size_bytes).open("rb") as file:
            self._map = mmap.mmap(file.fileno(), size_bytes, prot=mmap.PROT_READ)
        self._pages = np.frombuffer(self._map, np.uint8).reshape(-1, PAGE_BYTES)
        # Touched once, as a member has touched all that it copies from and to.
        self._snapshot = self._pages.copy()
        self._room = np.zeros_like(self._pages)

    def written_within(self, seconds: float) -> npt.NDArray[np.intp]:
        """Wait, and give the pages whose content has changed meanwhile."""
        np.copyto(self._snapshot, self._pages)
        time.sleep(seconds)
        return np.flatnonzero((self._snapshot != self._pages).any(axis=1))

    def copy_ns(self, pages: npt.NDArray[np.intp]) -> int:
        """Copy pages, one after the other, into memory that is there; give how long that took."""
        begin_ns = time.monotonic_ns()
        # "clip" lets numpy copy straight into the room; no index is out of bounds.
        np.take(self._pages, pages, axis=0, out=self._room[: len(pages)], mode="clip")
        return time.monotonic_ns() - begin_ns


def _memory_file(pid: int, size_bytes: int) -> Path:
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            state = entry.stat()
            if stat.S_ISREG(state.st_mode) and state.st_size == size_bytes:
                return entry
    raise SystemExit(f"QEMU (pid {pid}) has no file of {size_bytes} bytes open")


def as_many(pages: npt.NDArray[np.intp], count: int, of: int) -> npt.NDArray[np.intp]:
    """Give so many pages in their order: of those given, filled up with their neighbours where they are too few."""
    if len(pages) >= count:
        return pages[np.linspace(0, len(pages) - 1, count).astype(np.intp)]
    rest = np.setdiff1d(np.arange(of), pages)
    # The nearest first: what is filled up shall lie as the written pages do.
    places = np.searchsorted(pages, rest)
    after = np.abs(pages[np.minimum(places, len(pages) - 1)] - rest) if len(pages) else rest
    before = np.abs(rest - pages[np.maximum(places - 1, 0)]) if len(pages) else rest
    nearest = rest[np.argsort(np.minimum(before, after), kind="stable")]
    return np.sort(np.concatenate([pages, nearest[: count - len(pages)]]))


def stop_and_continue_ns(qemu: BareQemu) -> int:
    """Stop the guest and let it go on at once, by two commands; give how long both took."""
    begin_ns = time.monotonic_ns()
    qemu.monitor.execute("stop")
    qemu.monitor.execute("cont")
    return time.monotonic_ns() - begin_ns


@dataclass(frozen=True)
class Migration:
    """A migration to a second QEMU on this machine."""

    downtime_ms: float
    """As ``query-migrate`` tells it: whole milliseconds."""
    stood_ms: float
    """From ``STOP`` of the source to ``RESUME`` of the destination, on the clock of this machine."""
    pages: float
    """What was sent meanwhile, in pages."""


def migrate(
    source: BareQemu, machine: MachineSpec, folder: Path, parameters: Mapping[str, int]
) -> tuple[Migration, BareQemu]:
    """Migrate a guest over a unix socket; give how long it stood, and the QEMU where it now runs.

    Args:
        source: Is ended.
        machine: The guest.
        folder: For the socket and the logs.
        parameters: Of ``migrate-set-parameters``; what is not there is as QEMU has it.

    Raises:
        MonitorError: QEMU did not do it.
    """
    path = Path(tempfile.mkdtemp(dir=folder)) / "s"
    target = BareQemu(machine, folder, source.name, incoming=f"unix:{path}", emulator=source.emulator)
    try:
        source.monitor.events.clear()
        if parameters:
            source.monitor.execute("migrate-set-parameters", **parameters)
        source.monitor.execute("migrate", uri=f"unix:{path}")
        state = await_migration(source, "completed")
        resumed_us = event_us(target.monitor.await_event("RESUME", 10.0))
        stopped_us = event_us(source.monitor.await_event("STOP", 10.0))
    except MonitorError:
        target.end()
        raise
    source.end()
    pages = state["ram"]["downtime-bytes"] / PAGE_BYTES
    return Migration(float(state["downtime"]), (resumed_us - stopped_us) / 1e3, pages), target


def await_migration(source: BareQemu, wanted: str) -> dict[str, Any]:
    """Wait until a migration is in a state; give what QEMU tells of it.

    Raises:
        MonitorError: It ended otherwise, does not come that far, or QEMU does not answer.
    """
    deadline = time.monotonic() + _MIGRATES_WITHIN_S
    while (state := dict(source.monitor.execute("query-migrate"))).get("status") != wanted:
        if state.get("status") in ("failed", "completed") or time.monotonic() > deadline:
            raise MonitorError(f"the migration is {state.get('status')}, not {wanted}: {state.get('error-desc', '')}")
        time.sleep(0.02)
    return state
