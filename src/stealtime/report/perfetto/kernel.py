"""The events of a kernel's trace as marks: who ran on each CPU, what interrupted it, and what vCPUs left the guest for.

A row group of the table is in memory at a time.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stealtime._core import EVENT_KINDS
from stealtime.report.marks import Arguments, Begin, End, Instant, Mark, Slice, Track
from stealtime.store.columns import DAMAGED
from stealtime.store.host_line import CounterLine
from stealtime.store.tables import ROWS_A_GROUP
from stealtime.vocabulary.errors import StealtimeError

_NO_NAME = 0xFFFF_FFFF
_IDLE = 0
_NESTED = ("interrupt", "softirq", "vector", "timer")
_COLUMNS = ("cpu", "kind", "thread", "value", "other", "priority", "name")


class _Stack:
    """The slices of a track that have begun and not ended."""

    def __init__(self, track: Track) -> None:
        self.track = track
        self._open: list[str] = []

    def begin(self, at_ns: int, kind: str, name: str, arguments: Arguments) -> Iterator[Mark]:
        self._open.append(kind)
        yield Begin(self.track, at_ns, name, kind, arguments)

    def end(self, at_ns: int, kind: str) -> Iterator[Mark]:
        """End the last of a kind, and what began in it; nothing where none has begun, as before the recording."""
        if kind in self._open:
            while self._open:
                yield End(self.track, at_ns)
                if self._open.pop() == kind:
                    return

    def end_all(self, at_ns: int) -> Iterator[Mark]:
        yield from (End(self.track, at_ns) for _ in self._open)
        self._open.clear()


class KernelMarks:
    """The marks of one recording.

    Args:
        parent: The track that they stand below.
        line: Where the counter of the recording lies.
        names: What the column ``name`` counts.
    """

    def __init__(self, parent: Track, line: CounterLine, names: list[str]) -> None:
        self._parent, self._line, self._names = parent, line, names
        self._stacks: dict[tuple[str, int], _Stack] = {}
        self._cpus: dict[int, Track] = {}
        self.not_drawn = 0
        """Events that are accounts and no moments."""

    def of(self, path: Path) -> Iterator[Mark]:
        """Give the marks of a trace, in the order of its rows.

        Raises:
            StealtimeError: The file is damaged.
        """
        last_ns = 0
        try:
            for batch in pq.ParquetFile(path).iter_batches(batch_size=ROWS_A_GROUP):
                moments = self._line.moments(batch.column("time").to_numpy(zero_copy_only=False)).tolist()
                columns = (batch.column(name).to_numpy(zero_copy_only=False).tolist() for name in _COLUMNS)
                for at_ns, *row in zip(moments, *columns, strict=True):
                    yield from self._event(at_ns, *row)
                    last_ns = at_ns
        except (pa.ArrowException, OSError) as error:
            raise StealtimeError(f"{path} is damaged: {' '.join(str(error).split())}", hint=DAMAGED) from error
        for stack in self._stacks.values():
            yield from stack.end_all(last_ns)

    def _event(self, at_ns: int, cpu: int, code: int, *row: int) -> Iterator[Mark]:
        kind = EVENT_KINDS[code] if code < len(EVENT_KINDS) else str(code)
        what, _, side = kind.rpartition("_")
        if kind == "switch":
            return self._switch(at_ns, cpu, *row)
        if what in _NESTED:
            return self._nested(at_ns, cpu, what, side, *row)
        if what == "schedule":
            stack = self._stack(f"CPU {cpu} scheduler", cpu)
            return stack.begin(at_ns, what, "schedule", {}) if side == "entry" else stack.end(at_ns, what)
        if what == "vm":
            return self._vm(at_ns, side, *row)
        if kind == "runtime":
            self.not_drawn += 1
            return iter(())
        return self._instant(at_ns, cpu, kind, *row)

    def _switch(self, at_ns: int, cpu: int, *row: int) -> Iterator[Mark]:
        left, state, comes, priority, name = row
        stack = self._stack(f"CPU {cpu}", cpu)
        yield from stack.end_all(at_ns)
        if comes != _IDLE:
            told: Arguments = {"thread": comes, "priority": priority, "after": left, "state of that": state}
            yield from stack.begin(at_ns, "thread", self._name(name, f"thread {comes}"), told)

    def _nested(self, at_ns: int, cpu: int, what: str, side: str, *row: int) -> Iterator[Mark]:
        thread, value, _, _, name = row
        stack = self._stack(f"CPU {cpu} interrupts", cpu)
        if side == "entry":
            told: Arguments = {"interrupted": thread, "number": value}
            yield from stack.begin(at_ns, what, self._name(name, f"{what} {value}"), told)
        else:
            yield from stack.end(at_ns, what)

    def _vm(self, at_ns: int, side: str, *row: int) -> Iterator[Mark]:
        thread, reason, vcpu, _, name = row
        # By the thread: it may be displaced, and come back on another CPU, before the guest goes on.
        stack = self._stack(f"VM exits of thread {thread}", thread)
        if side == "exit":
            yield from stack.end_all(at_ns)
            yield from stack.begin(at_ns, "vm exit", self._name(name, f"reason {reason}"), {"vCPU": vcpu})
        else:
            yield from stack.end(at_ns, "vm exit")

    def _instant(self, at_ns: int, cpu: int, kind: str, *row: int) -> Iterator[Mark]:
        thread, value, other, _, name = row
        if kind == "lost":
            # Whoever ended meanwhile is not known.
            for (place, number), stack in self._stacks.items():
                if number == cpu and place.startswith("CPU"):
                    yield from stack.end_all(at_ns)
        told: Arguments = {"thread": thread, "value": value, "other": other}
        words = {
            "waking": f"wakes {self._name(name, f'thread {other}')}",
            "lost": f"{value} events lost before this",
            "nmi": f"NMI {self._name(name, '')} that ended here".replace("  ", " "),
        }
        yield Instant(self._events(cpu), at_ns, words.get(kind, kind.replace("_", " ")), kind, told)

    def _name(self, index: int, otherwise: str) -> str:
        return otherwise if index == _NO_NAME or index >= len(self._names) else self._names[index]

    def _cpu(self, cpu: int) -> Track:
        if cpu not in self._cpus:
            self._cpus[cpu] = Track(f"CPU {cpu}", self._parent)
        return self._cpus[cpu]

    def _events(self, cpu: int) -> Track:
        return self._stack(f"CPU {cpu} events", cpu).track

    def _stack(self, name: str, number: int) -> _Stack:
        key = (name, number)
        if key not in self._stacks:
            parent = self._cpu(number) if name.startswith("CPU") else self._parent
            track = parent if name == parent.name else Track(name, parent)
            self._stacks[key] = _Stack(track)
        return self._stacks[key]


def neighbour_marks(path: Path, parent: Track, line: CounterLine) -> Iterator[Mark]:
    """Draw when the neighbours worked, a track for each of their threads.

    Raises:
        StealtimeError: The file is damaged.
    """
    tracks: dict[tuple[int, int], Track] = {}
    try:
        for batch in pq.ParquetFile(path).iter_batches(batch_size=ROWS_A_GROUP):
            starts = batch.column("start").to_numpy(zero_copy_only=False)
            begin = line.moments(starts)
            lengths = line.moments(starts + batch.column("duration").to_numpy(zero_copy_only=False)) - begin
            keys = zip(batch.column("neighbour").to_pylist(), batch.column("thread").to_pylist(), strict=True)
            work = batch.column("work").to_pylist()
            for key, at_ns, length, done in zip(keys, begin.tolist(), lengths.tolist(), work, strict=True):
                track = tracks.setdefault(key, Track(f"neighbour {key[0]} thread {key[1]}", parent))
                yield Slice(track, at_ns, max(0, length), "works", "neighbour", {"work": done})
    except (pa.ArrowException, OSError) as error:
        raise StealtimeError(f"{path} is damaged: {' '.join(str(error).split())}", hint=DAMAGED) from error
