"""The JSON messages, as pydantic models; field for field the twins of ``crates/wire/src/message.rs``."""

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from stealtime.vocabulary.clocks import ClockReading, ClockRecord
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.readings import Facts, Model
from stealtime.wire.load import LoadOutcome, LoadRequest
from stealtime.wire.rtload import RtloadOutcome, RtloadProbe

PROTOCOL_VERSION = 4
"""Rises whenever an older peer could misunderstand a newer one."""


class TickProbe(Model):
    """A busy loop back to back; what interrupts it shows as a longer turn."""

    name: Literal["tick"] = "tick"
    iterations: int = Field(gt=0)


class SwitchProbe(Model):
    """Threads of one priority on one CPU yield to each other."""

    name: Literal["switch"] = "switch"
    threads: int = Field(ge=2, le=1000)


class WakeupProbe(Model):
    """Absolute sleeps; how late the thread runs again."""

    name: Literal["wakeup"] = "wakeup"
    interval_ns: int = Field(gt=0)


class ContendProbe(Model):
    """A fixed amount of work of many tasks, which compete for CPUs, memory and, where asked for, a lock."""

    name: Literal["contend"] = "contend"
    tasks: int = Field(ge=1, le=4096)
    iterations: int = Field(ge=1)
    """Of each task."""
    collection_bytes: int = Field(ge=4096)
    """What an iteration allocates, fills with random numbers, searches and frees."""
    searches: int = Field(ge=0)
    """How often an iteration searches its whole collection."""
    io_mean_ns: int = Field(ge=0)
    """An iteration's simulated I/O: it sleeps this long in the mean; 0 is no I/O."""
    io_spread_percent: int = Field(ge=0, le=100)
    """How much of the mean is spread exponentially."""
    lock_percent: int = Field(ge=0, le=100)
    """The share of the searches that go to one collection that all tasks share, under a lock."""
    lock_searches: int = Field(ge=1)
    """How many searches in a row are under the lock each time that it is taken."""
    seed: int = Field(ge=0)
    each_iteration: bool = True
    """Measure each iteration; without it the table stays empty, by which the measuring's own cost is found."""


ProbeRequest = Annotated[
    TickProbe | SwitchProbe | WakeupProbe | ContendProbe | RtloadProbe, Field(discriminator="name")
]


GuestExit = Literal["cpuid", "port_write"]
"""An instruction for which hardware always leaves a guest for its hypervisor; the port is 0x80, on which at most a
display of start-up codes listens."""


class Injection(Model):
    """A thread of higher priority on the measured CPU that takes it away at known times."""

    every_ns: int = Field(gt=0)
    steal_ns: int = Field(gt=0)
    exit: GuestExit | None = None
    """What each theft begins with."""


ExtraGroup = Literal["timers", "scheduler"]
"""Events that are recorded only where they are asked for, as each costs time: the callbacks of high-resolution timers,
and entry to and exit from the scheduler."""


class TraceRequest(Model):
    """What of a kernel's doings to record."""

    cpus: list[int] = Field(default_factory=list)
    """The CPUs to record; none means all."""
    buffer_bytes_per_cpu: int = Field(default=8 << 20, gt=0)
    hidden_threads: str | None = None
    """Leave out switches between two threads whose names both begin like this."""
    user_mode_linux: list[int] = Field(default_factory=list)
    """Threads of User-Mode Linux kernels whose ``ptrace`` calls and signals tell what runs inside their guests."""
    extra_groups: list[ExtraGroup] = Field(default_factory=list, exclude_if=lambda groups: not groups)
    """Groups of events beside those that every trace has."""


class TrialRequest(Model):
    """What to measure and how."""

    trial: int
    probe: ProbeRequest
    cpus: list[int] = Field(min_length=1)
    """The CPUs of the machine under test that the measuring threads may use: one pins them, several let them roam."""
    priority: int = Field(ge=0, le=99)
    """SCHED_FIFO priority of the measuring thread; 0 is ordinary scheduling, on purpose."""
    duration_ns: int = Field(gt=0)
    max_samples: int | None = None
    """Stop earlier, after this many samples; also the size of the sample memory."""
    lift_rt_throttling: bool = False
    injection: Injection | None = None
    tracing: TraceRequest | None = None
    """Record what the machine's own kernel does meanwhile."""
    checkpoint_ns: int | None = Field(default=None, gt=0)
    """Send the samples of a longer trial in parts while it runs, at least so often, so that its memory is bounded and a
    part of it is left whatever happens. None sends all of them at the end."""

    @property
    def is_in_parts(self) -> bool:
        """Whether the agent is to be heard of before the trial is over."""
        return self.checkpoint_ns is not None and self.duration_ns > self.checkpoint_ns


