"""The JSON messages.

Generated from the Rust types. After a change of ``crates/wire``::

    UPDATE_GOLDEN=1 cargo test -p stealtime-wire
    UPDATE_GOLDEN=1 pytest tests/unit/test_message_models.py
"""

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from stealtime.vocabulary.clocks import ClockReading, ClockRecord
from stealtime.vocabulary.findings import Finding
from stealtime.vocabulary.readings import Facts, Model, Unsigned
from stealtime.wire.devices import DiskProbe, NetProbe
from stealtime.wire.load import LoadDone, LoadStarted, StartLoad, StopLoad
from stealtime.wire.program import ListThreads, ProgramStarted, StartProgram, ThreadsListed
from stealtime.wire.rtload import RtloadOutcome, RtloadProbe
from stealtime.wire.threads import MachineThread, RealTimeLimit, ThreadPlacement
from stealtime.wire.threshold import OnThreshold, ThresholdHit

PROTOCOL_VERSION = 6
"""Rises whenever an older peer could misunderstand a newer one."""


class AgentHello(Model):
    """The first message of the agent."""

    type: Literal["hello"] = "hello"
    protocol: Unsigned
    """``PROTOCOL_VERSION`` of the sender."""
    agent_version: str
    """The version of the agent, for people."""
    facts: Facts


class Calibrated(Model):
    """The answer to ``Calibrate``."""

    type: Literal["calibrated"] = "calibrated"
    loop_ns: Unsigned
    """The wanted duration, as asked."""
    iterations: Unsigned
    """Iterations of the busy loop."""
    floor_ns: float
    """The shortest loop seen with that many iterations."""


class ClockAnswer(Model):
    """The answer to ``ExchangeClock``."""

    type: Literal["clock_reading"] = "clock_reading"
    id: Unsigned
    reading: ClockReading
    """The clocks, read back to back."""


class Progress(Model):
    """How a running trial goes. Only sent where the machine has another CPU than the measured one."""

    type: Literal["progress"] = "progress"
    trial: Unsigned
    elapsed_ns: Unsigned
    """Since the first sample."""
    samples: Unsigned
    max_ns: float
    """The longest so far."""


StreamName = Literal["samples", "events", "trace", "load", "iterations", "machine_counters", "jobs"]
"""The tables of a trial.

- ``samples``: One row a sample; its columns are given by ``Layout``.
- ``events``: What does not fit a sample: ``kind``, ``index``, ``start``, ``duration`` (see ``docs/run-format.md``).
- ``trace``: What the kernel did: one row an event (see ``docs/run-format.md``).
- ``load``: One row for each stretch of a load that was on: ``thread``, ``start``, ``duration``, ``work``.
- ``iterations``: One row for each iteration of ``contend`` (see ``docs/run-format.md``).
- ``machine_counters``: What the machine told of itself while ``contend`` worked: one row a figure (see
  ``docs/run-format.md``).
- ``jobs``: One row for each job of ``rtload`` (see ``docs/run-format.md``).
"""


class StreamBegin(Model):
    """The Arrow frames that follow, up to ``stream_end``, are this table."""

    type: Literal["stream_begin"] = "stream_begin"
    trial: Unsigned
    """The trial it belongs to."""
    stream: StreamName
    """Which of its tables."""
    is_part: bool
    """Whether the trial goes on: the table then holds what was measured since the part before."""


class StreamEnd(Model):
    """The table is complete."""

    type: Literal["stream_end"] = "stream_end"
    trial: Unsigned
    """The trial it belongs to."""
    stream: StreamName
    """Which of its tables."""
    bytes: Unsigned
    """How many bytes of Arrow stream were sent, so that a lost piece is noticed."""


class TickProbe(Model):
    """A busy loop back to back; what interrupts it shows as a longer turn."""

    name: Literal["tick"] = "tick"
    iterations: int = Field(ge=1)
    """Iterations of the busy loop, from a calibration."""


class SwitchProbe(Model):
    """Threads of one priority on one CPU yield to each other."""

    name: Literal["switch"] = "switch"
    threads: int = Field(ge=2, le=1000)


