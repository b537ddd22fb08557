//! A load: what it is to do, and what it did.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock_reading::ClockReading;
use crate::finding::Finding;

/// What to load a machine with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadRequest {
    /// The kind of work.
    pub kind: Load,
    /// Where the threads may run; none means wherever the agent may.
    #[schemars(extend("default" = []))]
    pub cpus: Vec<u32>,
    /// SCHED_FIFO priority, 1..=99; 0 is ordinary scheduling.
    #[schemars(range(max = 99), extend("default" = 0))]
    pub priority: u32,
    /// How many threads, each doing the same.
    #[schemars(range(min = 1), extend("default" = 1))]
    pub threads: u32,
    /// How long the load is on before it pauses for `off_ns`; without it the load never pauses.
    #[schemars(range(min = 1))]
    pub on_ns: Option<u64>,
    /// How long the load pauses.
    #[schemars(range(min = 1))]
    pub off_ns: Option<u64>,
}

/// The kinds of load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// Endless arithmetic on what fits the first-level cache; work is counted in loops.
    Cpu {},
    /// Endless copying of a block that no cache holds; work is counted in bytes copied.
    Memory {
        /// The size of the block.
        #[schemars(range(min = 1))]
        block_bytes: u64,
    },
}

/// What the work of a load is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkUnit {
    Loops,
    Bytes,
}

impl fmt::Display for WorkUnit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Loops => "loops",
            Self::Bytes => "bytes",
        })
    }
}

/// What came of a load, besides its table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadOutcome {
    pub unit: WorkUnit,
    pub work: u64,
    /// How long the load was on, all threads together.
    pub on_ns: u64,
    /// Work in a second that the load was on.
    pub rate_per_s: f64,
    /// The rate of the counter in the table.
    pub tsc_hz: f64,
    /// The clocks just before the load began.
    pub start: ClockReading,
    /// The clocks just after it ended.
    pub end: ClockReading,
    /// The threads that loaded.
    pub thread_ids: Vec<u32>,
    /// What a reader must know.
    pub findings: Vec<Finding>,
}
