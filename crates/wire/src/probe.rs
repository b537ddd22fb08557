//! What a trial can measure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The probes and their parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Probe {
    Tick(Tick),
    Switch(Switch),
    Wakeup(Wakeup),
}

/// A busy loop back to back; what interrupts it shows as a longer turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tick {
    /// Iterations of the busy loop, from a calibration.
    pub iterations: u64,
}

/// Threads of one priority on one CPU yield to each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// 2 to 1000.
    pub threads: u32,
}

/// Absolute sleeps; how late the thread runs again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wakeup {
    /// From one expiry to the next.
    pub interval_ns: u64,
}
