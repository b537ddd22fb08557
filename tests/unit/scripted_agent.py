"""An agent that follows a script, in this process: real frames on a real socket pair, made-up figures."""

import asyncio
import io
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scripted_tasks
from pydantic import BaseModel

from stealtime.lab.platforms.affinity import HostThread
from stealtime.lab.platforms.cgroup import CpuGroup
from stealtime.lab.platforms.kvm_counters import CountersLook
from stealtime.lab.platforms.machine import NO_TSC_OFFSET
from stealtime.lab.platforms.model import Availability, BootRecord, Machine, MachineRequest
from stealtime.store.surroundings import TRACE_SCHEMA
from stealtime.vocabulary.clocks import ClockCheck, ClockReading, ClockRecord
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.readings import Absent, Reading, Value
from stealtime.wire.connection import AgentConnection
from stealtime.wire.frame import FrameDecoder, FrameKind, encode_frame
from stealtime.wire.load import LoadDone, LoadOutcome, LoadStarted, StartLoad, StopLoad
from stealtime.wire.message import (
    PROTOCOL_VERSION,
    AgentHello,
    Calibrate,
    Calibrated,
    CancelTrial,
    Checkpoint,
    ClockAnswer,
    ContendProbe,
    ExchangeClock,
    Failed,
    Gapped,
    Layout,
    PartStored,
    Periodic,
    Progress,
    RunTrial,
    StartTracing,
    StopTracing,
    StreamBegin,
    StreamEnd,
    StreamName,
    Tiled,
    TraceRequest,
    TracingDone,
    TracingOutcome,
    TracingStarted,
    TrialDone,
    TrialRequest,
    to_agent,
)
from stealtime.wire.rtload import RtloadProbe
from stealtime.wire.threads import ThreadPlacement
from stealtime.wire.threshold import ThresholdHit

UNITS_PER_S = 2e9
ITERATIONS_A_US = 1000

Behaviour = Callable[[TrialRequest], str]
"""What the agent does with a trial: ``measure``, ``invalid``, ``refuse``, ``die``, ``hang`` or ``until cancelled``.
After ``part, ``: what it does when a part of it, ``PART_ROWS`` samples, is stored: send another ``part``, ``die``,
``hang``, ``measure``, or ``freeze``, which answers nothing any more."""
PART_ROWS = 400
PAUSE_UNITS = 5000
"""Before the first sample of the rest."""


CONTENTION = {
    "elapsed_ns": 1_000_000_000, "iterations": 2, "checksum": 7, "cpus": 1, "cpu_ns": 900_000_000,
    "fill_cpu_ns": 100_000_000, "fault_cpu_ns": 40_000_000, "lock_wait_ns": 0, "io_ns": 100_000_000,
    "io_asked_ns": 90_000_000, "uneven_idle_ns": 0, "minor_faults": 512, "major_faults": 0, "involuntary_switches": 3,
    "idle_ns": 90_000_000,
}  # fmt: skip
"""What two iterations took."""


def measure_all(_: object) -> str:
    return "measure"


def no_hypervisor(_: int) -> CountersLook | Absent:
    return Absent(absent="a scripted agent runs on nothing")


