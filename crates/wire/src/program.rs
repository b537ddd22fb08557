//! What a machine's kernel tells of a thread of somebody's program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A thread, and how it is scheduled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramThread {
    /// As the machine's own trace counts threads.
    pub id: u32,
    pub process: u32,
    pub name: String,
    /// `SCHED_FIFO` ...
    pub policy: String,
    /// Of `SCHED_FIFO` and `SCHED_RR`; 0 otherwise.
    pub priority: u32,
    /// Of `SCHED_DEADLINE`.
    pub reservation: Option<Reservation>,
    /// Where it may run.
    pub cpus: Vec<u32>,
    /// How long it has run, as the kernel counts; none where it does not tell.
    pub ran_ns: Option<u64>,
}

/// What a thread under `SCHED_DEADLINE` has declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    pub runtime_ns: u64,
    pub deadline_ns: u64,
    pub period_ns: u64,
}
