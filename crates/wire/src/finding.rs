//! What a reader of a result must know besides its figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingLevel {
    /// The result stands, but is limited by this.
    Limits,
    /// The result must not be used.
    Invalidates,
}

/// Something that a reader of the result must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// A fixed name: `rt_throttling`, `no_sched_fifo`, `tsc_not_constant`, `busy_sibling` ...
    pub code: String,
    /// How much it matters.
    pub level: FindingLevel,
    /// One sentence with the value.
    pub text: String,
    pub hint: Option<String>,
}
