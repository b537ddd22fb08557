//! `tick`: clock tick processing duration (Fayyad-Kazan, Perneel, Timmerman, GJCST-H 13(2), 2013, section
//! IV.b.i).
//!
//! A `SCHED_FIFO` thread runs a fixed busy loop back to back, with **one** reading of the time-stamp counter
//! between two turns. A sample is the time from one reading to the next: its first instruction is the one
//! after an `lfence; rdtsc`, its last is the next `rdtsc`. The samples tile the time of the trial: there is
//! no blind gap, and the start of a sample is the sum of all before it, so that four bytes keep a sample
//! together with its time.
//!
//! * Clock: the time-stamp counter, cycles.
//! * Floor: the shortest turn of a calibration of up to 50 ms just before, on the same thread, or of the
//!   trial itself.
//! * What a longer turn means: the CPU did something else meanwhile, for about the excess over the floor: an
//!   interrupt, another thread, the host. A turn that was slowed (frequency, cache, SMT) looks the same.
//! * Limits: an interruption shorter than the loop's own jitter is not seen; two within one turn are seen as
//!   one. The write of the sample is part of the next turn. A turn of 2^32 cycles or more is kept in full in
//!   a side list.

use std::io;
use std::thread;

use stealtime_wire::{Layout, Tick};

use crate::clock::{SampleClock, TscRate};
use crate::error::TrialError;
use crate::evidence::Wanted;
use crate::keeping::Next;
use crate::probe::{Measured, Probe};
use crate::recorder::Recorder;
use crate::scheduling;
use crate::stage::Stage;
use crate::sys::{busy_loop, time_stamp_counter};

/// A calibration ends after this many turns ...
const CALIBRATION_TURNS: usize = 150;
/// ... or after this time.
const CALIBRATION_LIMIT_NS: u64 = 50_000_000;

impl Probe for Tick {
    fn layout(&self) -> Option<Layout> {
        Some(Layout::Tiled)
    }

    fn clock(&self) -> SampleClock {
        SampleClock::Tsc
    }

    fn evidence(&self) -> Option<Wanted> {
        Some(Wanted::Switches)
    }

    fn measure(&self, stage: &Stage) -> Result<Measured, TrialError> {
        let floor_cycles = floor_cycles(self.iterations, stage.trial.rate.hz);
        let begun = stage.begin(stage.most_turns(floor_cycles), Some(floor_cycles))?;
        measure(&begun.recorder, self.iterations, stage.trial.duration_cycles());
        Ok(Measured { floor_units: Some(floor_cycles), ..Measured::new(begun) })
    }
}

/// The shortest of some turns, in cycles.
fn floor_cycles(iterations: u64, tsc_hz: f64) -> u64 {
    turns(iterations, tsc_hz).min().unwrap_or(0)
}

fn turns(iterations: u64, tsc_hz: f64) -> impl Iterator<Item = u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "50 ms of cycles")]
    let limit = (CALIBRATION_LIMIT_NS as f64 * 1e-9 * tsc_hz) as u64;
    let start = time_stamp_counter();
    let mut previous = start;
    (0..CALIBRATION_TURNS).map_while(move |turn| {
        busy_loop(iterations);
        let now = time_stamp_counter();
        // As in `measure`: a counter that went backwards is no cheap turn.
        let duration = now.wrapping_sub(previous);
        previous = now;
        (turn < 16 || now.saturating_sub(start) < limit).then_some(duration)
    })
}

/// Iterations of the busy loop that take `wanted` cycles when nothing interrupts.
///
/// The time of a turn is linear in the iterations, so the shortest turns of two lengths give the slope.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^53")]
fn calibrate(wanted_cycles: u64, tsc_hz: f64) -> u64 {
    const SHORT: u64 = 500;
    const LONG: u64 = 5_000;
    let short = floor_cycles(SHORT, tsc_hz);
    let long = floor_cycles(LONG, tsc_hz);
    let cycles_per_iteration = (long.saturating_sub(short).max(1)) as f64 / (LONG - SHORT) as f64;
    let fixed = (short as f64 - SHORT as f64 * cycles_per_iteration).max(0.0);
    ((wanted_cycles as f64 - fixed) / cycles_per_iteration).round().max(1.0) as u64
}