class WakeupProbe(Model):
    """Absolute sleeps; how late the thread runs again."""

    name: Literal["wakeup"] = "wakeup"
    interval_ns: int = Field(ge=1)
    """From one expiry to the next."""


class ContendProbe(Model):
    """A fixed amount of work of many tasks, which compete for CPUs, memory and, where asked for, a lock."""

    name: Literal["contend"] = "contend"
    tasks: int = Field(ge=1, le=4096)
    """Threads, each doing the same number of iterations."""
    iterations: int = Field(ge=1)
    """Of each task."""
    collection_bytes: int = Field(ge=4096)
    """What an iteration allocates, fills with random numbers, searches and frees."""
    searches: Unsigned
    """How often an iteration searches its whole collection."""
    io_mean_ns: Unsigned
    """An iteration's simulated I/O: it sleeps this long in the mean; 0 is no I/O."""
    io_spread_percent: int = Field(ge=0, le=100)
    """How much of the mean is spread exponentially: 0 sleeps equally long each time, 100 is an exponential
    distribution."""
    lock_percent: int = Field(ge=0, le=100)
    """The share of the searches that go to one collection that all tasks share, under a lock."""
    lock_searches: int = Field(ge=1)
    """How many searches in a row are under the lock each time that it is taken."""
    seed: Unsigned
    """Of all random numbers; the same seed is the same work."""
    each_iteration: bool = True
    """Measure each iteration; without it the table stays empty, by which the measuring's own cost is found."""


ProbeRequest = Annotated[
    TickProbe | SwitchProbe | WakeupProbe | ContendProbe | RtloadProbe | DiskProbe | NetProbe,
    Field(discriminator="name"),
]
"""The probes and their parameters."""

GuestExit = Literal["cpuid", "port_write"]
"""An instruction for which hardware always leaves a guest for its hypervisor.

- ``cpuid``: ``cpuid``.
- ``port_write``: ``out`` to port 0x80, on which at most a display of start-up codes listens.
"""


class Injection(Model):
    """A thread of higher priority on the measured CPU that takes it away at known times."""

    every_ns: int = Field(ge=1)
    """From the start of one theft to the start of the next; longer after a theft that came late."""
    steal_ns: int = Field(ge=1)
    """How long each theft lasts."""
    exit: GuestExit | None = None
    """What each theft begins with."""


ExtraGroup = Literal["timers", "scheduler", "timer_starts", "calls", "block"]
"""Groups of events that are recorded only where they are asked for, as each event costs time.

- ``timers``: The callbacks of high-resolution timers.
- ``scheduler``: Entry to and exit from the scheduler.
- ``timer_starts``: The programming of high-resolution timers.
- ``calls``: Entry to and exit from system calls.
- ``block``: Requests to disks, as the block layer hands them to drivers and gets them back.
"""


class TraceRequest(Model):
    """What of a kernel's doings to record."""

    cpus: list[Unsigned] = Field(default_factory=list)
    """The CPUs to record; none means all."""
    buffer_bytes_per_cpu: int = Field(default=8388608, ge=1)
    """The kernel's buffer for each CPU."""
    hidden_threads: str | None = None
    """Leave out switches between two threads whose names both begin like this."""
    user_mode_linux: list[Unsigned] = Field(default_factory=list)
    """Threads of User-Mode Linux kernels whose ``ptrace`` calls and signals tell what runs inside their guests."""
    keep_bytes_per_cpu: int | None = Field(default=None, ge=1)
    """Keep the last events alone, at least so many bytes of each CPU's, as a flight recorder does; older ones count as
    lost. None keeps all that are read."""
    extra_groups: list[ExtraGroup] = Field(default_factory=list, exclude_if=lambda value: not value)
    """Groups of events beside those that every trace has."""
    processes: list[Unsigned] = Field(default_factory=list, exclude_if=lambda value: not value)
    """Record only what concerns the threads of these processes and all that they start. None records everything."""


