//! The JSON messages. Field names carry their units; an absent reading says why ([`Reading`]).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock_reading::ClockReading;
use crate::finding::{Finding, FindingLevel};
use crate::injection::Injection;
use crate::layout::Layout;
use crate::load::{LoadOutcome, LoadRequest};
use crate::probe::Probe;
use crate::program::ProgramThread;
use crate::real_time_limit::RealTimeLimit;
use crate::rtload::RtloadOutcome;

/// A value that was read, or the reason why there is none. Absent is not zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    Value(Value),
    /// Why nothing could be read.
    Absent(String),
}

/// What a machine says about itself: `kernel_release`, `clocksource`, `cpu_model` ...
pub type Facts = BTreeMap<String, Reading>;

// Messages without fields have braces: of a unit variant serde would accept unknown keys.
/// From the control plane to the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToAgent {
    /// The first message of the control plane.
    Hello {
        /// [`crate::PROTOCOL_VERSION`] of the sender.
        protocol: u32,
        /// The version of the control plane, for people.
        control_version: String,
    },
    /// Find how many iterations of the busy loop take `loop_ns` on `cpu`.
    Calibrate {
        /// The wanted duration of one loop.
        loop_ns: u64,
        /// The CPU to run on.
        cpu: u32,
        /// SCHED_FIFO priority, 1..=99.
        priority: u32,
    },
    /// Read the clocks now; the sender knows when it asked and when it was answered.
    ExchangeClock {
        /// Comes back in the answer.
        id: u64,
    },
    /// Measure.
    RunTrial(Box<TrialRequest>),
    /// Record what the kernel does, until told to stop.
    StartTracing {
        /// The trial that it is for; comes back in every answer.
        trial: u64,
        tracing: TraceRequest,
    },
    /// Stop recording and send the table `trace`.
    StopTracing { trial: u64 },
    /// Load the machine, until told to stop.
    StartLoad {
        /// The trial that it is for; comes back in every answer.
        trial: u64,
        load: LoadRequest,
    },
    /// Stop the load and send the table `load`.
    StopLoad { trial: u64 },
    /// The part that [`FromAgent::Checkpoint`] ended is on the disk: its memory may be used again, and the
    /// next part may come.
    PartStored { trial: u64 },
    /// Start a program, whose output goes to the agent's log. It ends with the agent.
    StartProgram {
        /// The program and its arguments; `stealtime-agent` is the agent itself.
        #[schemars(length(min = 1))]
        arguments: Vec<String>,
    },
    /// Tell of the threads of a process and of all that it started.
    ListThreads {
        /// As the agent's `/proc` counts.
        process: u32,
    },
    /// Stop the trial that is running and send what there is; nothing happens if none is.
    CancelTrial {},
    /// End; a machine whose PID 1 is the agent powers off.
    Shutdown {},
}

/// From the agent to the control plane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromAgent {
    /// The first message of the agent.
    Hello {
        /// [`crate::PROTOCOL_VERSION`] of the sender.
        protocol: u32,
        /// The version of the agent, for people.
        agent_version: String,
        facts: Facts,
    },
    /// The answer to [`ToAgent::Calibrate`].
    Calibrated {
        /// The wanted duration, as asked.
        loop_ns: u64,
        /// Iterations of the busy loop.
        iterations: u64,
        /// The shortest loop seen with that many iterations.
        floor_ns: f64,
    },
    /// The answer to [`ToAgent::ExchangeClock`].
    ClockReading {
        id: u64,
        /// The clocks, read back to back.
        reading: ClockReading,
    },
    Progress(Progress),
    /// The Arrow frames that follow, up to `stream_end`, are this table.
    StreamBegin {
        /// The trial it belongs to.
        trial: u64,
        /// Which of its tables.
        stream: StreamName,
        /// Whether the trial goes on: the table then holds what was measured since the part before.
        is_part: bool,
    },
    /// The table is complete.
    StreamEnd {
        /// The trial it belongs to.
        trial: u64,
        /// Which of its tables.
        stream: StreamName,
        /// How many bytes of Arrow stream were sent, so that a lost piece is noticed.
        bytes: u64,
    },
    /// The tables of a part are sent and the trial goes on: what came of it if nothing more comes. The next
    /// part comes after [`ToAgent::PartStored`].
    Checkpoint(Box<TrialOutcome>),
    /// The trial is over and its tables are sent; of one that was sent in parts those of the rest.
    TrialDone(Box<TrialOutcome>),
    /// The answer to [`ToAgent::StartTracing`].
    TracingStarted {
        trial: u64,
        /// Which groups of events are recorded; an absent one says why it is not.
        groups: Facts,
    },
    /// The table of [`ToAgent::StopTracing`] is sent.
    TracingDone {
        trial: u64,
        /// What came of it.
        outcome: TracingOutcome,
    },
    /// The answer to [`ToAgent::StartLoad`].
    LoadStarted {
        trial: u64,
        /// The threads that load.
        thread_ids: Vec<u32>,
    },
    /// The table of [`ToAgent::StopLoad`] is sent.
    LoadDone {
        trial: u64,
        /// What came of it.
        outcome: LoadOutcome,
    },
    /// The answer to [`ToAgent::StartProgram`].
    ProgramStarted {
        /// As the agent's `/proc` counts.
        process: u32,
    },
    /// The answer to [`ToAgent::ListThreads`].
    ThreadsListed {
        process: u32,
        /// None once it has ended.
        threads: Vec<ProgramThread>,
    },
    /// A request could not be carried out; the agent goes on serving.
    Failed {
        /// The trial, if the request was one.
        trial: Option<u64>,
        /// One sentence with the value that was wrong.
        error: String,
        hint: Option<String>,
    },
}