@dataclass
class ScriptedPlatform:
    """A platform whose machines are scripted agents; it counts its boots and the trials it was asked for."""

    name: str = "native"
    behaviour: Behaviour = measure_all
    protocol: int = PROTOCOL_VERSION
    unusable: str | None = None
    load_behaviour: Callable[[int], str] = measure_all
    """What the agent does when the load of a trial is to be stopped: ``measure`` or ``die``."""
    untraceable: str | None = None
    """Why the agent refuses to trace."""
    facts: Mapping[str, str] = field(default_factory=lambda: {"kernel_image": "none"})
    """Of each boot."""
    speed: float = 1.0
    """How many of its seconds the machine counts in one of the host's."""
    hypervisor_counters: Callable[[int], CountersLook | Absent] = no_hypervisor
    """What the hypervisor of each machine has counted at its n-th reading."""
    boots: int = 0
    trials: list[TrialRequest] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)
    """The trials that a load was started for."""
    cancelled_after: float = 0.4
    """Of its duration, how much a cancelled trial has measured."""
    parts: int = 0
    """How many parts of the last trial were sent."""
    cancelled: int = 0
    """How many trials were cancelled."""
    traces: list[TraceRequest] = field(default_factory=list)
    """Of agents that were asked to trace besides a trial."""

    async def check(self) -> Availability:
        return Availability(self.unusable is None, self.unusable or "scripted")

    def boot(self, request: MachineRequest) -> AbstractAsyncContextManager[Machine]:
        return self._boot(request)

    @asynccontextmanager
    async def _boot(self, request: MachineRequest) -> AsyncIterator[Machine]:
        self.boots += 1
        (request.folder / "serial.log").write_text(f"boot {self.boots} of {self.name}\nlast words\n")
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        agent = asyncio.create_task(self._serve(*await asyncio.open_connection(sock=theirs)))
        try:
            connection = AgentConnection(reader, writer, peer=self.name, describe_end=_ended)
            hello = await connection.hello()
            yield ScriptedMachine(self, connection, request, hello, agent)
        finally:
            agent.cancel()
            await asyncio.gather(agent, return_exceptions=True)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def send(message: BaseModel) -> None:
            writer.write(encode_frame(FrameKind.MESSAGE, message.model_dump_json().encode()))

        decoder = FrameDecoder()
        send(AgentHello(protocol=self.protocol, agent_version="9.9.9", facts={}))
        try:
            while data := await reader.read(1 << 16):
                for frame in decoder.feed(data):
                    match to_agent.validate_json(frame.payload):
                        case ExchangeClock(id=number):
                            send(ClockAnswer(id=number, reading=self._read_clocks()))
                        case Calibrate(loop_ns=loop_ns):
                            send(
                                Calibrated(
                                    loop_ns=loop_ns, iterations=loop_ns * ITERATIONS_A_US // 1000, floor_ns=loop_ns
                                )
                            )
                        case StartLoad(trial=trial):
                            self.loads.append(trial)
                            send(LoadStarted(trial=trial, thread_ids=[2]))
                        case StopLoad(trial=trial):
                            if self.load_behaviour(trial) == "die":
                                return
                            self._stream(trial, "load", _load_rows(), writer, send)
                            send(LoadDone(trial=trial, outcome=load_outcome()))
                        case StartTracing(trial=trial, tracing=tracing):
                            self.traces.append(tracing)
                            if self.untraceable is None:
                                send(TracingStarted(trial=trial, groups={"sched": Value(value=True)}))
                            else:
                                send(Failed(trial=trial, error=self.untraceable, hint="mount tracefs"))
                        case StopTracing(trial=trial):
                            self._stream(trial, "trace", _trace_rows(), writer, send)
                            send(TracingDone(trial=trial, outcome=_tracing_outcome()))
                        case PartStored():
                            what = self.behaviour(self.trials[-1]).split(", ")[self.parts]
                            if what == "die":
                                return
                            if what == "freeze":
                                await asyncio.Event().wait()
                            if what == "part":
                                self._part(self.trials[-1], writer, send)
                            if what == "measure":
                                self._rest(self.trials[-1], writer, send)
                        case CancelTrial():
                            self.cancelled += 1
                            await self._trial(self.trials[-1], writer, send, "cancelled")
                        case RunTrial() as request:
                            self.trials.append(request)
                            self.parts = 0
                            if await self._trial(request, writer, send) == "die":
                                return
                        case _:
                            pass
                await writer.drain()
        finally:
            writer.close()

    def _read_clocks(self) -> ClockReading:
        now_ns = round(time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) * self.speed)
        tsc = round(now_ns * UNITS_PER_S / 1e9)
        return ClockReading(tsc=tsc, monotonic_raw_ns=now_ns, monotonic_ns=now_ns, bracket_tsc=10)

    async def _trial(
        self,
        request: TrialRequest,
        writer: asyncio.StreamWriter,
        send: Callable[[BaseModel], None],
        behaviour: str | None = None,
    ) -> str:
        behaviour = behaviour or self.behaviour(request)
        if behaviour == "hang":
            await asyncio.Event().wait()
        if behaviour == "refuse":
            send(Failed(trial=request.trial, error="9 is no priority here", hint="choose another"))
        if behaviour.startswith("part, "):
            self._part(request, writer, send)
        if behaviour in ("measure", "invalid", "cancelled"):
            send(Progress(trial=request.trial, elapsed_ns=1000, samples=1, max_ns=2000.0))
            if isinstance(request.probe, ContendProbe):
                self._stream(request.trial, "iterations", _iterations(), writer, send)
                self._stream(request.trial, "machine_counters", _machine_counters(), writer, send)
                send(_done(request, None, CONTENTION, end=behaviour))
                return behaviour
            if isinstance(request.probe, RtloadProbe):
                jobs, told = scripted_tasks.play(request.probe, request.duration_ns)
                self._stream(request.trial, "jobs", jobs, writer, send)
                self._stream(request.trial, "events", _events(), writer, send)
                counted = _done(request, None, {"polluted_pages": 7}, end=behaviour)
                send(counted.model_copy(update={"rtload": told}))
                return behaviour
            samples, layout = _samples(request)
            self._stream(request.trial, "samples", samples, writer, send)
            self._stream(request.trial, "events", _events(), writer, send)
            if request.tracing is not None:
                self._stream(request.trial, "trace", _trace_rows(), writer, send)
            watched_ns = round(request.duration_ns * (self.cancelled_after if behaviour == "cancelled" else 1.0))
            counters = {"recorded": samples.num_rows, "watched_ns": watched_ns}
            is_early = behaviour == "cancelled" and self.cancelled_after < 1.0
            send(_done(request, layout, counters, end="early" if is_early else behaviour))
        return behaviour

    def _part(self, request: TrialRequest, writer: asyncio.StreamWriter, send: Callable[[BaseModel], None]) -> None:
        """Send the next part."""
        samples, layout = _samples(request)
        part = samples.slice(self.parts * PART_ROWS, PART_ROWS)
        self._stream(request.trial, "samples", part, writer, send, is_part=True)
        if not self.parts:
            self._stream(request.trial, "events", _events(), writer, send, is_part=True)
        self.parts += 1
        rows = self.parts * PART_ROWS
        counters = {"recorded": rows, "watched_ns": round(request.duration_ns * rows / 1000)}
        done = _done(request, layout, counters, end="part")
        send(Checkpoint.model_validate(done.model_dump(exclude={"type"})))

    def _rest(self, request: TrialRequest, writer: asyncio.StreamWriter, send: Callable[[BaseModel], None]) -> None:
        """Send what comes after the parts, with a pause before it."""
        samples, layout = _samples(request)
        self._stream(request.trial, "samples", samples.slice(self.parts * PART_ROWS), writer, send)
        self._stream(request.trial, "events", _pause(), writer, send)
        counters = {"recorded": samples.num_rows, "watched_ns": request.duration_ns, "pauses": 1}
        send(_done(request, layout, counters, end="measure"))

    def _stream(
        self,
        trial: int,
        name: StreamName,
        table: Any,
        writer: asyncio.StreamWriter,
        send: Callable[[BaseModel], None],
        *,
        is_part: bool = False,
    ) -> None:
        stream = _stream(table)
        send(StreamBegin(trial=trial, stream=name, is_part=is_part))
        writer.write(encode_frame(FrameKind.ARROW, stream))
        send(StreamEnd(trial=trial, stream=name, bytes=len(stream)))


