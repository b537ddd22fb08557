//! When a load is on, and the loop of one of its threads.
//!
//! Phases lie at absolute times of `CLOCK_MONOTONIC`: phase `k` is on from `origin + k * (on + off)` for
//! `on`. All threads of a load share the origin. A row's stamps are of the time-stamp counter: `start` is the
//! first instruction after the wake-up (or where the row before ended), `end` the one after the last step. A
//! thread that is woken late still ends with the phase; one that is woken after the phase has missed it,
//! which is counted.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::clock::TscRate;
use crate::load::rows::Rows;
use crate::load::staying::Staying;
use crate::load::work::Work;
use crate::sys::{KernelClock, kernel_clock_ns, time_stamp_counter, wait_while, wake_all};

/// Rows are cut where they would get longer.
const LONGEST_ROW_NS: u64 = 1_000_000_000;

/// From the release of the threads to the first phase, so that each of them is asleep in time.
const LEAD_NS: u64 = 1_000_000;

const PREPARING: u32 = 0;
const RUNNING: u32 = 1;
const STOPPED: u32 = 2;

/// How threads are released and stopped.
#[derive(Debug, Default)]
pub struct Control {
    state: AtomicU32,
    origin_ns: AtomicU64,
}

impl Control {
    /// Lets all threads begin with phase 0, in a moment.
    pub fn release(&self) {
        self.origin_ns.store(kernel_clock_ns(KernelClock::Monotonic) + LEAD_NS, Ordering::SeqCst);
        self.change(RUNNING);
    }

    /// Makes all threads end after their next step, asleep or not.
    pub fn stop(&self) {
        self.change(STOPPED);
    }

    fn change(&self, state: u32) {
        self.state.store(state, Ordering::SeqCst);
        wake_all(&self.state);
    }

    #[inline(always)]
    fn is_stopped(&self) -> bool {
        self.state.load(Ordering::Relaxed) == STOPPED
    }

    /// Waits for the release and gives the start of phase 0; `None` if it is stopped instead.
    pub fn wait_for_release(&self) -> Option<u64> {
        loop {
            match self.state.load(Ordering::SeqCst) {
                PREPARING => wait_while(&self.state, PREPARING, None),
                RUNNING => return Some(self.origin_ns.load(Ordering::SeqCst)),
                _ => return None,
            }
        }
    }

    /// Sleeps until `until_ns` and gives the time-stamp counter right after that; `None` if stopped instead.
    #[inline(always)]
    fn sleep_until(&self, until_ns: u64) -> Option<u64> {
        loop {
            wait_while(&self.state, RUNNING, Some(until_ns));
            let woken = time_stamp_counter();
            if self.is_stopped() {
                return None;
            }
            if kernel_clock_ns(KernelClock::Monotonic) >= until_ns {
                return Some(woken);
            }
        }
    }
}

/// Lengths of the on and of the off phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    /// How long a load is on.
    pub on_ns: u64,
    /// How long it pauses after that.
    pub off_ns: u64,
}

/// When a load is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// The start of phase 0, on `CLOCK_MONOTONIC`.
    pub origin_ns: u64,
    /// Without it the load is always on.
    pub pulse: Option<Pulse>,
}

impl Schedule {
    /// The start of a phase and its end, if it has one.
    fn phase(&self, number: u64) -> (u64, Option<u64>) {
        match self.pulse {
            None => (self.origin_ns, None),
            Some(Pulse { on_ns, off_ns }) => {
                let start_ns = self.origin_ns + number * (on_ns + off_ns);
                (start_ns, Some(start_ns + on_ns))
            }
        }
    }

    /// The first phase that has not ended at `now_ns`.
    fn phase_at(&self, now_ns: u64) -> u64 {
        let Some(Pulse { on_ns, off_ns }) = self.pulse else { return 0 };
        let elapsed_ns = now_ns.saturating_sub(self.origin_ns);
        let number = elapsed_ns / (on_ns + off_ns);
        number + u64::from(elapsed_ns % (on_ns + off_ns) >= on_ns)
    }
}

/// Works through the phases until it is stopped; gives how many were slept through.
#[inline(never)]
pub fn run<W: Work>(
    work: &mut W,
    schedule: Schedule,
    control: &Control,
    rate: &TscRate,
    rows: &mut Rows,
    staying: &mut Staying,
) -> u64 {
    let longest_row_cycles = rate.to_cycles(LONGEST_ROW_NS);
    let (mut number, mut missed) = (0, 0);
    loop {
        let (start_ns, end_ns) = schedule.phase(number);
        let Some(mut start) = control.sleep_until(start_ns) else { return missed };
        let mut was_on = false;
        loop {
            // Read anew for each row: over a second the two clocks cannot come apart by more than half a
            // millisecond.
            let now_ns = kernel_clock_ns(KernelClock::Monotonic);
            let deadline = match end_ns {
                None => u64::MAX,
                Some(end_ns) if now_ns >= end_ns => break,
                Some(end_ns) => time_stamp_counter() + rate.to_cycles(end_ns - now_ns),
            };
            let cut = deadline.min(start + longest_row_cycles);
            let mut done = 0;
            let mut now;
            loop {
                done += work.step();
                now = time_stamp_counter();
                if now >= cut || control.is_stopped() {
                    break;
                }
            }
            rows.push(start, now.saturating_sub(start), done);
            staying.look(now);
            was_on = true;
            start = now;
            if control.is_stopped() {
                return missed;
            }
            if now >= deadline {
                break;
            }
        }
        // A thread that did not get the CPU may wake long after the next phases.
        let next = schedule.phase_at(kernel_clock_ns(KernelClock::Monotonic)).max(number + 1);
        missed += next - number - u64::from(was_on);
        number = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULSED: Schedule = Schedule { origin_ns: 1000, pulse: Some(Pulse { on_ns: 5, off_ns: 45 }) };

    #[test]
    fn phases_lie_at_absolute_times() {
        assert_eq!(PULSED.phase(0), (1000, Some(1005)));
        assert_eq!(PULSED.phase(3), (1150, Some(1155)));
        assert_eq!(Schedule { pulse: None, ..PULSED }.phase(0), (1000, None));
    }

    #[test]
    fn the_phase_of_a_time_is_the_one_that_has_not_ended() {
        let times = [(999, 0), (1004, 0), (1005, 1), (1049, 1), (1050, 1), (1054, 1), (1055, 2)];
        for (now_ns, number) in times {
            assert_eq!(PULSED.phase_at(now_ns), number, "at {now_ns}");
        }
    }

    #[test]
    fn a_stop_before_the_release_lets_nobody_begin() {
        let control = Control::default();
        control.stop();
        assert_eq!(control.wait_for_release(), None);
    }

    #[test]
    fn a_stop_ends_a_long_sleep() {
        let control = Control::default();
        control.release();
        let origin_ns = control.wait_for_release().unwrap();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| control.sleep_until(origin_ns + 3_600_000_000_000));
            control.stop();
            assert_eq!(sleeper.join().unwrap(), None);
        });
    }
}