/// The tables of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamName {
    /// One row a sample; its columns are given by [`Layout`].
    Samples,
    /// What does not fit a sample: `kind`, `index`, `start`, `duration` (see `docs/run-format.md`).
    Events,
    /// What the kernel did: one row an event (see `docs/run-format.md`).
    Trace,
    /// One row for each stretch of a load that was on: `thread`, `start`, `duration`, `work`.
    Load,
    /// One row for each iteration of `contend` (see `docs/run-format.md`).
    Iterations,
    /// What the machine told of itself while `contend` worked: one row a figure (see `docs/run-format.md`).
    MachineCounters,
    /// One row for each job of `rtload` (see `docs/run-format.md`).
    Jobs,
}

/// What to measure and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialRequest {
    /// Chosen by the control plane, comes back in every answer.
    pub trial: u64,
    pub probe: Probe,
    /// The CPUs of the machine under test that the measuring threads may use: one pins them, several let them
    /// roam.
    #[schemars(length(min = 1))]
    pub cpus: Vec<u32>,
    /// SCHED_FIFO priority of the measuring thread, 1..=99; 0 is ordinary scheduling, on purpose.
    #[schemars(range(max = 99))]
    pub priority: u32,
    /// How long to measure.
    #[schemars(range(min = 1))]
    pub duration_ns: u64,
    /// Stop earlier, after this many samples. Also the size of the sample memory.
    pub max_samples: Option<u64>,
    /// Lift RT throttling while measuring, and put it back.
    #[schemars(extend("default" = false))]
    pub lift_rt_throttling: bool,
    /// A known disturbance, to test the instrument itself.
    pub injection: Option<Injection>,
    /// Record what the machine's own kernel does meanwhile.
    pub tracing: Option<TraceRequest>,
    /// Send the samples of a trial that is longer than this in parts while it runs, at least so often, so that
    /// its memory is bounded and a part of it is left whatever happens. None sends all of them at the end.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub checkpoint_ns: Option<u64>,
    /// What to do at a sample that is too long; of a probe whose result is a series of durations.
    #[serde(default)]
    pub on_threshold: Option<OnThreshold>,
}

/// What happens at the first sample that exceeds a threshold: the machine's own recording stops there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnThreshold {
    /// By how much a sample must exceed the calibrated floor of its probe, or 0 where that has none.
    #[schemars(range(min = 1))]
    pub overhead_ns: u64,
    /// Whether the trial ends there; else it goes on, and further such samples are counted.
    pub stop: bool,
}

impl TrialRequest {
    /// A trial with nothing besides: no limit of samples, nothing lifted, injected or traced, all sent at the end.
    pub fn plain(probe: Probe, cpus: Vec<u32>, priority: u32, duration_ns: u64) -> Self {
        Self {
            trial: 1,
            probe,
            cpus,
            priority,
            duration_ns,
            max_samples: None,
            lift_rt_throttling: false,
            injection: None,
            tracing: None,
            checkpoint_ns: None,
            on_threshold: None,
        }
    }
}

/// What of a kernel's doings to record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// The CPUs to record; none means all.
    #[schemars(extend("default" = []))]
    pub cpus: Vec<u32>,
    /// The kernel's buffer for each CPU.
    #[schemars(range(min = 1), extend("default" = 8 << 20))]
    pub buffer_bytes_per_cpu: u64,
    /// Leave out switches between two threads whose names both begin like this.
    pub hidden_threads: Option<String>,
    /// Threads of User-Mode Linux kernels whose `ptrace` calls and signals tell what runs inside their
    /// guests.
    #[schemars(extend("default" = []))]
    pub user_mode_linux: Vec<u32>,
    /// Groups of events beside those that every trace has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_groups: Vec<ExtraGroup>,
    /// Keep the last events alone, at least so many bytes of each CPU's, as a flight recorder does; older ones count as
    /// lost. None keeps all that are read.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub keep_bytes_per_cpu: Option<u64>,
    /// Record only what concerns the threads of these processes and all that they start. None records everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<u32>,
}

/// Groups of events that are recorded only where they are asked for, as each event costs time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExtraGroup {
    /// The callbacks of high-resolution timers.
    Timers,
    /// Entry to and exit from the scheduler.
    Scheduler,
    /// The programming of high-resolution timers.
    TimerStarts,
    /// Entry to and exit from system calls.
    Calls,
    /// Requests to disks, as the block layer hands them to drivers and gets them back.
    Block,
}