class Tiled(Model):
    """Column ``duration``: each sample starts where the one before ended."""

    name: Literal["tiled"] = "tiled"


class Gapped(Model):
    """Columns ``gap``, ``duration``: each sample starts ``gap`` after the one before ended."""

    name: Literal["gapped"] = "gapped"


class Periodic(Model):
    """Column ``duration``: sample ``i`` starts at ``i * interval`` units."""

    name: Literal["periodic"] = "periodic"
    interval: int


Layout = Annotated[Tiled | Gapped | Periodic, Field(discriminator="name")]


class ThreadPlacement(Model):
    """Where and how the measuring thread ran, read back from the kernel of the machine under test."""

    cpu: int
    """At the end of the trial."""
    cpus: list[int]
    """Where it was allowed to run."""
    policy: str
    priority: int
    thread_ids: list[int]


class MachineThread(Model):
    """A thread of the agent in the machine under test."""

    id: int
    name: str
    role: Literal["probe", "injection", "agent"]
    thread_pointer: int
    """The base of its FS segment, by which the host of a User-Mode Linux guest knows it."""


class TracingOutcome(Model):
    """What came of a recording, besides its table."""

    clock: str
    """The kernel's name of the clock: ``x86-tsc``."""
    tsc_hz: float
    start: ClockReading
    end: ClockReading
    events: int
    """Rows of the table, without those that record losses."""
    lost: int
    """Events that the kernel had no room for."""
    groups: Facts
    """Which groups of events were recorded; an absent one says why it was not."""
    names: list[str]
    """What the column ``name`` counts from 0."""
    findings: list[Finding]


class RealTimeLimit(Model):
    """What may have stopped a busy real-time thread once in a period: its machine's own kernel."""

    kind: Literal["rt_throttling", "fair_server"]
    pause_ns: int
    """For how long at most."""
    period_ns: int
    unseen: str | None
    """Why it was not seen when it did so; None where the events ``ordinary`` tell."""


class TrialOutcome(Model):
    """What came of a trial, whatever its result is, besides its tables."""

    trial: int
    request: TrialRequest
    findings: list[Finding]
    clock: ClockRecord
    placement: ThreadPlacement
    counters: dict[str, int]
    threads: list[MachineThread] = Field(default_factory=list)
    """The agent's threads during the trial."""
    tracing: TracingOutcome | None = None
    """The recording of the machine's own kernel, where one was asked for."""
    limit: RealTimeLimit | None = None
    """Of a probe that uses up its time: what may have stopped it. Absent from runs that looked for no evidence of it,
    in which it explains nothing."""

    @property
    def is_valid(self) -> bool:
        """Whether the result may be used."""
        return all(finding.level != "invalidates" for finding in self.findings)


StreamName = Literal["samples", "events", "trace", "load", "iterations", "jobs"]


class AgentHello(Model):
    """The agent's first message."""

    type: Literal["hello"] = "hello"
    protocol: int
    agent_version: str
    facts: Facts


class Calibrated(Model):
    """How many iterations of the busy loop take the wanted time."""

    type: Literal["calibrated"] = "calibrated"
    loop_ns: int
    iterations: int
    floor_ns: float


class ClockAnswer(Model):
    """The clocks, read when the request was seen."""

    type: Literal["clock_reading"] = "clock_reading"
    id: int
    reading: ClockReading


class Progress(Model):
    """How a running trial goes; only where the machine has another CPU than the measured one."""

    type: Literal["progress"] = "progress"
    trial: int
    elapsed_ns: int
    samples: int
    max_ns: float


class StreamBegin(Model):
    """The Arrow frames that follow are this table of the trial."""

    type: Literal["stream_begin"] = "stream_begin"
    trial: int
    stream: StreamName
    is_part: bool
    """Whether the trial goes on: the table then holds what was measured since the part before."""


class StreamEnd(Model):
    """The table is complete, with this many bytes of Arrow stream."""

    type: Literal["stream_end"] = "stream_end"
    trial: int
    stream: StreamName
    bytes: int


