//! The moment at which a clock of whole seconds goes from one to the next, found by few readings.

use std::time::Duration;

use stealtime_probe::clock::monotonic_raw_ns;
use thiserror::Error;

use super::servo::Edge;

/// How long to sleep between readings while the edge is near.
const NEAR: Duration = Duration::from_millis(1);

/// How long before the expected moment readings begin, at least.
const MARGIN_NS: u64 = 3_000_000;

/// A moment that is known no better than this is no measurement: the machine stood still meanwhile.
const WIDEST_NS: u64 = 25_000_000;

/// More moments in a row that are too wide than an overloaded host gives.
const WIDE_IN_A_ROW: u32 = 30;

const SECOND_NS: u64 = 1_000_000_000;

/// An edge comes each second; under a guest that hardly runs, each second of the host.
const LONGEST_WAIT_NS: u64 = 3 * SECOND_NS;

/// The clock cannot be used.
#[derive(Debug, Error)]
pub enum EdgeError {
    #[error("the real-time clock shows {second} and does not go on")]
    Stands { second: u64 },
    #[error("the machine hardly runs: the real-time clock's next second is found to {} ms only", width_ns / 1_000_000)]
    TooWide {
        /// How well it was found.
        width_ns: u64,
    },
}

/// A clock of whole seconds as it was read, between two times of `CLOCK_MONOTONIC_RAW`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Before it was read.
    pub before_ns: u64,
    pub second: u64,
    pub after_ns: u64,
}

/// Finds one edge after the other.
#[derive(Debug)]
pub struct EdgeFinder {
    last: Option<Edge>,
    /// From the last edge to the next, as the one before took.
    interval_ns: u64,
    margin_ns: u64,
    now: fn() -> u64,
}

impl EdgeFinder {
    pub fn new() -> Self {
        Self { last: None, interval_ns: SECOND_NS, margin_ns: MARGIN_NS, now: monotonic_raw_ns }
    }

    /// Wait for the next edge: sleep until it is near, then read until it has come.
    pub fn next<Refused: From<EdgeError>>(
        &mut self,
        read: &mut impl FnMut() -> Result<Reading, Refused>,
        sleep: &mut impl FnMut(Duration),
    ) -> Result<Edge, Refused> {
        for _ in 0..WIDE_IN_A_ROW {
            if let Some(last) = self.last {
                let near_ns = (last.raw_ns + self.interval_ns).saturating_sub(self.margin_ns);
                sleep(Duration::from_nanos(near_ns.saturating_sub((self.now)())));
            }
            let (edge, width_ns) = Self::await_edge(read, sleep)?;
            let before = self.last.replace(edge);
            if width_ns > WIDEST_NS {
                continue;
            }
            if let Some(before) = before.filter(|before| edge.second > before.second) {
                // More than one second, if one came earlier than it was expected.
                let interval_ns = (edge.raw_ns - before.raw_ns) / (edge.second - before.second);
                let surprise_ns = interval_ns.abs_diff(self.interval_ns);
                self.margin_ns = (MARGIN_NS + 2 * surprise_ns).min(SECOND_NS / 2);
                self.interval_ns = interval_ns.clamp(SECOND_NS / 2, SECOND_NS * 2);
            }
            return Ok(edge);
        }
        Err(EdgeError::TooWide { width_ns: WIDEST_NS }.into())
    }

    fn await_edge<Refused: From<EdgeError>>(
        read: &mut impl FnMut() -> Result<Reading, Refused>,
        sleep: &mut impl FnMut(Duration),
    ) -> Result<(Edge, u64), Refused> {
        let first = read()?;
        let mut last = first;
        while last.after_ns < first.before_ns + LONGEST_WAIT_NS {
            sleep(NEAR);
            let next = read()?;
            if next.second != last.second {
                let width_ns = next.after_ns - last.before_ns;
                return Ok((Edge { raw_ns: last.before_ns + width_ns / 2, second: next.second }, width_ns));
            }
            last = next;
        }
        Err(EdgeError::Stands { second: last.second }.into())
    }
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unnecessary_wraps,
    reason = "made-up times are small"
)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// What the machine under test counts: slower than the second's clock by the share `LOST`.
        static RAW_NS: Cell<u64> = const { Cell::new(0) };
    }

    const LOST: f64 = 0.058;

    /// The time of the second's clock.
    fn true_ns() -> u64 {
        (RAW_NS.get() as f64 / (1.0 - LOST)) as u64
    }

    fn read() -> Result<Reading, EdgeError> {
        let before_ns = RAW_NS.get();
        let second = true_ns() / SECOND_NS;
        RAW_NS.set(before_ns + 50_000);
        Ok(Reading { before_ns, second, after_ns: RAW_NS.get() })
    }

    fn sleep(time: Duration) {
        RAW_NS.set(RAW_NS.get() + u64::try_from(time.as_nanos()).unwrap() + 60_000);
    }

    fn finder() -> EdgeFinder {
        EdgeFinder { now: || RAW_NS.get(), ..EdgeFinder::new() }
    }

    #[test]
    fn each_second_is_found_to_a_millisecond_with_few_readings() {
        RAW_NS.set(123_456_789);
        let mut finder = finder();
        let (mut readings, mut first, mut last) = (0, 0, 0);
        for number in 1..=20 {
            let mut counted = || {
                readings += 1;
                read()
            };
            let edge = finder.next(&mut counted, &mut sleep).unwrap();
            let truth_ns = (edge.second * SECOND_NS) as f64 * (1.0 - LOST);
            assert!((edge.raw_ns as f64 - truth_ns).abs() < 1e6, "{edge:?}");
            if number == 5 {
                (first, readings) = (edge.second, 0);
            }
            last = edge.second;
        }
        assert_eq!(last, first + 15, "one was missed");
        assert!(readings < 15 * 12, "{readings} readings for 15 seconds");
    }

    #[test]
    fn what_comes_too_early_is_found_again() {
        RAW_NS.set(0);
        let mut finder = finder();
        for _ in 0..3 {
            finder.next(&mut read, &mut sleep).unwrap();
        }
        // As at a failover: the machine stood for a third of a second, and does not know.
        let ahead_ns = 333_000_000;
        let mut later = || {
            let reading = read()?;
            let shown_ns = (reading.before_ns as f64 / (1.0 - LOST)) as u64 + ahead_ns;
            Ok::<_, EdgeError>(Reading { second: shown_ns / SECOND_NS, ..reading })
        };
        let first = finder.next(&mut later, &mut sleep).unwrap();
        let second = finder.next(&mut later, &mut sleep).unwrap();
        for edge in [first, second] {
            let truth_ns = (edge.second * SECOND_NS - ahead_ns) as f64 * (1.0 - LOST);
            assert!((edge.raw_ns as f64 - truth_ns).abs() < 1e6, "{edge:?}");
        }
        assert_eq!(second.second, first.second + 1);
    }

    #[test]
    fn a_clock_that_stands_is_told() {
        RAW_NS.set(0);
        let mut standing = || Ok(Reading { second: 7, ..read()? });
        let refused = finder().next(&mut standing, &mut sleep).unwrap_err();
        assert!(matches!(refused, EdgeError::Stands { second: 7 }), "{refused}");
    }
}