/// Finds how many iterations of the busy loop take `loop_ns` when nothing interrupts, on a thread of its own
/// on `cpu`; gives the iterations and the floor that they have there, in ns.
///
/// # Errors
/// If the CPU cannot be used. A refused `SCHED_FIFO` is no error: the shortest of many turns is still the
/// right one.
pub fn calibrate_on(cpu: u32, priority: u32, loop_ns: u64, rate: &TscRate) -> io::Result<(u64, f64)> {
    let on_cpu = || {
        scheduling::pin_to(cpu)?;
        let _ = scheduling::request_fifo(priority);
        let iterations = calibrate(rate.to_cycles(loop_ns), rate.hz);
        Ok((iterations, rate.to_ns(floor_cycles(iterations, rate.hz))))
    };
    let gone = |_| Err(io::Error::other("the calibrating thread panicked"));
    thread::scope(|scope| scope.spawn(on_cpu).join().unwrap_or_else(gone))
}

/// Measures until the deadline or until the memory is full.
#[inline(never)]
fn measure(recorder: &Recorder, iterations: u64, duration_cycles: u64) {
    let mut previous = time_stamp_counter();
    recorder.start(previous, previous.saturating_add(duration_cycles));
    let (mut index, mut room) = (0, recorder.room());
    loop {
        while index < room {
            busy_loop(iterations);
            let now = time_stamp_counter();
            // A counter that went backwards gives a value near 2^64, which lands in the side list and is seen.
            recorder.write(index, now.wrapping_sub(previous));
            previous = now;
            index += 1;
            if now >= recorder.deadline() {
                break;
            }
        }
        match recorder.next(index, previous) {
            Next::Go(next) => room = next,
            Next::Resume(next) => {
                room = next;
                let now = time_stamp_counter();
                recorder.resumed(index, now.wrapping_sub(previous), now);
                previous = now;
            }
            Next::Stop => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threshold::Threshold;

    #[test]
    fn samples_tile_the_time_of_the_trial() {
        let recorder = Recorder::new(10_000, false, 1_000_000_000, SampleClock::Tsc).unwrap();
        let before = time_stamp_counter();
        measure(&recorder, 100, 1_000_000);
        let after = time_stamp_counter();
        let origin = recorder.origin();
        let samples = recorder.into_samples();
        let total: u64 = samples.durations().iter().map(|&cycles| u64::from(cycles)).sum();
        assert!(origin >= before && origin + total <= after);
        assert!(total >= 1_000_000, "{total}");
    }

    #[test]
    fn a_turn_over_the_threshold_ends_the_trial_or_is_counted() {
        for (stops, turns) in [(true, 1), (false, 10)] {
            let recorder = Recorder::new(10, false, 1_000_000_000, SampleClock::Tsc).unwrap();
            let recorder = recorder.held_against(Threshold::new(0, stops, None));
            measure(&recorder, 100, u64::MAX);
            let hit = recorder.hit().unwrap();
            assert_eq!((recorder.len(), hit.index, hit.samples_over), (turns, 0, turns as u64));
            assert_eq!(hit.duration_units, u64::from(recorder.into_samples().durations()[0]));
        }
    }

    #[test]
    fn full_memory_ends_the_trial() {
        let recorder = Recorder::new(10, false, 1_000_000_000, SampleClock::Tsc).unwrap();
        measure(&recorder, 10, u64::MAX);
        assert_eq!(recorder.len(), 10);
    }

    #[test]
    fn more_iterations_take_longer() {
        assert!(floor_cycles(10_000, 2e9) > 5 * floor_cycles(1_000, 2e9));
    }
}
