//! How the samples of a trial lie in time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the rows of the table `samples` lie in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum Layout {
    /// Column `duration`: each sample starts where the one before ended.
    Tiled,
    /// Columns `gap`, `duration`: each sample starts `gap` after the one before ended.
    Gapped,
    /// Column `duration`: sample `i` starts at `i * interval` units.
    Periodic {
        /// In the units of the column.
        interval: u64,
    },
    /// Columns `gap`, `duration`, `wait`, `block`: requests that overlap, in the order in which they ended. Each ended
    /// `gap` after the one before, the first after the start. It was due `duration` before that, and handed over `wait`
    /// after it was due.
    Transfers,
    /// As `Transfers`, of messages: columns `gap`, `duration`, `wait`, `outward`, `residence`, `answered`.
    Echoes,
}

impl Layout {
    /// The columns besides `gap` and `duration`.
    pub fn further_columns(self) -> &'static [&'static str] {
        match self {
            Self::Tiled | Self::Gapped | Self::Periodic { .. } => &[],
            Self::Transfers => &["wait", "block"],
            Self::Echoes => &["wait", "outward", "residence", "answered"],
        }
    }

    /// Whether it has the column `gap`.
    pub fn has_gaps(self) -> bool {
        !matches!(self, Self::Tiled | Self::Periodic { .. })
    }

    /// Whether samples overlap in time, and follow each other by their ends.
    pub fn overlaps(self) -> bool {
        !self.further_columns().is_empty()
    }
}
