"""What the host takes of a machine while a program is watched in it: by the host's trace, for guests of ours."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stealtime._core import attribute_virtual
from stealtime.lab.platforms.model import Machine
from stealtime.lab.platforms.traits import traits_of
from stealtime.lab.processors import read_cpu_sets
from stealtime.lab.tracing.host import HostTracer, host_tracer
from stealtime.store.columns import columns_of_stream
from stealtime.store.model import Alignment
from stealtime.store.surroundings import TRACE_SCHEMA
from stealtime.store.time_line import allowed_offsets, told_offset
from stealtime.store.traces import events_of
from stealtime.vocabulary.alignment import Alignment as ClockAlignment
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import TraceRequest

if TYPE_CHECKING:
    from stealtime._core import SpikesDict, TraceDict

_TRIAL = 1
_NO_SPIKES: "SpikesDict" = {
    "start": np.zeros(0, np.uint64),
    "duration": np.zeros(0, np.uint64),
    "floor": 0,
    "time_lines_of": [],
}


@dataclass
class HostView:
    """The host's side of a machine."""

    machine: Machine
    tracer: HostTracer | None
    folder: Path
    words: str
    """Where it is known from, or why it is not."""
    taken: list[tuple[list[tuple[int, int]], int]] = field(default_factory=list)
    """For each virtual CPU: stretches on the machine's counter, and the error of their ends, in cycles. Empty where
    nothing is known."""
    _before: ClockAlignment | None = None

    async def begin(self) -> None:
        """Record the host from here on, where it can be."""
        if self.tracer is None:
            return
        self._before = await self.machine.connection.exchange_clocks()
        if not await self.tracer.start(_TRIAL, TraceRequest()):
            absent = self.tracer.absent
            self.words = "not known: the host is not recorded" if absent is None else f"not known: {absent.text}"
            self.tracer = None

    async def end(self) -> None:
        """End the recording and make stretches of it."""
        if self.tracer is None or self._before is None:
            return
        after = await self.machine.connection.exchange_clocks()
        traced = await self.tracer.stop(_TRIAL, self.folder / "host")
        if traced is None:
            self.words = "not known: the recording of the host failed"
            return
        alignment = Alignment(before=self._before, after=after, tsc_offset=self.machine.tsc_offset())
        columns = await asyncio.to_thread(columns_of_stream, traced.trace, TRACE_SCHEMA)
        host: TraceDict = {
            **events_of(columns, traced.outcome),
            "tsc_hz": traced.outcome.tsc_hz,
            "labelled": [],
            "labels": [],
            "cpus": None,
        }
        vcpus = sorted((one.name, one.tid) for one in self.machine.threads() if one.role == "vcpu")
        try:
            offsets = allowed_offsets(alignment, traced.outcome)
            told = told_offset(alignment, offsets)
            for _, thread in vcpus:
                self.taken.append(_taken(host, thread, offsets if told is None else (told, told)))
        except (StealtimeError, ValueError) as error:
            self.taken = []
            self.words = f"not known: {error}"
            return
        error_us = max((error for _, error in self.taken), default=0) / traced.outcome.tsc_hz * 1e6
        stretches = sum(len(one) for one, _ in self.taken)
        self.words = (
            f"by the host's trace, {stretches} times in which the virtual CPU could run and did not, known to "
            f"{error_us:.0f} us"
        )


@asynccontextmanager
async def watched_from_host(machine: Machine, is_guest: bool, folder: Path) -> AsyncIterator[HostView]:
    """Have the host of a guest of ours looked at; of other machines say why it is not."""
    if not is_guest:
        traits = traits_of(machine.platform)
        words = "natively no trace tells what a host above takes" if traits.is_native else "not seen from here"
        yield HostView(machine, None, folder, words)
        return
    own = folder / "host"
    await asyncio.to_thread(own.mkdir)
    cpus = read_cpu_sets().usable
    async with host_tracer(own, cpus[:-1] or cpus) as tracer:
        yield HostView(machine, tracer, folder, "not known")


def _taken(host: "TraceDict", thread: int, offsets: tuple[int, int]) -> tuple[list[tuple[int, int]], int]:
    """Give when a vCPU's thread could run and did not, on the guest's counter."""
    found = attribute_virtual(
        host,
        [{"threads": [thread], "real_time": False, "limit_lifted": False}],
        offsets,
        None,
        {"threads": [], "real_time": True, "limit_lifted": True},
        _NO_SPIKES,
    )
    low, high = found["offsets"]
    middle, error = (low + high) // 2, (high - low + 1) // 2
    begins, ends = found["wait_start"].astype(np.int64) + middle, found["wait_end"].astype(np.int64) + middle
    pairs = zip(begins.tolist(), ends.tolist(), strict=True)
    return [(max(0, begin), end) for begin, end in pairs if end > 0], error
