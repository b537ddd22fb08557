//! A request with what is needed to carry it out.

use stealtime_wire::TrialRequest;

use crate::clock::TscRate;
use crate::running::RunningTrial;

/// One execution of a probe.
pub struct Trial<'a> {
    pub request: &'a TrialRequest,
    /// The rate of the time-stamp counter.
    pub rate: &'a TscRate,
    /// By which others watch and stop it.
    pub running: &'a RunningTrial,
}

impl Trial<'_> {
    /// How long to measure, in cycles of the time-stamp counter.
    pub fn duration_cycles(&self) -> u64 {
        self.rate.to_cycles(self.request.duration_ns)
    }
}