class TrialRequest(Model):
    """What to measure and how."""

    trial: Unsigned
    """Chosen by the control plane, comes back in every answer."""
    probe: ProbeRequest
    cpus: list[Unsigned] = Field(min_length=1)
    """The CPUs of the machine under test that the measuring threads may use: one pins them, several let them roam."""
    priority: int = Field(ge=0, le=99)
    """SCHED_FIFO priority of the measuring thread, 1..=99; 0 is ordinary scheduling, on purpose."""
    duration_ns: int = Field(ge=1)
    """How long to measure."""
    max_samples: Unsigned | None = None
    """Stop earlier, after this many samples. Also the size of the sample memory."""
    lift_rt_throttling: bool = False
    """Lift RT throttling while measuring, and put it back."""
    injection: Injection | None = None
    """A known disturbance, to test the instrument itself."""
    tracing: TraceRequest | None = None
    """Record what the machine's own kernel does meanwhile."""
    checkpoint_ns: int | None = Field(default=None, ge=1)
    """Send the samples of a trial that is longer than this in parts while it runs, at least so often, so that its
    memory is bounded and a part of it is left whatever happens. None sends all of them at the end."""
    on_threshold: OnThreshold | None = None
    """What to do at a sample that is too long; of a probe whose result is a series of durations."""


class Tiled(Model):
    """Column ``duration``: each sample starts where the one before ended."""

    name: Literal["tiled"] = "tiled"


class Gapped(Model):
    """Columns ``gap``, ``duration``: each sample starts ``gap`` after the one before ended."""

    name: Literal["gapped"] = "gapped"


class Periodic(Model):
    """Column ``duration``: sample ``i`` starts at ``i * interval`` units."""

    name: Literal["periodic"] = "periodic"
    interval: Unsigned
    """In the units of the column."""


class Transfers(Model):
    """Columns ``gap``, ``duration``, ``wait``, ``block``: requests that overlap, in the order in which they ended. Each
    ended ``gap`` after the one before, the first after the start. It was due ``duration`` before that, and handed over
    ``wait`` after it was due."""

    name: Literal["transfers"] = "transfers"


class Echoes(Model):
    """As ``Transfers``, of messages: columns ``gap``, ``duration``, ``wait``, ``outward``, ``residence``,
    ``answered``."""

    name: Literal["echoes"] = "echoes"


Layout = Annotated[Tiled | Gapped | Periodic | Transfers | Echoes, Field(discriminator="name")]
"""How the rows of the table ``samples`` lie in time."""


class TracingOutcome(Model):
    """What came of a recording, besides its table."""

    clock: str
    """The kernel's name of the clock: ``x86-tsc``."""
    tsc_hz: float
    start: ClockReading
    """The clocks just after the recording began."""
    end: ClockReading
    """The clocks just before it ended."""
    events: Unsigned
    """Rows of the table, without those that tell of losses."""
    lost: Unsigned
    """Events that the kernel had no room for."""
    groups: Facts
    """Which groups of events were recorded; an absent one says why it was not."""
    names: list[str]
    """What the column ``name`` counts from 0."""
    findings: list[Finding]
    """What a reader must know."""


class TrialOutcome(Model):
    """What came of a trial, besides its tables."""

    trial: Unsigned
    request: TrialRequest
    findings: list[Finding]
    """What a reader must know; the trial is valid if none of them invalidates."""
    clock: ClockRecord
    placement: ThreadPlacement
    limit: RealTimeLimit | None = None
    """Of a probe that uses up its time: what may have stopped it. None in runs that looked for no evidence of it, in
    which it explains nothing."""
    counters: dict[str, Unsigned]
    """Counts that explain the samples: ``recorded``, ``saturated``, ``lost``, ``voluntary_switches`` ..."""
    threads: list[MachineThread] = Field(default_factory=list)
    """The agent's threads during the trial."""
    tracing: TracingOutcome | None = None
    """The recording of the machine's own kernel, where one was asked for."""
    threshold: ThresholdHit | None = None
    """The first sample over the threshold, where one was asked for and a sample was."""


