//! What one flow has seen so far. Its thread writes it, progress and report read it.

use std::fmt;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::counter::protocol::Answer;
use crate::counting::wire::Effort;
use crate::judge::{MOST_VIOLATIONS, Violation};
use crate::kept::Kept;
use crate::silence::{Moment, Silence, Silences};

/// More outages of a flow are only counted.
const MOST_OUTAGES: usize = 10_000;

/// Over what a flow counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tcp,
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
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

/// A silence that was longer than is asked for, as documents tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Outage {
    /// The last answer before it.
    start_monotonic_ns: u64,
    start_wall_ns: u64,
    length_ns: u64,
    /// Whether an answer ended it; if not, it was still silent when the client stopped.
    ended: bool,
}

impl Outage {
    /// One that was over `now`, or not yet.
    fn of(silence: &Silence, now: Moment) -> Self {
        let start = now.at(silence.from_ns);
        Self {
            start_monotonic_ns: start.monotonic_ns,
            start_wall_ns: start.wall_ns,
            length_ns: silence.length_ns(),
            ended: silence.ended,
        }
    }
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
    pub outages: Kept<Outage, MOST_OUTAGES>,
    pub findings: Kept<Finding, MOST_VIOLATIONS>,
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
            outages: Kept::default(),
            findings: Kept::default(),
        }
    }

    /// Notes an answer and what is wrong with it.
    pub fn answered(&mut self, now: Moment, answer: &Answer, found: Vec<Violation>) {
        self.acknowledged += 1;
        self.last_value = answer.applied;
        self.mismatches = answer.mismatches;
        // Grows as needed; it refuses only what no 64 bits hold.
        let _ = self.round_trips.record(now.monotonic_ns.saturating_sub(answer.sent_ns));
        if let Some(silence) = self.silences.answered(now.monotonic_ns) {
            self.outages.add(Outage::of(&silence, now));
        }
        for violation in found {
            self.found(now, violation);
        }
    }

    /// Counts a violation, and keeps it if it is among the first.
    pub fn found(&mut self, at: Moment, violation: Violation) {
        self.findings.add(Finding { protocol: self.protocol, client: self.client.clone(), at, violation });
    }

    /// No more answers are waited for.
    pub fn finish(&mut self, now: Moment) {
        if let Some(silence) = self.silences.finish(now.monotonic_ns) {
            self.outages.add(Outage::of(&silence, now));
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
        assert_eq!((record.findings.count, record.findings.items.len()), (1500, MOST_VIOLATIONS));
    }

    #[test]
    fn an_outage_has_its_start_on_both_clocks() {
        let mut record = Record::new(Protocol::Udp, 1, 100, Histogram::new(3).unwrap());
        let at = |monotonic_ns| Moment { monotonic_ns, wall_ns: monotonic_ns + 1_000_000 };
        for now in [5000, 5100, 5201, 5210] {
            record.answered(at(now), &right_answer(1), Vec::new());
        }
        record.finish(at(6000));
        let ended = Outage { start_monotonic_ns: 5100, start_wall_ns: 1_005_100, length_ns: 101, ended: true };
        let lasting = Outage { start_monotonic_ns: 5210, start_wall_ns: 1_005_210, length_ns: 790, ended: false };
        assert_eq!((record.outages.items, record.outages.count), (vec![ended, lasting], 2));
    }
}
