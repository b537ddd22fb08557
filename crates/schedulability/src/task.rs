//! A sporadic task.

use crate::error::Error;

/// No time of a task is longer: about 9 years. Sums of some of them fit into 64 bits; all are checked.
pub const LONGEST_NS: u64 = 1 << 58;

/// A sporadic task in nanoseconds. A set is a slice of them, the highest priority first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The most that one job executes.
    pub cost_ns: u64,
    /// The least time between two arrivals.
    pub period_ns: u64,
    /// From a job's arrival to when it must have finished.
    pub deadline_ns: u64,
    /// The most that a job is released after its arrival.
    pub jitter_ns: u64,
    /// The most that a job waits for a resource that lower priorities hold.
    pub blocking_ns: u64,
}

impl Task {
    /// A task with an implicit deadline, no jitter and no blocking.
    pub fn implicit(cost_ns: u64, period_ns: u64) -> Self {
        Self { cost_ns, period_ns, deadline_ns: period_ns, jitter_ns: 0, blocking_ns: 0 }
    }

    /// The task number `index`, if its numbers can be.
    pub fn check(&self, index: usize) -> Result<(), Error> {
        let problem = if self.period_ns == 0 {
            "the period is 0"
        } else if self.cost_ns == 0 {
            "the cost is 0"
        } else if self.deadline_ns == 0 {
            "the deadline is 0"
        } else if [self.cost_ns, self.period_ns, self.deadline_ns, self.jitter_ns, self.blocking_ns]
            .iter()
            .any(|&ns| ns > LONGEST_NS)
        {
            "a time exceeds 3335 days"
        } else {
            return Ok(());
        };
        Err(Error::Task { index, problem })
    }
}
