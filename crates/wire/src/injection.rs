//! A known disturbance of a trial.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A thread of higher priority on the measured CPU that takes it away at known times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Injection {
    /// From the start of one theft to the start of the next; longer after a theft that came late.
    #[schemars(range(min = 1))]
    pub every_ns: u64,
    /// How long each theft lasts.
    #[schemars(range(min = 1))]
    pub steal_ns: u64,
    /// What each theft begins with.
    pub exit: Option<GuestExit>,
}

/// An instruction for which hardware always leaves a guest for its hypervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuestExit {
    /// `cpuid`.
    Cpuid,
    /// `out` to port 0x80, on which at most a display of start-up codes listens.
    PortWrite,
}
