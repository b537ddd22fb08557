//! What one flow has seen so far. Its thread writes it, progress and report read it.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::counter::protocol::Answer;
use crate::counting::wire::Effort;
use crate::judge::Violation;
use crate::silence::{Moment, Silences};

/// More violations of a flow are only counted.
const MOST_KEPT: usize = 1000;

/// Over what a flow counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tcp,
    Udp,
}

/// A violation with its place.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    pub protocol: Protocol,
    pub client: String,
    /// When it was noticed.
    pub at: Moment,
    #[serde(flatten)]
    pub violation: Violation,
}

/// What one flow has seen.
#[derive(Debug, Clone)]
pub struct Record {
    /// Over what it counts.
    pub protocol: Protocol,
    /// Its id, as it stands in documents (a number of 64 bits is not safe in JSON).
    pub client: String,
    /// How often it asked for a next value.
    pub requests: u64,
    /// How often it was answered.
    pub acknowledged: u64,
    /// The last value it was told.
    pub last_value: u64,
    /// How many wrong pages the last answer spoke of.
    pub mismatches: u64,
    /// Copies and late answers.
    pub effort: Effort,
    /// Whether the connection is over; nothing that can happen to UDP.
    pub lost: bool,
    /// From the first copy of a request to its answer, in ns.
    pub round_trips: Histogram<u64>,
    /// When no answers came.
    pub silences: Silences,
    pub findings: Vec<Finding>,
    /// How many there were.
    pub violations: u64,
}

impl Record {
    /// Of a flow that has not begun.
    pub fn new(protocol: Protocol, client: u64, threshold_ns: u64, round_trips: Histogram<u64>) -> Self {
        Self {
            protocol,
            client: format!("{client:016x}"),
            requests: 0,
            acknowledged: 0,
            last_value: 0,
            mismatches: 0,
            effort: Effort::default(),
            lost: false,
            round_trips,
            silences: Silences::new(threshold_ns),
            findings: Vec::new(),
            violations: 0,
        }
    }

    /// Notes an answer and what is wrong with it.
    pub fn answered(&mut self, now: Moment, answer: &Answer, found: Vec<Violation>) {
        self.acknowledged += 1;
        self.last_value = answer.applied;
        self.mismatches = answer.mismatches;
        // Grows as needed; it refuses only what no 64 bits hold.
        let _ = self.round_trips.record(now.monotonic_ns.saturating_sub(answer.sent_ns));
        self.silences.answered(now);
        for violation in found {
            self.found(now, violation);
        }
    }

    /// Counts a violation, and keeps it if it is among the first.
    pub fn found(&mut self, at: Moment, violation: Violation) {
        self.violations += 1;
        if self.findings.len() < MOST_KEPT {
            let client = self.client.clone();
            self.findings.push(Finding { protocol: self.protocol, client, at, violation });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::right_answer;

    #[test]
    fn round_trips_of_any_length_are_kept_to_three_digits() {
        let mut record = Record::new(Protocol::Udp, 1, 100, Histogram::new(3).unwrap());
        let lengths_ns = [1_000_u64, 2_000_000, 3_000_000_000, 5_000_000_000_000];
        for length_ns in lengths_ns {
            let now = Moment { monotonic_ns: 7 + length_ns, wall_ns: 0 };
            record.answered(now, &Answer { sent_ns: 7, ..right_answer(1) }, Vec::new());
        }
        assert_eq!(record.round_trips.len(), 4);
        for (nth, length_ns) in (1_u32..).zip(lengths_ns) {
            let found = record.round_trips.value_at_quantile(f64::from(nth) / 4.0);
            assert!(found.abs_diff(length_ns) <= length_ns / 500, "{found} for {length_ns}");
        }
    }

    #[test]
    fn violations_are_counted_even_where_they_are_not_kept() {
        let mut record = Record::new(Protocol::Tcp, 1, 100, Histogram::new(3).unwrap());
        for value in 0..1500 {
            record.found(Moment { monotonic_ns: value, wall_ns: 0 }, Violation::Repeated { value });
        }
        assert_eq!((record.violations, record.findings.len()), (1500, MOST_KEPT));
    }
}
