//! What a kernel takes to release, schedule and start a real-time job, from its own trace.
//!
//! Two kinds of results come from one trace. *Samples* are pairs of events on one CPU, as LITMUS^RT's tools make
//! them (`ft2csv`): a timer's callback, a timer interrupt, a passage of the scheduler. *Chains* belong to jobs: from
//! the programmed release to the moment that the job itself stamped, each stretch of that time in one [`Part`], so that
//! the parts add up to it exactly. Nothing is left out as an outlier; what was disturbed carries [`Flags`], and what
//! could not be paired is counted ([`Discards`]). `docs/overheads.md` defines each beginning and end.
//!
//! Pure: columns in, columns out, in cycles of one counter.

mod chain;
mod discards;
mod error;
mod flags;
mod interference;
mod part;
mod requests;
mod sample;
mod scan;
mod stretches;
mod trace;

pub use chain::{Chains, Jobs, follow};
pub use discards::{Discards, JobDiscard, PairDiscard};
pub use error::OverheadsError;
pub use flags::Flags;
pub use interference::{TakerClass, Taking};
pub use part::Part;
pub use sample::{Sample, SampleKind};
pub use scan::{Scanned, Wake, scan};
pub use stretches::Stretches;
pub use trace::{Trace, TraceColumns};

use rustc_hash::FxHashSet;

/// What one trace gives.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// One for each job, in the order of the jobs.
    pub chains: Chains,
    /// In the order of CPUs, then of time; behind all others those of requests.
    pub samples: Vec<Sample>,
    /// What is in no sample, in the order of CPUs, then of ends.
    pub takings: Vec<Taking>,
    pub discards: Discards,
}

/// Pairs the events of a trace, and splits the latency of each job.
///
/// `taken` are stretches in which the host is known to have taken the CPU, on the same counter.
pub fn measure(trace: &Trace<'_>, jobs: &Jobs<'_>, taken: &Stretches) -> Found {
    let mut found = Found::default();
    let own: FxHashSet<i32> = jobs.thread.iter().copied().collect();
    let scanned = scan(trace, taken, &own, &mut found.discards);
    found.chains = follow(trace, &scanned, jobs, taken, &mut found.discards);
    found.samples = scanned.samples;
    found.samples.extend(requests::requests(trace, taken));
    found.takings = interference::interference(trace, &own);
    found
}