/// What came of a recording, besides its table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TracingOutcome {
    /// The kernel's name of the clock: `x86-tsc`.
    pub clock: String,
    pub tsc_hz: f64,
    /// The clocks just after the recording began.
    pub start: ClockReading,
    /// The clocks just before it ended.
    pub end: ClockReading,
    /// Rows of the table, without those that tell of losses.
    pub events: u64,
    /// Events that the kernel had no room for.
    pub lost: u64,
    /// Which groups of events were recorded; an absent one says why it was not.
    pub groups: Facts,
    /// What the column `name` counts from 0.
    pub names: Vec<String>,
    /// What a reader must know.
    pub findings: Vec<Finding>,
}

/// How a running trial goes. Only sent where the machine has another CPU than the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    pub trial: u64,
    /// Since the first sample.
    pub elapsed_ns: u64,
    pub samples: u64,
    /// The longest so far.
    pub max_ns: f64,
}

/// The clock of a trial's samples and the proof that it can be trusted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockRecord {
    /// `tsc` or `monotonic`: what the samples are counted in.
    pub name: String,
    /// Units of `duration` in a second.
    pub units_per_s: f64,
    /// The rate of the time-stamp counter.
    pub tsc_hz: f64,
    /// Where `tsc_hz` comes from.
    pub tsc_hz_source: String,
    /// The time-stamp counter against `CLOCK_MONOTONIC_RAW` over the trial.
    pub check: ClockCheck,
    /// What the kernel kept its time with, read right after the measuring: a kernel that has just booted
    /// changes it. Empty in older runs.
    #[schemars(extend("default" = {}))]
    pub facts: Facts,
    /// The clocks at the start of the trial.
    pub start: ClockReading,
    /// The clocks at the end of the trial.
    pub end: ClockReading,
    /// `CLOCK_REALTIME` at the start, for people.
    pub start_realtime_ns: u64,
    /// The time-stamp counter (or, for `monotonic`, that clock in ns) at the start of sample 0.
    pub origin_units: u64,
}

/// Two clocks over one stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockCheck {
    /// How much faster the time-stamp counter ran than its stated rate.
    pub disagreement_ppm: f64,
    /// What the reading itself can be wrong by.
    pub error_ppm: f64,
    /// Over this the trial is invalid.
    pub limit_ppm: f64,
}

/// Where and how the measuring thread ran, read back from the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadPlacement {
    /// The CPU at the end of the trial.
    pub cpu: u32,
    /// The CPUs that it was allowed to run on.
    pub cpus: Vec<u32>,
    /// `SCHED_FIFO` or what it was instead.
    pub policy: String,
    pub priority: u32,
    /// The measuring threads' ids.
    pub thread_ids: Vec<u32>,
}

/// A thread of the agent in the machine under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineThread {
    /// As the machine's kernel counts.
    pub id: u32,
    /// Its name in the machine's kernel.
    pub name: String,
    /// What it is for.
    pub role: ThreadRole,
    /// The base of its FS segment, by which the host of a User-Mode Linux guest knows it.
    pub thread_pointer: u64,
}

/// What a thread of the agent is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThreadRole {
    Probe,
    /// It disturbs, as asked.
    Injection,
    Agent,
}

/// What came of a trial, besides its tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialOutcome {
    pub trial: u64,
    pub request: TrialRequest,
    /// What a reader must know; the trial is valid if none of them invalidates.
    pub findings: Vec<Finding>,
    pub clock: ClockRecord,
    /// How the rows of `samples` lie in time; none where the result is not a series of durations.
    pub layout: Option<Layout>,
    pub placement: ThreadPlacement,
    /// The cheapest sample seen in a calibration just before, in the units of `duration`.
    pub calibrated_floor_units: Option<u64>,
    /// What became of the tasks of `rtload`; none of other probes.
    pub rtload: Option<RtloadOutcome>,
    /// Of a probe that uses up its time: what may have stopped it. None in runs that looked for no evidence of it,
    /// in which it explains nothing.
    pub limit: Option<RealTimeLimit>,
    /// Counts that explain the samples: `recorded`, `saturated`, `lost`, `voluntary_switches` ...
    pub counters: BTreeMap<String, u64>,
    /// The agent's threads during the trial.
    #[schemars(extend("default" = []))]
    pub threads: Vec<MachineThread>,
    /// The recording of the machine's own kernel, where one was asked for.
    pub tracing: Option<TracingOutcome>,
    /// The first sample over the threshold, where one was asked for and a sample was.
    pub threshold: Option<ThresholdHit>,
}

/// The first sample that exceeded a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThresholdHit {
    /// Of the sample.
    pub index: u64,
    /// What it lasted, in units of the samples.
    pub duration_units: u64,
    /// The time-stamp counter just after it.
    pub end_tsc: u64,
    /// How many samples exceeded the threshold, this one among them.
    pub samples_over: u64,
}

impl TrialOutcome {
    /// Whether the result may be used.
    pub fn is_valid(&self) -> bool {
        self.findings.iter().all(|finding| finding.level != FindingLevel::Invalidates)
    }
}
