//! A known disturbance, to test the instrument: a thread of higher priority on the measured CPU takes the CPU away
//! for a known time at known times, and stamps its own start and end with the clock of the trial's samples.
//!
//! What a probe then loses is a little more than the thief stamps: the timer interrupt and the two switches around it
//! (a few microseconds on bare metal, 15 to 25 where the timer is itself virtual) belong to the loss but not to the
//! stamps. A theft that comes late puts off the next one, so that the probe always runs in between.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use stealtime_wire::Injection;

use crate::clock::SampleClock;
use crate::guest_exit::ExitMaker;
use crate::sys::{KernelClock, kernel_clock_ns, sleep_until_monotonic};

/// What the thief did.
#[derive(Debug, Default)]
pub struct Thefts {
    /// (start, duration) in units of the samples' clock, absolute.
    pub stamped: Vec<(u64, u64)>,
    /// Why the thief has no higher priority than the probe, if so.
    pub refusal: Option<io::Error>,
}

impl Thefts {
    /// Room for `most` thefts, to be made before the probe begins. Written, not only reserved: a page fault would cost the
    /// probe time that no stamp covers, and would have the thief wait for any other thread that is changing the address
    /// space, which gets no turn on a CPU that is being measured.
    pub fn with_room_for(most: usize) -> Self {
        let mut stamped = vec![(u64::MAX, u64::MAX); most];
        stamped.clear();
        Self { stamped, refusal: None }
    }
}

/// Steals until `finished` is set, or `thefts` has no more room. Called by a thread that is pinned to the measured CPU and
/// has the higher priority, just before the first sample.
///
/// # Errors
/// What each theft is to begin with is refused.
pub fn steal(
    mut thefts: Thefts,
    injection: &Injection,
    exit: Option<&ExitMaker>,
    clock: SampleClock,
    units_per_ns: f64,
    finished: &AtomicBool,
) -> io::Result<Thefts> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a theft is far below 2^53 units"
    )]
    let steal_units = (injection.steal_ns as f64 * units_per_ns) as u64;
    let shortest_pause_ns = injection.every_ns.saturating_sub(injection.steal_ns) / 2;
    let mut next = kernel_clock_ns(KernelClock::Monotonic) + injection.every_ns;
    while thefts.stamped.len() < thefts.stamped.capacity() {
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
