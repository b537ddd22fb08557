"""Takes beside a trial what the emulator writes down: when it raised interrupts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stealtime.lab.platforms.qemu_trace import WallClock, interrupts_in
from stealtime.store.result_kinds import Streams

if TYPE_CHECKING:
    from stealtime.campaigns.booted import TrialSetup
    from stealtime.lab.platforms.model import Machine

INTERRUPTS = "interrupts"
RAISED_NS = "raised_monotonic_raw_ns"
"""Of the host."""


def interrupts_schema() -> Any:
    """Give the columns of the table."""
    import pyarrow as pa

    return pa.schema([pa.field(RAISED_NS, pa.uint64(), nullable=False)])


class EmulatorInterrupts:
    """The part of an emulator's trace that belongs to one trial."""

    def __init__(self, trace: Path | None, stream: Path) -> None:
        self._trace = trace
        self._stream = stream
        self._begin_bytes = trace.stat().st_size if trace is not None and trace.exists() else 0
        self._begin = WallClock.read()
        self._end: WallClock | None = None

    @property
    def tables(self) -> Streams:
        """When interrupts were raised; nothing where no emulator tells."""
        return {} if self._trace is None else {INTERRUPTS: self._stream}

    async def end(self) -> None:
        self._end = WallClock.read()

    def write(self) -> None:
        if self._trace is None:
            return
        import pyarrow as pa

        end = self._end or WallClock.read()
        with self._trace.open("rb") as file:
            file.seek(self._begin_bytes)
            text = file.read().decode("ascii", "replace")
        raised = sorted(interrupts_in(text, self._begin, end))
        table = pa.table({RAISED_NS: pa.array(raised, pa.uint64())}, schema=interrupts_schema())
        with pa.OSFile(str(self._stream), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)


@asynccontextmanager
async def record_emulator(machine: "Machine", _setup: "TrialSetup", folder: Path) -> AsyncIterator[EmulatorInterrupts]:
    """Take what the machine's emulator writes down from here to the end of the trial.

    Args:
        machine: Under test.
        folder: Gets the table.
    """
    interrupts = EmulatorInterrupts(machine.emulator_trace, folder / f"{INTERRUPTS}.arrows")
    try:
        yield interrupts
    finally:
        await interrupts.end()
    await asyncio.to_thread(interrupts.write)
