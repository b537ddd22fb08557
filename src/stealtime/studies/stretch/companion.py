"""Records the counters of the host and of its guests while a machine does its work."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stealtime.lab.platforms.traits import traits_of
from stealtime.store.result_kinds import Streams
from stealtime.studies.stretch.results import HOST_COUNTERS

if TYPE_CHECKING:
    from stealtime.campaigns.booted import TrialSetup
    from stealtime.capacity.guest import Guest, GuestThread
    from stealtime.capacity.recorder import Recorder
    from stealtime.lab.platforms.model import Machine

MACHINE = "machine"
"""The machine under test, among the guests of the table."""
INTERVAL_S = 1.0
"""Run time is brought up to date at the timer tick: shorter intervals tell nothing more, and cost more."""


class HostCounters:
    """The recording beside one trial; without a recorder there is none."""

    def __init__(self, recorder: "Recorder | None", stream: Path) -> None:
        self._recorder = recorder
        self._stream = stream

    @property
    def tables(self) -> Streams:
        """The host's counters over time; nothing of a machine on another host."""
        return {} if self._recorder is None else {HOST_COUNTERS: self._stream}

    async def end(self) -> None:
        if self._recorder is not None:
            self._recorder.end()

    def write(self) -> None:
        from stealtime.capacity.recorder import write_stream

        if self._recorder is not None:
            write_stream(self._recorder.rows(), self._stream)


@asynccontextmanager
async def record_host(machine: "Machine", setup: "TrialSetup", folder: Path) -> AsyncIterator[HostCounters]:
    """Read the counters of this host and of its guests until the machine has measured.

    Args:
        machine: Which is called ``machine`` among the guests.
        beside: Its neighbours keep their names, ``neighbour 1`` ...; other guests have those of ``stealtime advise``.
        folder: Gets the table.
    """
    from stealtime.capacity.recorder import Recorder

    recorder = None
    # The host that could be watched is not the one that matters to a machine elsewhere.
    if not traits_of(machine.platform).is_remote:
        recorder = Recorder(_namer(machine, setup), INTERVAL_S)
        await asyncio.to_thread(recorder.begin)
    counters = HostCounters(recorder, folder / f"{HOST_COUNTERS}.arrows")
    try:
        yield counters
    finally:
        if recorder is not None:
            recorder.end()
    await asyncio.to_thread(counters.write)


def _namer(machine: "Machine", setup: "TrialSetup") -> "Callable[[Guest, Sequence[GuestThread]], str]":
    ours = {thread.tid: MACHINE for thread in machine.threads()}
    for neighbour in setup.neighbours.all:
        ours |= dict.fromkeys((thread.tid for thread in neighbour.threads()), neighbour.name)

    def name_of(guest: "Guest", threads: "Sequence[GuestThread]") -> str:
        return next((ours[tid] for tid in (guest.pid, *(one.tid for one in threads)) if tid in ours), guest.name)

    return name_of
