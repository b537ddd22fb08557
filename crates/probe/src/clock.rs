//! The time-stamp counter and the proof that it can be trusted.
//!
//! The counter's rate is measured against `CLOCK_MONOTONIC_RAW` before a trial; over the trial the two are
//! compared again, and a disagreement of more than [`LIMIT_PPM`] makes the trial invalid. That finds a
//! counter that stops, jumps or changes its rate, if the kernel keeps its time with something else: where its
//! clock source is the counter, the two are one clock. It never finds a kernel whose idea of a second is
//! wrong from the start. For both the control plane compares the samples' clock with the host's
//! (`exchange_clock`, `stealtime.vocabulary.clock_agreement`).

use std::time::{Duration, Instant};
use std::{fs, thread};

use stealtime_wire::{ClockCheck, ClockReading};

pub use crate::sys::time_stamp_counter;
use crate::sys::{self, KernelClock};

/// Over this disagreement of the two clocks a trial is invalid. NTP may steer a clock by 500 ppm at most
/// (adjtimex(2)), so a larger one is no steering.
pub const LIMIT_PPM: f64 = 500.0;

/// A stretch long enough that a bracket of a microsecond is a few tens of ppm of it.
const STRETCH: Duration = Duration::from_millis(25);

/// Two stretches in a row that agree to this are settled. Half of what makes a trial invalid.
const SETTLED_PPM: f64 = LIMIT_PPM / 2.0;

/// A clock that has not settled after so many stretches never will; the trial's own check then says so.
const MOST_STRETCHES: usize = 40;

/// What the kernel keeps its time with now.
pub const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// With these Linux keeps its time only until it has found better: `tsc-early` until about a second after it has
/// begun (`tsc_refine_calibration_work()`).
const PROVISIONAL: [&str; 3] = ["jiffies", "refined-jiffies", "tsc-early"];

/// A disturbed refinement is begun anew each second; some kernels have nothing better.
const PROVISIONAL_LIMIT: Duration = Duration::from_secs(4);

const READINGS: usize = 7;

/// The clock that a trial's samples are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleClock {
    /// The time-stamp counter, in cycles.
    Tsc,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    Monotonic,
}

impl SampleClock {
    /// Now, in units of the clock.
    #[inline(always)]
    pub fn now(self) -> u64 {
        match self {
            Self::Tsc => time_stamp_counter(),
            Self::Monotonic => sys::kernel_clock_ns(KernelClock::Monotonic),
        }
    }

    /// As results name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tsc => "tsc",
            Self::Monotonic => "monotonic",
        }
    }

    /// How many units of the clock a second has.
    pub fn units_per_s(self, rate: &TscRate) -> f64 {
        match self {
            Self::Tsc => rate.hz,
            Self::Monotonic => 1e9,
        }
    }
}

/// Reads the clocks back to back; of a few attempts the one with the narrowest bracket.
pub fn read_clocks() -> ClockReading {
    narrowest(time_stamp_counter, sys::kernel_clock_ns)
}

fn narrowest(mut counter: impl FnMut() -> u64, mut kernel_ns: impl FnMut(KernelClock) -> u64) -> ClockReading {
    let mut attempt = || {
        let before = counter();
        let monotonic_raw_ns = kernel_ns(KernelClock::MonotonicRaw);
        let monotonic_ns = kernel_ns(KernelClock::Monotonic);
        // A counter that went backwards gives a bracket that every other is narrower than.
        let bracket_tsc = counter().wrapping_sub(before);
        ClockReading { tsc: before.wrapping_add(bracket_tsc / 2), monotonic_raw_ns, monotonic_ns, bracket_tsc }
    };
    let first = attempt();
    (1..READINGS)
        .map(|_| attempt())
        .fold(first, |best, next| if next.bracket_tsc < best.bracket_tsc { next } else { best })
}

/// `CLOCK_REALTIME` now.
pub fn realtime_ns() -> u64 {
    sys::kernel_clock_ns(KernelClock::Realtime)
}

/// `CLOCK_MONOTONIC_RAW` now: what the machine counts by itself, which nothing steers.
pub fn monotonic_raw_ns() -> u64 {
    sys::kernel_clock_ns(KernelClock::MonotonicRaw)
}

/// Finds from when on the two clocks run in step.
///
/// A kernel that has just booted changes its clock source under way (`refined-jiffies`, then what it finds),
/// and a rate measured across that is wrong by a thousand ppm. So stretches are compared until two in a row
/// agree.
#[derive(Debug)]
pub struct Settling {
    first: ClockReading,
    second: Option<ClockReading>,
}

