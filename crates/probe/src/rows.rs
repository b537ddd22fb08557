//! What a probe writes down where its result is not a series of durations.

use std::sync::Arc;

/// Of which probe they are.
#[derive(Debug)]
pub enum Rows {
    /// It has samples instead.
    None,
    /// Of `contend`, and what its machine told meanwhile.
    Iterations(Vec<Iteration>, Vec<Reading>),
    Jobs(Vec<Job>),
}

/// What the machine told at one moment: a row of the table `machine_counters`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The end of the interval, since the tasks were let go ...
    pub at_ns: u64,
    /// ... and its length.
    pub elapsed_ns: u64,
    /// Nothing for the whole machine.
    pub program: Arc<str>,
    /// With its unit.
    pub figure: &'static str,
    /// Gained in the interval, or held at its end.
    pub value: u64,
}

/// One iteration of one task: a row of the table `iterations`. Times are in ns of the machine's clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Iteration {
    /// From 0.
    pub task: u32,
    /// Of the task, from 0.
    pub iteration: u32,
    /// Since the tasks were let go.
    pub start_ns: u64,
    /// With its I/O.
    pub duration_ns: u64,
    /// The task's CPU time.
    pub cpu_ns: u64,
    /// Of that, for allocating and filling the collection.
    pub fill_cpu_ns: u64,
    /// Of that, for mapping it and having each of its pages come: what its page faults cost.
    pub fault_cpu_ns: u64,
    pub lock_wait_ns: u64,
    /// Slept for the simulated I/O.
    pub io_ns: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// How often the task lost its CPU to another.
    pub involuntary_switches: u64,
}

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
