//! Outages: intervals without answers.

use serde::Serialize;

/// More are not kept one by one; the longest and the number of all always are.
const MOST_KEPT: usize = 10_000;

/// The time from one answer to the next, where that was long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Silence {
    /// The last answer before it, by the client's `CLOCK_MONOTONIC`.
    pub start_monotonic_ns: u64,
    /// The same by `CLOCK_REALTIME`.
    pub start_wall_ns: u64,
    pub length_ns: u64,
    /// Whether an answer ended it; if not, it was still silent when the client stopped.
    pub ended: bool,
}

/// A flow's silences.
#[derive(Debug, Clone)]
pub struct Silences {
    threshold_ns: u64,
    last_answer: Option<Moment>,
    /// Those that were longer than the threshold.
    pub kept: Vec<Silence>,
    pub count: u64,
    /// The longest of all, also where it was below the threshold.
    pub longest_ns: u64,
}

/// A moment on both of the client's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// `CLOCK_MONOTONIC`
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`
    pub wall_ns: u64,
}

impl Moment {
    pub fn now() -> Self {
        use stealtime_probe::clock::{SampleClock, realtime_ns};
        Self { monotonic_ns: SampleClock::Monotonic.now(), wall_ns: realtime_ns() }
    }
}

impl Silences {
    /// None yet; what is longer than the threshold will be kept.
    pub fn new(threshold_ns: u64) -> Self {
        Self { threshold_ns, last_answer: None, kept: Vec::new(), count: 0, longest_ns: 0 }
    }

    /// An answer came. Before the first there is no silence: the counter may still be booting.
    pub fn answered(&mut self, now: Moment) {
        self.close(now, true);
        self.last_answer = Some(now);
    }

    /// No more answers are waited for.
    pub fn finish(&mut self, now: Moment) {
        self.close(now, false);
        self.last_answer = None;
    }

    /// How long no answer has come.
    pub fn current_ns(&self, now: Moment) -> Option<u64> {
        self.last_answer.map(|last| now.monotonic_ns.saturating_sub(last.monotonic_ns))
    }

    fn close(&mut self, now: Moment, ended: bool) {
        let Some(start) = self.last_answer else { return };
        let length_ns = now.monotonic_ns.saturating_sub(start.monotonic_ns);
        self.longest_ns = self.longest_ns.max(length_ns);
        if length_ns <= self.threshold_ns {
            return;
        }
        self.count += 1;
        if self.kept.len() < MOST_KEPT {
            self.kept.push(Silence {
                start_monotonic_ns: start.monotonic_ns,
                start_wall_ns: start.wall_ns,
                length_ns,
                ended,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic_ns: u64) -> Moment {
        Moment { monotonic_ns, wall_ns: monotonic_ns + 1_000_000 }
    }

    #[test]
    fn only_what_is_longer_than_the_threshold_is_kept() {
        let mut silences = Silences::new(100);
        for now in [5000, 5100, 5201, 5210] {
            silences.answered(at(now));
        }
        let kept = Silence { start_monotonic_ns: 5100, start_wall_ns: 1_005_100, length_ns: 101, ended: true };
        assert_eq!(silences.kept, [kept]);
        assert_eq!((silences.count, silences.longest_ns), (1, 101));
        assert_eq!(silences.current_ns(at(5215)), Some(5));
    }

    #[test]
    fn a_silence_that_never_ended_counts() {
        let mut silences = Silences::new(100);
        silences.answered(at(1));
        silences.finish(at(501));
        assert_eq!(silences.longest_ns, 500);
        assert!(!silences.kept[0].ended);
    }

    #[test]
    fn waiting_for_the_first_answer_is_no_silence() {
        let mut silences = Silences::new(100);
        assert_eq!(silences.current_ns(at(7)), None);
        silences.finish(at(1_000_000));
        assert_eq!((silences.count, silences.longest_ns), (0, 0));
    }
}