AGENT_ENDED = "the agent ended"


async def _ended() -> str:
    return AGENT_ENDED


class ScriptedMachine:
    """A booted scripted agent."""

    def __init__(
        self,
        platform: ScriptedPlatform,
        connection: AgentConnection,
        request: MachineRequest,
        hello: AgentHello,
        agent: "asyncio.Task[None]",
    ) -> None:
        self.platform = platform.name
        self.scripted = platform
        self.counter_readings = 0
        self.connection = connection
        self.boot = BootRecord(("scripted",), 0.25, platform.facts)
        self.measured_cpus: tuple[int, ...] = (0,)
        self.cpu_group: CpuGroup | None = None
        self.serial_log: Path | None = request.folder / "serial.log"
        self.emulator_trace: Path | None = None
        self.agent_facts = hello.facts
        self.request = request
        self.agent = agent

    def threads(self) -> list[HostThread]:
        return [HostThread("vcpu", "scripted", 1, self.request.vcpu_cpus[0])]

    def tsc_offset(self) -> Reading:
        return NO_TSC_OFFSET

    def exit_reason(self) -> str | None:
        return AGENT_ENDED if self.agent.done() else None

    async def hypervisor_counters(self) -> CountersLook | Absent:
        self.counter_readings += 1
        return self.scripted.hypervisor_counters(self.counter_readings)


_CLOCK = ClockReading(tsc=1000, monotonic_raw_ns=500, monotonic_ns=500, bracket_tsc=10)