class WholeOutcome(TrialOutcome):
    """What came of a trial, with what is about its result."""

    layout: Layout | None = None
    """How the rows of ``samples`` lie in time; none where the result is not a series of durations."""
    calibrated_floor_units: Unsigned | None = None
    """The cheapest sample seen in a calibration just before, in the units of ``duration``."""
    rtload: RtloadOutcome | None = None
    """What became of the tasks of ``rtload``; none of other probes."""


class Checkpoint(WholeOutcome):
    """The tables of a part are sent and the trial goes on: what came of it if nothing more comes. The next part comes
    after ``PartStored``."""

    type: Literal["checkpoint"] = "checkpoint"


class TrialDone(WholeOutcome):
    """The trial is over and its tables are sent; of one that was sent in parts those of the rest."""

    type: Literal["trial_done"] = "trial_done"


class TracingStarted(Model):
    """The answer to ``StartTracing``."""

    type: Literal["tracing_started"] = "tracing_started"
    trial: Unsigned
    groups: Facts
    """Which groups of events are recorded; an absent one says why it is not."""


class TracingDone(Model):
    """The table of ``StopTracing`` is sent."""

    type: Literal["tracing_done"] = "tracing_done"
    trial: Unsigned
    outcome: TracingOutcome
    """What came of it."""


class Failed(Model):
    """A request could not be carried out; the agent goes on serving."""

    type: Literal["failed"] = "failed"
    trial: Unsigned | None = None
    """The trial, if the request was one."""
    error: str
    """One sentence with the value that was wrong."""
    hint: str | None = None


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
    | ProgramStarted
    | ThreadsListed
    | Failed,
    Field(discriminator="type"),
]
"""From the agent to the control plane."""


class ControlHello(Model):
    """The first message of the control plane."""

    type: Literal["hello"] = "hello"
    protocol: Unsigned
    """``PROTOCOL_VERSION`` of the sender."""
    control_version: str
    """The version of the control plane, for people."""


class Calibrate(Model):
    """Find how many iterations of the busy loop take ``loop_ns`` on ``cpu``."""

    type: Literal["calibrate"] = "calibrate"
    loop_ns: Unsigned
    """The wanted duration of one loop."""
    cpu: Unsigned
    """The CPU to run on."""
    priority: Unsigned
    """SCHED_FIFO priority, 1..=99."""


class ExchangeClock(Model):
    """Read the clocks now; the sender knows when it asked and when it was answered."""

    type: Literal["exchange_clock"] = "exchange_clock"
    id: Unsigned
    """Comes back in the answer."""


class RunTrial(TrialRequest):
    """Measure."""

    type: Literal["run_trial"] = "run_trial"


class StartTracing(Model):
    """Record what the kernel does, until told to stop."""

    type: Literal["start_tracing"] = "start_tracing"
    trial: Unsigned
    """The trial that it is for; comes back in every answer."""
    tracing: TraceRequest


class StopTracing(Model):
    """Stop recording and send the table ``trace``."""

    type: Literal["stop_tracing"] = "stop_tracing"
    trial: Unsigned


class PartStored(Model):
    """The part that ``Checkpoint`` ended is on the disk: its memory may be used again, and the next part may come."""

    type: Literal["part_stored"] = "part_stored"
    trial: Unsigned


class CancelTrial(Model):
    """Stop the trial that is running and send what there is; nothing happens if none is."""

    type: Literal["cancel_trial"] = "cancel_trial"


class Shutdown(Model):
    """End; a machine whose PID 1 is the agent powers off."""

    type: Literal["shutdown"] = "shutdown"


ToAgent = Annotated[
    ControlHello
    | Calibrate
    | ExchangeClock
    | RunTrial
    | StartTracing
    | StopTracing
    | StartLoad
    | StopLoad
    | PartStored
    | StartProgram
    | ListThreads
    | CancelTrial
    | Shutdown,
    Field(discriminator="type"),
]
"""From the control plane to the agent."""

from_agent: TypeAdapter[Any] = TypeAdapter(FromAgent)
to_agent: TypeAdapter[Any] = TypeAdapter(ToAgent)
