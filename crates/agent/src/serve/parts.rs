//! The samples of a long trial are sent in parts while it runs, the next when the one before is known to be stored.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Result;
use stealtime_probe::TrialError;
use stealtime_probe::keeping::{Keeping, Taker};
use stealtime_wire::{FromAgent, StreamName};

use super::{Event, Server};
use crate::sample_source::SampleSource;
use crate::tables;
use crate::tracing::TrialEnd;

/// How the samples of a long trial are sent in parts while it runs.
pub(super) struct Parts {
    /// None where it is not asked for.
    every: Option<Duration>,
    last: Instant,
    /// So many samples were sent and are not known to be stored.
    unconfirmed: Option<usize>,
    /// How the trial ended, which is told once the part before is known to be stored.
    end: Option<Box<Result<TrialEnd, TrialError>>>,
}

impl Parts {
    pub(super) fn new(every: Option<Duration>) -> Self {
        Self { every, last: Instant::now(), unconfirmed: None, end: None }
    }
}

impl Server {
    pub(super) fn taker(&self, every_ns: u64, is_beside: bool) -> Taker {
        let events = self.events.clone();
        // The server has ended if it does not listen; whoever waits is stopped then.
        Taker { every_ns, is_beside, wake: Box::new(move || drop(events.send(Event::PartDue))) }
    }

    /// Sends what was measured since the last part, if it is time and that one is stored.
    pub(super) fn send_part_if_due(&mut self) -> Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let (Some(every), Some(recorder)) = (running.parts.every, running.trial.recorder()) else { return Ok(()) };
        let (taken, measured) = (running.trial.taken(), recorder.len());
        let is_due = match recorder.keeping() {
            Keeping::Whole => false,
            Keeping::Pausing { .. } => recorder.is_waiting(),
            Keeping::Beside => {
                let is_filling = measured - taken.rows >= recorder.capacity() / 4;
                is_filling || recorder.is_waiting() || running.parts.last.elapsed() >= every
            }
        };
        if !is_due || measured == taken.rows || running.parts.unconfirmed.is_some() {
            return Ok(());
        }
        let Some(layout) = running.trial.layout() else { return Ok(()) };
        if let Some(watched) = &mut running.watched {
            watched.longest = watched.longest.max(recorder.longest_since(watched.samples));
            watched.samples = measured;
        }
        let source = SampleSource::part(&recorder, layout, taken);
        let now_taken = source.taken();
        let watched_units = source.watched_units(now_taken);
        let so_far = running.trial.outcome_so_far(&running.request, &running.rate, now_taken.rows, watched_units);
        let Some(outcome) = so_far else { return Ok(()) };
        running.trial.set_taken(now_taken);
        running.parts.unconfirmed = Some(source.end());
        running.parts.last = Instant::now();
        let number = running.number;
        self.bulk_position = 0;
        for stream in [StreamName::Samples, StreamName::Events] {
            let table = |output: &mut dyn Write| tables::write_part(&source, &outcome, stream, output);
            self.send_table(number, stream, true, &table)?;
        }
        self.send(&FromAgent::Checkpoint(Box::new(outcome)))
    }

    pub(super) fn part_stored(&mut self, trial: u64) -> Result<()> {
        let Some(running) = self.running.as_mut().filter(|running| running.number == trial) else { return Ok(()) };
        let Some(sent) = running.parts.unconfirmed.take() else { return Ok(()) };
        if let Some(recorder) = running.trial.recorder() {
            recorder.take(sent);
        }
        match running.parts.end.take() {
            Some(end) => self.finish(*end),
            None => Ok(()),
        }
    }

    /// The bulk disk holds the part before until that is stored.
    pub(super) fn finish_after_part(&mut self, end: Box<Result<TrialEnd, TrialError>>) -> Result<()> {
        match &mut self.running {
            Some(running) if running.parts.unconfirmed.is_some() => {
                running.parts.end = Some(end);
                Ok(())
            }
            _ => self.finish(*end),
        }
    }
}
