//! What one probe is to the trial that runs it.

use std::collections::BTreeMap;

use stealtime_wire::{Finding, Layout, RtloadOutcome, ThreadRole, TrialRequest};

use crate::clock::SampleClock;
use crate::error::TrialError;
use crate::evidence::Wanted;
use crate::needs::Needs;
use crate::rows::Rows;
use crate::stage::{Begun, Stage};

/// A way to measure. Each is a file of its own and a line in [`crate::registry`].
pub trait Probe: Sync {
    /// How its samples lie in time; none where it has rows of its own instead.
    fn layout(&self) -> Option<Layout>;

    /// What its samples are counted in.
    fn clock(&self) -> SampleClock;

    /// Whether there is nothing to measure without `SCHED_FIFO`; other probes only get noisier.
    fn needs_fifo(&self) -> bool {
        false
    }

    /// The CPUs that it measures on, of those that it may use.
    fn cpus<'a>(&self, allowed: &'a [u32]) -> &'a [u32] {
        allowed
    }

    /// What the thread that calls [`Self::measure`] is for.
    fn role_of_caller(&self) -> ThreadRole {
        ThreadRole::Probe
    }

    /// Says which of its parameters makes no sense.
    fn validate(&self, _duration_ns: u64) -> Result<(), TrialError> {
        Ok(())
    }

    /// Says what is wrong with a priority that others could have.
    fn validate_priority(&self, _priority: u32) -> Result<(), TrialError> {
        Ok(())
    }

    /// What memory it takes besides samples.
    fn needs(&self, _request: &TrialRequest) -> Needs {
        Needs::default()
    }

    /// What its threads run under, where that is not what the thread has that calls [`Self::measure`].
    fn policy_of_threads(&self) -> Option<&'static str> {
        None
    }

    /// What would tell that a limit on real-time threads has stopped it; none of a probe that sleeps.
    fn evidence(&self) -> Option<Wanted> {
        None
    }

    /// Why an injected disturbance cannot take the CPU from it.
    fn examine_injection(&self) -> Option<Finding> {
        None
    }

    /// What follows from the CPUs that it may use.
    fn examine(&self, _allowed: &[u32]) -> Option<Finding> {
        None
    }

    /// Prepares, begins and measures, on a thread that is placed on [`Self::cpus`] and has its priority.
    fn measure(&self, stage: &Stage) -> Result<Measured, TrialError>;
}

/// What a probe brings back.
pub struct Measured {
    /// As [`Stage::begin`] gave it.
    pub begun: Begun,
    /// The cheapest sample of a calibration just before, in the units of the samples.
    pub floor_units: Option<u64>,
    /// Its own rows, where its result is not a series of durations.
    pub rows: Rows,
    /// Of `rtload`.
    pub rtload: Option<RtloadOutcome>,
    /// What was counted besides the samples.
    pub counters: BTreeMap<String, u64>,
    /// What a reader must know.
    pub findings: Vec<Finding>,
}

impl Measured {
    /// Samples, and nothing else to tell of them.
    pub fn new(begun: Begun) -> Self {
        Self {
            begun,
            floor_units: None,
            rows: Rows::None,
            rtload: None,
            counters: BTreeMap::new(),
            findings: Vec::new(),
        }
    }

    /// With these counts, by name.
    pub fn with_counters<const N: usize>(mut self, named: [(&str, u64); N]) -> Self {
        self.counters.extend(named.map(|(name, count)| (name.to_owned(), count)));
        self
    }
}