def _samples(request: TrialRequest) -> tuple[Any, Layout]:
    """Make 1000 samples; the longest, saturated one is number 7: 5,000,000,000 units, 2.5 s."""
    durations = np.arange(1000, dtype=np.uint32) + np.uint32(200)
    durations[7] = np.uint32(0xFFFF_FFFF)
    columns = {"duration": durations}
    match request.probe.name:
        case "tick":
            return pa.table(columns), Tiled()
        case "switch":
            return pa.table({"gap": np.full(1000, 50, np.uint32), **columns}), Gapped()
        case "wakeup":
            return pa.table(columns), Periodic(interval=request.probe.interval_ns * 2)
        case other:
            raise AssertionError(f"{other} has no samples")


def _machine_counters() -> Any:
    numbers = {name: pa.array([1_000_000_000], pa.uint64()) for name in ("at_ns", "elapsed_ns")}
    words = {"program": pa.array([""]), "figure": pa.array(["context_switches"])}
    return pa.table({**numbers, **words, "value": pa.array([70], pa.uint64())})


def _iterations() -> Any:
    return pa.table(
        {"task": pa.array([0, 0], pa.uint32()), "duration_ns": pa.array([400_000_000, 600_000_000], pa.uint64())}
    )


def _events() -> Any:
    return _events_of({"kind": ["saturated"], "index": [7], "start": [1421], "duration": [5_000_000_000]})


def _pause() -> Any:
    return _events_of({"kind": ["pause"], "index": [PART_ROWS], "start": [0], "duration": [PAUSE_UNITS]})


def _events_of(columns: dict[str, list[Any]]) -> Any:
    types = {"kind": pa.string(), "index": pa.uint64(), "start": pa.uint64(), "duration": pa.uint64()}
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


def _trace_rows() -> Any:
    """Make one account of a runtime, the last of the kinds: of thread 2, which is called ``hog``."""
    row = {"time": 1100, "cpu": 1, "kind": 14, "thread": 1, "value": 0, "other": 2, "priority": 120, "name": 0}
    return pa.table({field.name: pa.array([row[field.name]], field.type) for field in TRACE_SCHEMA})


def _tracing_outcome() -> TracingOutcome:
    return TracingOutcome(
        clock="x86-tsc",
        tsc_hz=UNITS_PER_S,
        start=_CLOCK,
        end=_CLOCK,
        events=1,
        lost=3,
        groups={"sched": Value(value=True)},
        names=["hog"],
        findings=[],
    )


def _load_rows() -> Any:
    columns = {"thread": [2, 2], "start": [1500, 3500], "duration": [1000, 1000], "work": [10, 10]}
    types = {"thread": pa.uint32(), "start": pa.uint64(), "duration": pa.uint64(), "work": pa.uint64()}
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


def load_outcome() -> LoadOutcome:
    return LoadOutcome(
        unit="loops",
        work=20,
        on_ns=1000,
        rate_per_s=2e7,
        tsc_hz=UNITS_PER_S,
        start=_CLOCK,
        end=_CLOCK,
        thread_ids=[2],
        findings=[],
    )


def _stream(table: Any) -> bytes:
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table, max_chunksize=300)
    return buffer.getvalue()


def _done(request: TrialRequest, layout: Layout | None, counters: dict[str, int], *, end: str) -> TrialDone:
    findings = {
        "invalid": [Finding(code="tsc_disagrees", level="invalidates", text="the clock ran 900 ppm fast")],
        "early": [Finding(code="cancelled", level="limits", text="the trial was cancelled before its time")],
    }
    return TrialDone(
        trial=request.trial,
        request=TrialRequest.model_validate(request.model_dump(exclude={"type"})),
        findings=findings.get(end, []),
        clock=ClockRecord(
            name="tsc",
            units_per_s=UNITS_PER_S,
            tsc_hz=UNITS_PER_S,
            tsc_hz_source="script",
            check=ClockCheck(disagreement_ppm=0.5, error_ppm=0.1, limit_ppm=500),
            start=_CLOCK,
            end=_CLOCK,
            start_realtime_ns=0,
            origin_units=0,
        ),
        layout=layout,
        placement=ThreadPlacement(cpu=0, cpus=[0], policy="SCHED_FIFO", priority=request.priority, thread_ids=[1]),
        calibrated_floor_units=200,
        counters=counters,
        tracing=_tracing_outcome() if request.tracing is not None else None,
        threshold=_hit(request),
    )


def _hit(request: TrialRequest) -> ThresholdHit | None:
    """Sample 7 is over every threshold that is asked for: it takes 2.5 s."""
    if request.on_threshold is None:
        return None
    return ThresholdHit(index=7, duration_units=5_000_000_000, end_tsc=9_000_000_000, samples_over=1)