impl Settling {
    /// Begins with a reading now; what is done until [`Self::wait`] is time that need not be waited.
    pub fn begin() -> Self {
        Self { first: read_clocks(), second: None }
    }

    /// Takes the second reading on the way, if the first is long enough ago.
    pub fn pass(&mut self) {
        let now = read_clocks();
        if since(&self.first, &now) >= STRETCH {
            self.second = Some(now);
        }
    }

    /// Waits until the kernel has its clock source for good and the clocks run in step, and gives the reading from
    /// which on they do.
    pub fn wait(&self) -> ClockReading {
        let begun_anew =
            wait_for_clock_source(|| fs::read_to_string(CLOCK_SOURCE).unwrap_or_default()).then(Self::begin);
        let Self { first, second } = begun_anew.as_ref().unwrap_or(self);
        let second = second.unwrap_or_else(|| next_reading(first));
        let mut readings = [*first, second, next_reading(&second)];
        for _ in 0..MOST_STRETCHES {
            if in_step(&readings) {
                break;
            }
            readings = [readings[1], readings[2], next_reading(&readings[2])];
        }
        readings[0]
    }
}

/// Waits while the clock source is one that the kernel will replace; false if it was none.
fn wait_for_clock_source(read: impl Fn() -> String) -> bool {
    let is_provisional = || PROVISIONAL.contains(&read().trim());
    let deadline = Instant::now() + PROVISIONAL_LIMIT;
    let mut waited = false;
    while is_provisional() && Instant::now() < deadline {
        thread::sleep(STRETCH);
        waited = true;
    }
    waited
}

/// The clocks at least a stretch after `previous`.
fn next_reading(previous: &ClockReading) -> ClockReading {
    thread::sleep(STRETCH.saturating_sub(since(previous, &read_clocks())));
    read_clocks()
}

fn since(earlier: &ClockReading, later: &ClockReading) -> Duration {
    Duration::from_nanos(later.monotonic_raw_ns.saturating_sub(earlier.monotonic_raw_ns))
}

fn in_step([first, second, third]: &[ClockReading; 3]) -> bool {
    let cycles_per_ns = |from: &ClockReading, to: &ClockReading| {
        to.tsc.wrapping_sub(from.tsc) as f64 / to.monotonic_raw_ns.saturating_sub(from.monotonic_raw_ns) as f64
    };
    let (earlier, later) = (cycles_per_ns(first, second), cycles_per_ns(second, third));
    let brackets = first.bracket_tsc as f64 / 2.0 + second.bracket_tsc as f64 + third.bracket_tsc as f64 / 2.0;
    let error_ppm = brackets / third.tsc.wrapping_sub(second.tsc) as f64 * 1e6;
    ((later / earlier - 1.0) * 1e6).abs() <= SETTLED_PPM + error_ppm
}

/// The rate of the time-stamp counter and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct TscRate {
    /// Cycles in a second.
    pub hz: f64,
    /// A sentence for the result.
    pub source: String,
}

impl TscRate {
    /// Measures the rate from `since` until now. The longer ago that is, the more exact.
    pub fn since(since: &ClockReading) -> Self {
        let now = read_clocks();
        let elapsed_s = (now.monotonic_raw_ns - since.monotonic_raw_ns) as f64 * 1e-9;
        Self {
            hz: now.tsc.wrapping_sub(since.tsc) as f64 / elapsed_s,
            source: format!("measured against CLOCK_MONOTONIC_RAW over {elapsed_s:.3} s"),
        }
    }

    pub fn to_ns(&self, cycles: u64) -> f64 {
        cycles as f64 * 1e9 / self.hz
    }

