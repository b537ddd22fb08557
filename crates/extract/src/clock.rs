//! Cycles and nanoseconds.

use crate::error::ExtractError;

/// A straight line between the time-stamp counter and `CLOCK_MONOTONIC`, through two readings of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    tsc: u64,
    monotonic_ns: u64,
    ns_a_cycle: f64,
}

impl Clock {
    /// From `(tsc, monotonic_ns)` at the beginning and the end of a trace.
    pub fn through(first: (u64, u64), second: (u64, u64)) -> Result<Self, ExtractError> {
        if second.0 <= first.0 || second.1 <= first.1 {
            return Err(ExtractError::Clock);
        }
        let ns_a_cycle = (second.1 - first.1) as f64 / (second.0 - first.0) as f64;
        Ok(Self { tsc: first.0, monotonic_ns: first.1, ns_a_cycle })
    }

    /// `CLOCK_MONOTONIC` at a count; before the first reading, too.
    pub fn monotonic_ns(&self, tsc: u64) -> i64 {
        let since = if tsc >= self.tsc { (tsc - self.tsc) as f64 } else { -((self.tsc - tsc) as f64) };
        self.monotonic_ns.cast_signed() + whole(since * self.ns_a_cycle)
    }

    pub fn ns(&self, cycles: u64) -> u64 {
        whole(cycles as f64 * self.ns_a_cycle).unsigned_abs()
    }

    pub fn cycles(&self, ns: u64) -> u64 {
        whole(ns as f64 / self.ns_a_cycle).unsigned_abs()
    }
}

/// Rounded; far from the ends of what 64 bits hold, as all times of a trace are.
#[expect(clippy::cast_possible_truncation, reason = "a trace is shorter than 292 years, and `as` saturates")]
pub fn whole(value: f64) -> i64 {
    value.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_are_on_one_line() {
        let clock = Clock::through((1000, 500), (3000, 1500)).unwrap();
        assert_eq!(clock.monotonic_ns(2000), 1000);
        assert_eq!(clock.monotonic_ns(0), 0);
        assert_eq!((clock.ns(10), clock.cycles(5)), (5, 10));
        assert_eq!(Clock::through((5, 5), (5, 9)), Err(ExtractError::Clock));
    }
}
