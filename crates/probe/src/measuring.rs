//! The measuring thread: where and how it runs, what the kernel counts of it, and what it brings back.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use stealtime_wire::{ClockReading, Finding, RtloadOutcome, ThreadPlacement};

use crate::error::TrialError;
use crate::probe::{Measured, Probe};
use crate::processor_sets::nameable_cpus;
use crate::rows::Rows;
use crate::stage::{Begun, Stage};
use crate::thread_times::ThreadTimes;
use crate::trial::Trial;
use crate::{clock, findings, scheduling, steal, sys, thread_times};

/// What the measuring thread brings back.
pub struct Finished {
    pub begun: Begun,
    pub end: ClockReading,
    pub floor_units: Option<u64>,
    pub rows: Rows,
    pub rtload: Option<RtloadOutcome>,
    pub placement: ThreadPlacement,
    pub counters: BTreeMap<String, u64>,
    pub findings: Vec<Finding>,
}

/// Measures on the calling thread; tells `ready` when only the measuring is left to do.
pub fn measure(trial: &Trial, probe: &dyn Probe, ready: &Sender<()>) -> Result<Finished, TrialError> {
    let cpus = probe.cpus(&trial.request.cpus);
    let refused = take_place(cpus, trial.request.priority, probe)?;
    trial.running.note(refused.clone());
    let before = KernelCounts::of_this_thread();
    trial.running.threads.enter(probe.role_of_caller());
    let stage = Stage { trial, cpus, layout: probe.layout(), clock: probe.clock(), ready };
    let Measured { mut begun, floor_units, rows, rtload, mut counters, findings } = probe.measure(&stage)?;
    trial.running.end();
    let end = clock::read_clocks();
    let stolen_ns = steal::stolen_ns(cpus).zip(begun.stolen_ns);
    let gained_ns = stolen_ns.and_then(|(after, before)| after.checked_sub(before));
    counters.extend(gained_ns.map(|gained_ns| ("steal_ns".to_owned(), gained_ns)));
    counters.extend(KernelCounts::of_this_thread().since(&before));
    sys::unlock_memory();
    let mut placement =
        scheduling::placement(trial.running.threads.of_probe()).map_err(|source| TrialError::Placement { source })?;
    if let Some(policy) = probe.policy_of_threads() {
        (placement.policy, placement.priority) = (policy.to_owned(), 0);
    }
    // What follows (sending samples) must not run at real-time priority.
    let _ = scheduling::leave_fifo();
    let findings = refused.into_iter().chain(findings).chain(begun.finding.take()).collect();
    Ok(Finished { begun, end, floor_units, rows, rtload, placement, counters, findings })
}

/// Puts the calling thread where it is to measure; gives what it means that `SCHED_FIFO` was refused.
fn take_place(cpus: &[u32], priority: u32, probe: &dyn Probe) -> Result<Option<Finding>, TrialError> {
    let refused = |source| TrialError::Cpus { cpus: cpus.to_vec(), granted: nameable_cpus(), source };
    scheduling::place_on(cpus).map_err(refused)?;
    if priority == 0 {
        scheduling::leave_fifo()?;
        return Ok(None);
    }
    // Threads of a probe that run under ordinary scheduling anyway lose nothing by a refusal.
    let is_meant = probe.needs_fifo() || probe.policy_of_threads().is_none();
    let refusal = scheduling::request_fifo(priority).err().filter(|_| is_meant);
    Ok(refusal.map(|error| findings::no_sched_fifo(&error, priority, probe.needs_fifo())))
}

/// What the kernel has counted of a thread.
struct KernelCounts {
    voluntary_context_switches: u64,
    involuntary_context_switches: u64,
    migrations: Option<u64>,
    times: Option<ThreadTimes>,
}

impl KernelCounts {
    fn of_this_thread() -> Self {
        let (voluntary_context_switches, involuntary_context_switches) = sys::thread_context_switches();
        let migrations = scheduling::migrations();
        Self {
            voluntary_context_switches,
            involuntary_context_switches,
            migrations,
            times: thread_times::of_this_thread(),
        }
    }

    fn since(&self, before: &Self) -> impl Iterator<Item = (String, u64)> {
        let migrations = self.migrations.zip(before.migrations);
        let switches = [
            ("voluntary_context_switches", self.voluntary_context_switches - before.voluntary_context_switches),
            ("involuntary_context_switches", self.involuntary_context_switches - before.involuntary_context_switches),
        ];
        let migrations = migrations.map(|(after, before)| ("migrations", after - before));
        let times = self.times.zip(before.times).map(|(after, before)| {
            [
                ("measuring_run_ns", after.run_ns.saturating_sub(before.run_ns)),
                ("measuring_run_delay_ns", after.run_delay_ns.saturating_sub(before.run_delay_ns)),
            ]
        });
        let named = switches.into_iter().chain(migrations).chain(times.into_iter().flatten());
        named.map(|(name, count)| (name.to_owned(), count))
    }
}
