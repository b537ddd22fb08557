//! What stands ready before the first sample: the sample memory, locked and touched, and the clocks read.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use stealtime_wire::{ClockReading, Finding, Layout};

use crate::clock::{self, SampleClock};
use crate::error::TrialError;
use crate::recorder::Recorder;
use crate::trial::Trial;
use crate::{findings, steal, sys};

/// Sample memory may take half of what may still be used, unless a number of samples was asked for.
const MEMORY_SHARE_DIVISOR: u64 = 2;

/// What the measuring thread gives to its probe.
pub struct Stage<'a> {
    /// What is carried out.
    pub trial: &'a Trial<'a>,
    /// The CPUs on which this thread is placed.
    pub cpus: &'a [u32],
    pub(crate) layout: Option<Layout>,
    pub(crate) clock: SampleClock,
    /// Hears when only the measuring is left to do.
    pub(crate) ready: &'a Sender<()>,
}

/// A trial whose first sample comes next.
pub struct Begun {
    /// Where the samples go.
    pub recorder: Arc<Recorder>,
    pub(crate) finding: Option<Finding>,
    /// As the kernel had counted then.
    pub(crate) stolen_ns: Option<u64>,
    pub(crate) start_realtime_ns: u64,
    pub(crate) start: ClockReading,
}

impl Stage<'_> {
    /// The last before the first sample. `most_samples` is how many the trial can hold at most.
    ///
    /// # Errors
    /// [`TrialError::Memory`].
    pub fn begin(&self, most_samples: u64) -> Result<Begun, TrialError> {
        let running = self.trial.running;
        let recorder = Arc::new(self.allocate(most_samples)?);
        running.attach(&recorder);
        // Code and stacks. Refused, it is a finding that the locking of the samples has made already.
        let _ = sys::lock_present_memory();
        let finding = recorder.lock_error().map(findings::memory_not_locked);
        let stolen_ns = steal::stolen_ns(self.cpus);
        // Nobody waits for it where nothing is stolen.
        let _ = self.ready.send(());
        running.begin();
        let start_realtime_ns = clock::realtime_ns();
        Ok(Begun { recorder, finding, stolen_ns, start_realtime_ns, start: clock::read_clocks() })
    }

    /// More samples than the duration can hold; the true shortest turn may lie a little under the one seen
    /// before.
    pub fn most_turns(&self, shortest_cycles: u64) -> u64 {
        let turns = self.trial.duration_cycles() / shortest_cycles.max(1);
        turns + turns / 4 + 1024
    }

    fn allocate(&self, most_samples: u64) -> Result<Recorder, TrialError> {
        let request = self.trial.request;
        let with_gaps = self.layout == Some(Layout::Gapped);
        let bytes_each = size_of::<u32>() as u64 * (1 + u64::from(with_gaps));
        let wanted = request.max_samples.unwrap_or_else(|| {
            let available = stealtime_memory::usable_bytes();
            most_samples.min(available / MEMORY_SHARE_DIVISOR / bytes_each)
        });
        let samples = usize::try_from(wanted.max(1)).unwrap_or(usize::MAX);
        let bytes = wanted.saturating_mul(bytes_each);
        Recorder::new(samples, with_gaps, request.duration_ns, self.clock).map_err(|source| TrialError::Memory {
            samples,
            bytes,
            source,
        })
    }
}