    /// The same in whole nanoseconds, for a timer: not longer.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "durations are positive and below 2^53 cycles"
    )]
    pub fn whole_ns(&self, cycles: u64) -> u64 {
        self.to_ns(cycles) as u64
    }

    /// Nanoseconds as cycles.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "durations are positive and below 2^53 cycles"
    )]
    pub fn to_cycles(&self, ns: u64) -> u64 {
        (ns as f64 * self.hz * 1e-9).round() as u64
    }

    /// Compares the counter with `CLOCK_MONOTONIC_RAW` over a stretch of time.
    pub fn check(&self, start: &ClockReading, end: &ClockReading) -> ClockCheck {
        let elapsed_s = end.monotonic_raw_ns.saturating_sub(start.monotonic_raw_ns) as f64 * 1e-9;
        let brackets_s = f64::midpoint(start.bracket_tsc as f64, end.bracket_tsc as f64) / self.hz;
        // A counter that went backwards shows as an enormous disagreement, not as a wrapped small one.
        let seen_s = (end.tsc as f64 - start.tsc as f64) / self.hz;
        ClockCheck {
            disagreement_ppm: (seen_s / elapsed_s - 1.0) * 1e6,
            error_ppm: brackets_s / elapsed_s * 1e6,
            limit_ppm: LIMIT_PPM,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn reading(tsc: u64, monotonic_raw_ns: u64) -> ClockReading {
        ClockReading { tsc, monotonic_raw_ns, monotonic_ns: monotonic_raw_ns, bracket_tsc: 100 }
    }

    #[test]
    fn a_counter_that_keeps_its_rate_agrees() {
        let rate = TscRate { hz: 2e9, source: String::new() };
        let check = rate.check(&reading(0, 0), &reading(2_000_000_000, 1_000_000_000));
        assert!(check.disagreement_ppm.abs() < 0.001, "{check:?}");
        assert!((check.error_ppm - 0.05).abs() < 0.001, "{check:?}");
    }

    #[test]
    fn a_counter_that_runs_fast_or_backwards_disagrees() {
        let rate = TscRate { hz: 2e9, source: String::new() };
        let fast = rate.check(&reading(0, 0), &reading(2_002_000_000, 1_000_000_000));
        assert!((fast.disagreement_ppm - 1000.0).abs() < 0.001, "{fast:?}");
        let backwards = rate.check(&reading(1_000_000_000, 0), &reading(0, 1_000_000_000));
        assert!(backwards.disagreement_ppm < -LIMIT_PPM, "{backwards:?}");
    }

    #[test]
    fn both_clocks_of_the_kernel_are_read_inside_the_bracket() {
        let reads = Cell::new(0);
        let next = || reads.replace(reads.get() + 1);
        let reading = narrowest(next, |_| next());
        let bracket = reading.tsc - reading.bracket_tsc / 2..reading.tsc + reading.bracket_tsc.div_ceil(2);
        assert!(bracket.contains(&reading.monotonic_raw_ns), "{reading:?}");
        assert!(bracket.contains(&reading.monotonic_ns), "{reading:?}");
    }

    #[test]
    fn a_reading_over_which_the_counter_went_backwards_is_not_the_narrowest() {
        let counts = [5000, 4000, 6000, 6900];
        let mut reads = counts.into_iter().chain((0..).map(|number| 10_000 + 1000 * number));
        let reading = narrowest(|| reads.next().unwrap(), |_| 0);
        assert_eq!((reading.tsc, reading.bracket_tsc), (6450, 900));
    }

    #[test]
    fn readings_go_forward_and_the_rate_is_plausible() {
        let first = Settling::begin().wait();
        let rate = TscRate::since(&first);
        assert!(rate.hz > 1e8 && rate.hz < 1e10, "{rate:?}");
        assert!(read_clocks().tsc > first.tsc);
    }

    #[test]
    fn a_clock_source_that_will_be_replaced_is_waited_for() {
        let names = std::cell::RefCell::new(["tsc-early\n", "tsc-early\n", "tsc\n"].into_iter());
        assert!(wait_for_clock_source(|| names.borrow_mut().next().unwrap().to_owned()));
        assert_eq!(names.borrow().len(), 0);
        for lasting in ["tsc\n", "acpi_pm\n", "kvm-clock\n", ""] {
            assert!(!wait_for_clock_source(|| lasting.to_owned()));
        }
    }

    #[test]
    fn a_clock_that_was_changed_between_two_readings_is_not_in_step() {
        let steady = [reading(0, 0), reading(100_000_000, 50_000_000), reading(200_000_000, 100_000_000)];
        assert!(in_step(&steady));
        // The first stretch gained 0.1 ms when the kernel changed its clock source.
        let changed = [reading(0, 0), reading(100_000_000, 50_100_000), reading(200_000_000, 100_100_000)];
        assert!(!in_step(&changed));
    }

    #[test]
    fn cycles_and_nanoseconds_are_converted_both_ways() {
        let rate = TscRate { hz: 2.5e9, source: String::new() };
        assert_eq!(rate.to_cycles(68_000), 170_000);
        assert!((rate.to_ns(170_000) - 68_000.0).abs() < 1e-6);
    }
}