class WholeOutcome(TrialOutcome):
    """What came of a trial, with what is about its result."""

    layout: Layout | None
    """Of the samples; None where the result is not a series of durations."""
    calibrated_floor_units: int | None
    rtload: RtloadOutcome | None = None
    """What became of the tasks of ``rtload``; None of other probes."""

    def outcome(self, findings: list[Finding]) -> TrialOutcome:
        """Give what is told of every trial, with other findings."""
        fields = {name: getattr(self, name) for name in TrialOutcome.model_fields}
        return TrialOutcome.model_construct(**{**fields, "findings": findings})


class Checkpoint(WholeOutcome):
    """The tables of a part are sent and the trial goes on: what came of it if nothing more comes."""

    type: Literal["checkpoint"] = "checkpoint"


class TrialDone(WholeOutcome):
    """The trial is over and its tables are sent; of one that was sent in parts those of the rest."""

    type: Literal["trial_done"] = "trial_done"


class TracingStarted(Model):
    """The answer to ``start_tracing``."""

    type: Literal["tracing_started"] = "tracing_started"
    trial: int
    groups: Facts


class TracingDone(Model):
    """The table of ``stop_tracing`` is sent."""

    type: Literal["tracing_done"] = "tracing_done"
    trial: int
    outcome: TracingOutcome


class LoadStarted(Model):
    """The answer to ``start_load``."""

    type: Literal["load_started"] = "load_started"
    trial: int
    thread_ids: list[int]


class LoadDone(Model):
    """The table of ``stop_load`` is sent."""

    type: Literal["load_done"] = "load_done"
    trial: int
    outcome: LoadOutcome


class Failed(Model):
    """A request could not be carried out; the agent goes on serving."""

    type: Literal["failed"] = "failed"
    trial: int | None
    error: str
    hint: str | None


FromAgent = Annotated[
    AgentHello
    | Calibrated
    | ClockAnswer
    | Progress
    | StreamBegin
    | StreamEnd
    | Checkpoint
    | TrialDone
    | TracingStarted
    | TracingDone
    | LoadStarted
    | LoadDone
    | Failed,
    Field(discriminator="type"),
]


class ControlHello(Model):
    """The control plane's first message."""

    type: Literal["hello"] = "hello"
    protocol: int = PROTOCOL_VERSION
    control_version: str


class Calibrate(Model):
    """Find how many iterations of the busy loop take ``loop_ns`` on ``cpu``."""

    type: Literal["calibrate"] = "calibrate"
    loop_ns: int
    cpu: int
    priority: int


class ExchangeClock(Model):
    """Read the clocks now."""

    type: Literal["exchange_clock"] = "exchange_clock"
    id: int


class RunTrial(TrialRequest):
    """Measure."""

    type: Literal["run_trial"] = "run_trial"


class PartStored(Model):
    """The part that ``checkpoint`` ended is on the disk: the next one may come."""

    type: Literal["part_stored"] = "part_stored"
    trial: int


class StartTracing(Model):
    """Record what the kernel does, until ``stop_tracing``."""

    type: Literal["start_tracing"] = "start_tracing"
    trial: int
    tracing: TraceRequest


class StopTracing(Model):
    """Stop recording and send the table ``trace``."""

    type: Literal["stop_tracing"] = "stop_tracing"
    trial: int


class StartLoad(Model):
    """Load the machine, until ``stop_load``."""

    type: Literal["start_load"] = "start_load"
    trial: int
    load: LoadRequest


class StopLoad(Model):
    """Stop the load and send the table ``load``."""

    type: Literal["stop_load"] = "stop_load"
    trial: int


class CancelTrial(Model):
    """Stop the running trial and send what there is."""

    type: Literal["cancel_trial"] = "cancel_trial"


class Shutdown(Model):
    """End; a machine whose PID 1 is the agent powers off."""

    type: Literal["shutdown"] = "shutdown"


ToAgent = Annotated[
    ControlHello
    | Calibrate
    | ExchangeClock
    | RunTrial
    | PartStored
    | StartTracing
    | StopTracing
    | StartLoad
    | StopLoad
    | CancelTrial
    | Shutdown,
    Field(discriminator="type"),
]

from_agent: TypeAdapter[Any] = TypeAdapter(FromAgent)
to_agent: TypeAdapter[Any] = TypeAdapter(ToAgent)
