//! A job as its task keeps it, and as it is told.

/// A job that was done: a row of the table `jobs`. Times are readings of the time-stamp counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// From 0, the most urgent first.
    pub task: u16,
    /// Of the task, from 0.
    pub job: u32,
    /// As it was programmed.
    pub release: u64,
    pub start: u64,
    pub finish: u64,
    /// On which it finished.
    pub cpu: u16,
}

/// What a task writes down of a job while it measures.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stamps {
    pub start: u64,
    pub finish: u64,
    pub cpu: u16,
}
