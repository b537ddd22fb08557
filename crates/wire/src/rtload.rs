//! `rtload`: the task set that it runs, and what it tells of each task besides the rows of its table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Periodic tasks, each job a fixed amount of work, released at absolute times from one start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rtload {
    pub policy: RealTimePolicy,
    /// The most urgent first: under `fifo` it has the priority of the request, and each next one a priority less.
    #[schemars(length(min = 1))]
    pub tasks: Vec<RealTimeTask>,
    /// Threads under ordinary scheduling that thrash the caches on the CPUs of the tasks meanwhile.
    pub polluters: u32,
    /// The memory that each of them walks at random.
    #[schemars(range(min = 4096))]
    pub polluter_bytes: u64,
    /// A thread on another CPU releases the tasks, by waking them: each then takes an inter-processor interrupt. Else
    /// each sleeps until its own releases.
    #[serde(default)]
    pub released_elsewhere: bool,
    /// How the set was drawn; none where it was given. It changes nothing, and comes back with the outcome.
    pub drawn: Option<DrawnTaskSet>,
}

/// How the tasks are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RealTimePolicy {
    /// Fixed priorities on one CPU (`SCHED_FIFO`).
    Fifo,
    /// Earliest deadline first with a budget for each job (`SCHED_DEADLINE`).
    Deadline,
}

/// A periodic task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RealTimeTask {
    /// As its task set calls it.
    pub name: String,
    /// From one release to the next.
    #[schemars(range(min = 1))]
    pub period_ns: u64,
    /// From a release to when the job must have finished.
    #[schemars(range(min = 1))]
    pub deadline_ns: u64,
    /// What one job was meant to take.
    #[schemars(range(min = 1))]
    pub cost_ns: u64,
    /// How long a job may run before it is put off to the next period; for the policy `deadline`, and only there.
    #[schemars(range(min = 1))]
    pub budget_ns: Option<u64>,
    /// Of the busy loop: the work of one job.
    #[schemars(range(min = 1))]
    pub iterations: u64,
}

/// All that it takes to draw a task set again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrawnTaskSet {
    /// Of stealtime.
    pub version: String,
    /// Of utilizations.
    pub law: String,
    /// The utilization asked for, where the law is of a fixed total.
    pub total: Option<f64>,
    /// The law of periods.
    pub periods: String,
    /// The law of deadlines.
    pub deadlines: String,
    pub seed: u64,
    /// Before the rule for over-utilized sets.
    pub tasks_asked: u32,
    /// That rule: `keep`, `redraw`, `scale` or `shed`.
    pub over_utilized: String,
    /// What the rule keeps the utilization to.
    pub cap: f64,
    /// Sets drawn.
    pub attempts: u64,
    /// Of the last one.
    pub drawn_utilization: f64,
    /// Of the set as it is.
    pub utilization: f64,
}

/// What `rtload` tells besides the table `jobs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RtloadOutcome {
    /// The release of the first job of every task, by `CLOCK_MONOTONIC`.
    pub start_monotonic_ns: u64,
    /// How releases, which are programmed in `CLOCK_MONOTONIC`, were brought to the time-stamp counter.
    pub conversion: ClockConversion,
    /// In the order of the request.
    pub tasks: Vec<RealTimeTaskOutcome>,
}

/// A straight line from `CLOCK_MONOTONIC` to the time-stamp counter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClockConversion {
    /// A point of the line.
    pub tsc: u64,
    pub monotonic_ns: u64,
    /// Its slope.
    pub tsc_per_ns: f64,
    /// The most that a reading of both clocks lies off the line, with the half of its bracket.
    pub error_ns: f64,
    /// How many readings, over the whole trial, that is known from.
    pub readings: u32,
}

/// What one task did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RealTimeTaskOutcome {
    /// As the machine's own trace counts threads.
    pub thread_id: u32,
    /// Of `SCHED_FIFO`; 0 under `SCHED_DEADLINE`.
    pub priority: u32,
    /// Jobs whose deadline lay within the duration; all of them are released.
    pub released: u64,
    /// Of these, the jobs that were done: the rows of the table.
    pub finished: u64,
    /// Of `finished`, those that were done after their deadline.
    pub late: u64,
    /// Of `released`, those that had not begun when the duration was over: each missed its deadline.
    pub unstarted: u64,
    /// Jobs whose release had passed when the job before them was done.
    pub overruns: u64,
    /// From release to finish, in cycles; none without a finished job.
    pub median_response_units: Option<u64>,
    pub worst_response_units: Option<u64>,
}
