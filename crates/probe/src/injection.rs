//! A known disturbance, to test the instrument: a thread of higher priority on the measured CPU takes the CPU
//! away for a known time at known times, and stamps its own start and end with the clock of the trial's
//! samples.
//!
//! What a probe then loses is a little more than the thief stamps: the timer interrupt and the two switches
//! around it (a few microseconds on bare metal, 15 to 25 where the timer is itself virtual) belong to the
//! loss but not to the stamps. A theft that comes late puts off the next one, so that the probe always runs
//! in between.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use stealtime_wire::{Injection, ThreadRole, TrialRequest};

use crate::clock::SampleClock;
use crate::guest_exit::ExitMaker;
use crate::probe::Probe;
use crate::scheduling;
use crate::sys::{KernelClock, kernel_clock_ns, sleep_until_monotonic};
use crate::trial::Trial;

/// What a theft takes once it is told: an event of 40 bytes, and its columns in the table `events`.
const TOLD_BYTES: u64 = 80;

/// What the thief did.
#[derive(Debug, Default)]
pub struct Thefts {
    /// (start, duration) in units of the samples' clock, absolute.
    pub stamped: Vec<(u64, u64)>,
    /// Why the thief has no higher priority than the probe, if so.
    pub refusal: Option<io::Error>,
}

impl Thefts {
    /// Room for `most` thefts, to be made before the probe begins. Written, not only reserved: a page fault
    /// would cost the probe time that no stamp covers, and would have the thief wait for any other thread
    /// that is changing the address space, which gets no turn on a CPU that is being measured.
    pub fn with_room_for(most: usize) -> Self {
        let mut stamped = vec![(u64::MAX, u64::MAX); most];
        stamped.clear();
        Self { stamped, refusal: None }
    }

    /// Those after `origin`, with their starts counted from there.
    pub fn since(self, origin: u64) -> Vec<(u64, u64)> {
        let from_origin = |(at, took): (u64, u64)| Some((at.checked_sub(origin)?, took));
        self.stamped.into_iter().filter_map(from_origin).collect()
    }
}

/// What the thefts of a trial take at its end: as they were stamped, and as they are told.
pub fn needed_bytes(request: &TrialRequest) -> u64 {
    let thefts = request.injection.as_ref().map_or(0, |injection| most_thefts(request, injection));
    thefts.saturating_mul(size_of::<(u64, u64)>() as u64 + TOLD_BYTES)
}

fn most_thefts(request: &TrialRequest, injection: &Injection) -> u64 {
    request.duration_ns / injection.every_ns + 1
}

/// The disturbance of one trial.
pub struct Disturbance<'a> {
    pub trial: &'a Trial<'a>,
    pub probe: &'a dyn Probe,
    pub injection: &'a Injection,
    /// Tells when only the measuring is left to do.
    pub is_ready: Receiver<()>,
    /// Set when the last sample was measured.
    pub finished: &'a AtomicBool,
}

impl Disturbance<'_> {
    /// Takes the calling thread to the measured CPU, tells `armed` when it can preempt the probe there, and
    /// steals until the trial is over.
    ///
    /// # Errors
    /// The thread may not run there, or what each theft is to begin with is refused.
    pub fn carry_out(self, armed: &Sender<()>) -> io::Result<Thefts> {
        let Self { trial: Trial { request, rate, running }, probe, injection, .. } = self;
        running.threads.enter(ThreadRole::Injection);
        // Refused, it steals with whatever share it gets.
        // Before it goes to the CPU, where an ordinary thread starves beside a busy one of SCHED_FIFO.
        let refusal = scheduling::request_fifo(request.priority + 1).err();
        scheduling::place_on(probe.cpus(&request.cpus))?;
        let exit = injection.exit.map(ExitMaker::new).transpose()?;
        let most = usize::try_from(most_thefts(request, injection)).unwrap_or(usize::MAX);
        let thefts = Thefts { refusal, ..Thefts::with_room_for(most) };
        // The other end waits for nothing else.
        let _ = armed.send(());
        // No sleeping and looking: a thread whose sleep ends while another of its CPU is becoming SCHED_FIFO
        // may not preempt that one for the whole trial (seen on Linux 6.18).
        if self.is_ready.recv().is_err() {
            return Ok(thefts);
        }
        let clock = probe.clock();
        let units_per_ns = clock.units_per_s(rate) * 1e-9;
        let ends_at = kernel_clock_ns(KernelClock::Monotonic) + request.duration_ns;
        steal(thefts, injection, exit.as_ref(), clock, units_per_ns, ends_at, self.finished)
    }
}

/// Steals until `finished` is set, `thefts` has no more room, or the next theft would come after the trial: it would
/// be waited for, and a trial of 10 s with a theft every 9 s would take 18.
fn steal(
    mut thefts: Thefts,
    injection: &Injection,
    exit: Option<&ExitMaker>,
    clock: SampleClock,
    units_per_ns: f64,
    ends_at: u64,
    finished: &AtomicBool,
) -> io::Result<Thefts> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a theft is far below 2^53 units")]
    let steal_units = (injection.steal_ns as f64 * units_per_ns) as u64;
    let shortest_pause_ns = injection.every_ns.saturating_sub(injection.steal_ns) / 2;
    let mut next = kernel_clock_ns(KernelClock::Monotonic) + injection.every_ns;
    while next <= ends_at && thefts.stamped.len() < thefts.stamped.capacity() {
        sleep_until_monotonic(next);
        if finished.load(Ordering::Relaxed) {
            break;
        }
        let start = clock.now();
        if let Some(exit) = exit {
            exit.leave_guest()?;
        }
        let mut end = clock.now();
        while end.saturating_sub(start) < steal_units {
            end = clock.now();
        }
        thefts.stamped.push((start, end - start));
        let earliest = kernel_clock_ns(KernelClock::Monotonic) + shortest_pause_ns;
        next = (next + injection.every_ns).max(earliest);
    }
    Ok(thefts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    #[test]
    fn a_theft_that_would_come_after_the_trial_is_not_waited_for() {
        let injection = Injection { every_ns: HOUR_NS, steal_ns: 1, exit: None };
        let ends_at = kernel_clock_ns(KernelClock::Monotonic) + HOUR_NS / 2;
        let finished = AtomicBool::new(false);
        let clock = SampleClock::Monotonic;
        let thefts = steal(Thefts::with_room_for(4), &injection, None, clock, 1.0, ends_at, &finished).unwrap();
        assert!(thefts.stamped.is_empty());
    }
}
