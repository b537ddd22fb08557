"""Records what the host and its guests use, beside something else: a thread that reads the counters at an interval."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stealtime.capacity.collector import PROC, Collector
from stealtime.capacity.counters import kernel_rates
from stealtime.capacity.counters.kernel_rates import GuestLook, KernelLook
from stealtime.capacity.gather import Turns
from stealtime.capacity.guest import Guest, GuestThread
from stealtime.capacity.guests.view import GuestViews
from stealtime.capacity.recording import HOST, Row, further_rows, rows_of, unreadable
from stealtime.capacity.sample import Sample
from stealtime.capacity.use import between
from stealtime.vocabulary.errors import StealtimeError

Namer = Callable[[Guest, Sequence[GuestThread]], str]
"""Gives a guest with the threads that it had when it was first seen a name that no other has."""


class Recorder:
    """Reads the counters until it is ended. What was not a whole interval is left out.

    Args:
        name_of: What a guest is called in the rows.
        interval_s: From one reading to the next, 1 s or more (``session.SHORTEST_INTERVAL_NS``).
        proc: The kernel's ``/proc``; another one in tests.
    """

    def __init__(self, name_of: Namer, interval_s: float, proc: Path = PROC) -> None:
        self._name_of = name_of
        self._interval_s = interval_s
        # Guests are asked that need not be told how: those of User-Mode Linux answer on their management socket.
        self._views = GuestViews({})
        self._collector = Collector(proc, guest_view=self._views.of)
        self._names: dict[tuple[int, int], str] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._rows: list[Row] = []
        self._began_ns = 0
        self._before: Sample | None = None
        self._proc = proc
        self._kernel: KernelLook | None = None
        self._of_kvm: dict[tuple[int, int], GuestLook] = {}

    def begin(self) -> None:
        self.read()
        self._thread = threading.Thread(target=self._go_on, name="capacity recorder", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()

    def rows(self) -> list[Row]:
        """Give what was recorded; waits for a reading that is under way."""
        self.end()
        if self._thread is not None:
            self._thread.join()
        return self._rows

    def read(self) -> None:
        """Read once, and keep what was used since the reading before; a host that cannot be read ends the recording."""
        try:
            after = self._collector.sample()
        except (OSError, ValueError, StealtimeError) as error:
            # What is measured goes on; that nothing is known of the host is told.
            self._rows.append(unreadable(self._rows[-1].at_ns if self._rows else 0, error))
            self.end()
            return
        for key, guest in after.guests.items():
            if key not in self._names:
                self._names[key] = self._name_of(guest.guest, guest.threads)
        kernel_before, self._kernel = self._kernel, kernel_rates.read_kernel(self._proc)
        kvm_before, self._of_kvm = self._of_kvm, self._looks(after)
        before, self._before = self._before, after
        if before is None or kernel_before is None:
            self._began_ns = after.at_ns
            return
        use = between(before, after)
        at_ns = after.at_ns - self._began_ns
        self._rows += rows_of(use, at_ns, lambda guest: self._names[guest.key])
        first = Row(at_ns, round(use.elapsed_s * 1e9), HOST, HOST, "", "", None, None)
        self._rows += further_rows(first, kernel_rates.host_figures(kernel_before, self._kernel, use.elapsed_s))
        for key, look in self._of_kvm.items():
            if key in kvm_before:
                of_guest = first._replace(subject=self._names[key], kind=use.guests[key].guest.kind)
                figures = kernel_rates.guest_figures(kvm_before[key], look, use.elapsed_s)
                self._rows += further_rows(of_guest, figures)

    def _looks(self, sample: Sample) -> dict[tuple[int, int], GuestLook]:
        """Read what KVM counts of each guest that may run under it."""
        return {
            key: kernel_rates.read_guest(one.guest, one.threads, self._proc)
            for key, one in sample.guests.items()
            if one.guest.kind != "uml"
        }

    def _go_on(self) -> None:
        turns = Turns(self._interval_s)
        while not self._ended.wait(turns.until_next_s()):
            self.read()
        self._collector.close()
        self._views.close()


def write_stream(rows: Sequence[Row], path: Path) -> None:
    # pyarrow takes 0.3 s to load.
    import pyarrow as pa

    table = pa.Table.from_pylist([row._asdict() for row in rows], schema=arrow_schema())
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a Parquet file.

    Raises:
        pyarrow.ArrowException: It is damaged.
        OSError: It cannot be read.
    """
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = pq.read_table(path, columns=list(Row._fields)).to_pydict()
    return [Row(*values) for values in zip(*(columns[name] for name in Row._fields), strict=True)]


def arrow_schema() -> Any:
    import pyarrow as pa

    whole = [pa.field(name, pa.uint64(), nullable=False) for name in ("at_ns", "elapsed_ns")]
    words = [pa.field(name, pa.string(), nullable=False) for name in ("subject", "kind", "part", "figure")]
    return pa.schema([*whole, *words, pa.field("value", pa.float64()), pa.field("absent", pa.string())])
