//! A moment on all clocks of a machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The clocks of a machine, read back to back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockReading {
    pub tsc: u64,
    /// `CLOCK_MONOTONIC_RAW`, of the same moment to within `bracket_tsc`.
    pub monotonic_raw_ns: u64,
    /// `CLOCK_MONOTONIC`, of the same moment to within `bracket_tsc`.
    pub monotonic_ns: u64,
    /// How many cycles passed around the readings of the other two; `tsc` is in their middle.
    pub bracket_tsc: u64,
}
