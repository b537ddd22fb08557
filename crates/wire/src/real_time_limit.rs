//! What stops a busy real-time thread: limits that its own kernel sets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What may have stopped a busy real-time thread once in a period: its machine's own kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RealTimeLimit {
    pub kind: RealTimeLimitKind,
    /// For how long at most.
    pub pause_ns: u64,
    pub period_ns: u64,
    /// Why it was not seen when it did so; none where events `ordinary` tell.
    pub unseen: Option<String>,
}

/// The limits that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RealTimeLimitKind {
    /// `sched_rt_runtime_us` is used up.
    RtThrottling,
    /// Ordinary threads that starve are served, since Linux 6.12.
    FairServer,
}
