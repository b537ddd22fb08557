//! What a trial can measure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::devices::{Disk, Net};
use crate::rtload::Rtload;

/// The probes and their parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Probe {
    Tick(Tick),
    Switch(Switch),
    Wakeup(Wakeup),
    Contend(Contend),
    Rtload(Rtload),
    Disk(Disk),
    Net(Net),
}

/// A busy loop back to back; what interrupts it shows as a longer turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tick {
    /// Iterations of the busy loop, from a calibration.
    #[schemars(range(min = 1))]
    pub iterations: u64,
}

/// Threads of one priority on one CPU yield to each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    #[schemars(range(min = 2, max = 1000))]
    pub threads: u32,
}

/// Absolute sleeps; how late the thread runs again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wakeup {
    /// From one expiry to the next.
    #[schemars(range(min = 1))]
    pub interval_ns: u64,
}

/// A fixed amount of work of many tasks, which compete for CPUs, memory and, where asked for, a lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contend {
    /// Threads, each doing the same number of iterations.
    #[schemars(range(min = 1, max = 4096))]
    pub tasks: u32,
    /// Of each task.
    #[schemars(range(min = 1))]
    pub iterations: u32,
    /// What an iteration allocates, fills with random numbers, searches and frees.
    #[schemars(range(min = 4096))]
    pub collection_bytes: u64,
    /// How often an iteration searches its whole collection.
    pub searches: u32,
    /// An iteration's simulated I/O: it sleeps this long in the mean; 0 is no I/O.
    pub io_mean_ns: u64,
    /// How much of the mean is spread exponentially: 0 sleeps equally long each time, 100 is an exponential
    /// distribution.
    #[schemars(range(max = 100))]
    pub io_spread_percent: u32,
    /// The share of the searches that go to one collection that all tasks share, under a lock.
    #[schemars(range(max = 100))]
    pub lock_percent: u32,
    /// How many searches in a row are under the lock each time that it is taken.
    #[schemars(range(min = 1))]
    pub lock_searches: u32,
    /// Of all random numbers; the same seed is the same work.
    pub seed: u64,
    /// Measure each iteration; without it the table stays empty, by which the measuring's own cost is found.
    #[schemars(extend("default" = true))]
    pub each_iteration: bool,
}
