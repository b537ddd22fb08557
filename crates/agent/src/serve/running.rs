//! A trial under way. The samples of a long one are sent in parts while it runs, the next when the one before is known
//! to be stored.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stealtime_probe::clock::TscRate;
use stealtime_probe::keeping::Keeping;
use stealtime_probe::recorder::Recorder;
use stealtime_probe::{RunningTrial, TrialError};
use stealtime_wire::{TrialOutcome, TrialRequest};

use crate::restore::Watchdog;
use crate::sample_source::SampleSource;
use crate::tracing::TrialEnd;

pub type Ended = Box<Result<TrialEnd, TrialError>>;

/// A trial under way.
pub struct Running {
    pub number: u64,
    pub request: TrialRequest,
    pub parts: Parts,
    pub rate: TscRate,
    pub trial: Arc<RunningTrial>,
    pub watched: Option<Watched>,
    pub all_cpus: Vec<u32>,
    /// Alive while RT throttling may be lifted.
    pub _watchdog: Option<Watchdog>,
}

/// What was told of a trial so far.
#[derive(Default)]
pub struct Watched {
    samples: usize,
    pub longest: u32,
}

impl Watched {
    pub fn look(&mut self, recorder: &Recorder) {
        let samples = recorder.len();
        self.longest = self.longest.max(recorder.longest_since(self.samples));
        self.samples = samples;
    }
}

/// What was sent of a long trial.
pub struct Parts {
    /// None where it is not asked for.
    every: Option<Duration>,
    last: Instant,
    /// So many samples were sent and are not known to be stored.
    unconfirmed: Option<usize>,
    /// How the trial ended, which is told once the part before is known to be stored.
    end: Option<Ended>,
}

impl Parts {
    pub fn new(every: Option<Duration>) -> Self {
        Self { every, last: Instant::now(), unconfirmed: None, end: None }
    }
}

impl Running {
    /// What was measured since the last part, and what comes of the trial if nothing more does; if it is time, and that
    /// part is stored. It then counts as sent.
    pub fn next_part<'a>(&mut self, recorder: &'a Recorder) -> Option<(SampleSource<'a>, TrialOutcome)> {
        let every = self.parts.every?;
        let (taken, measured) = (self.trial.taken(), recorder.len());
        let is_due = match recorder.keeping() {
            Keeping::Whole => false,
            Keeping::Pausing { .. } => recorder.is_waiting(),
            Keeping::Beside => {
                let is_filling = measured - taken.rows >= recorder.capacity() / 4;
                is_filling || recorder.is_waiting() || self.parts.last.elapsed() >= every
            }
        };
        if !is_due || measured == taken.rows || self.parts.unconfirmed.is_some() {
            return None;
        }
        let layout = self.trial.layout()?;
        if let Some(watched) = &mut self.watched {
            watched.look(recorder);
        }
        let source = SampleSource::part(recorder, layout, taken);
        let now_taken = source.taken();
        let watched_units = source.watched_units(now_taken);
        let outcome = self.trial.outcome_so_far(&self.request, &self.rate, now_taken.rows, watched_units)?;
        self.trial.set_taken(now_taken);
        self.parts.unconfirmed = Some(source.end());
        self.parts.last = Instant::now();
        Some((source, outcome))
    }

    /// The last part is stored: gives the end of the trial, if that has waited for it.
    pub fn part_stored(&mut self) -> Option<Ended> {
        let sent = self.parts.unconfirmed.take()?;
        if let Some(recorder) = self.trial.recorder() {
            recorder.take(sent);
        }
        self.parts.end.take()
    }

    /// The trial has ended: gives its end, unless that has to wait. The bulk disk holds a part until it is stored.
    pub fn ended(&mut self, end: Ended) -> Option<Ended> {
        if self.parts.unconfirmed.is_none() {
            return Some(end);
        }
        self.parts.end = Some(end);
        None
    }
}
