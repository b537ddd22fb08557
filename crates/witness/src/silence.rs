//! Silences: the times from one answer to the next, as every witness sees them.
//!
//! Sans-IO: it is told times and never looks at a clock. Before the first answer there is no silence, since the other
//! side may still be booting; the last one goes on until nobody listens any more.

use serde::Serialize;
use stealtime_probe::clock::realtime_ns;

use crate::stamps::monotonic_ns;

/// The time from one answer to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// The last answer before it, by the client's `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// The first after it, or when nobody listened any more.
    pub to_ns: u64,
    pub ended: bool,
}

impl Silence {
    pub fn length_ns(&self) -> u64 {
        // Two stamps of the kernel may be brought over in the other order, by some hundred nanoseconds.
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// Finds the silences of one way of asking.
#[derive(Debug, Clone)]
#[expect(clippy::struct_field_names, reason = "each says its unit")]
pub struct Silences {
    threshold_ns: u64,
    last_answer_ns: Option<u64>,
    /// The longest of all, also where it was below the threshold.
    pub longest_ns: u64,
}

impl Silences {
    /// None yet; those that are longer than the threshold will be given.
    pub fn new(threshold_ns: u64) -> Self {
        Self { threshold_ns, last_answer_ns: None, longest_ns: 0 }
    }

    /// An answer came: gives the silence that it ended, if that was long.
    pub fn answered(&mut self, at_ns: u64) -> Option<Silence> {
        let silence = self.close(at_ns, true);
        self.last_answer_ns = self.last_answer_ns.max(Some(at_ns));
        silence
    }

    /// No more answers are waited for: gives the silence that has not ended, if it is long.
    pub fn finish(&mut self, now_ns: u64) -> Option<Silence> {
        self.close(now_ns, false)
    }

    /// How long no answer has come.
    pub fn current_ns(&self, now_ns: u64) -> Option<u64> {
        self.last_answer_ns.map(|last_ns| now_ns.saturating_sub(last_ns))
    }

    fn close(&mut self, to_ns: u64, ended: bool) -> Option<Silence> {
        let silence = Silence { from_ns: self.last_answer_ns?, to_ns, ended };
        self.longest_ns = self.longest_ns.max(silence.length_ns());
        (silence.length_ns() > self.threshold_ns).then_some(silence)
    }
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
        Self { monotonic_ns: monotonic_ns(), wall_ns: realtime_ns() }
    }

    /// Another moment, on the calendar by how the two clocks stood at this one.
    pub fn at(self, monotonic_ns: u64) -> Self {
        let wall_ns = self.wall_ns.wrapping_add(monotonic_ns.wrapping_sub(self.monotonic_ns));
        Self { monotonic_ns, wall_ns }
    }

    pub fn since_ns(self, earlier: Self) -> u64 {
        self.monotonic_ns.saturating_sub(earlier.monotonic_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_longer_than_the_threshold_is_given() {
        let mut silences = Silences::new(100);
        let given: Vec<Silence> = [5000, 5100, 5201, 5210].into_iter().filter_map(|at| silences.answered(at)).collect();
        assert_eq!(given, [Silence { from_ns: 5100, to_ns: 5201, ended: true }]);
        assert_eq!((given[0].length_ns(), silences.longest_ns), (101, 101));
        assert_eq!(silences.current_ns(5215), Some(5));
    }

    #[test]
    fn a_silence_that_never_ended_counts() {
        let mut silences = Silences::new(100);
        assert_eq!(silences.answered(1), None);
        assert_eq!(silences.finish(501), Some(Silence { from_ns: 1, to_ns: 501, ended: false }));
        assert_eq!(silences.longest_ns, 500);
    }

    #[test]
    fn waiting_for_the_first_answer_is_no_silence() {
        let mut silences = Silences::new(100);
        assert_eq!(silences.current_ns(7), None);
        assert_eq!(silences.finish(1_000_000), None);
        assert_eq!(silences.longest_ns, 0);
    }

    #[test]
    fn a_moment_is_placed_on_the_calendar_by_another() {
        let moment = Moment { monotonic_ns: 5_000, wall_ns: 1_005_000 };
        assert_eq!(moment.at(4_900), Moment { monotonic_ns: 4_900, wall_ns: 1_004_900 });
        assert_eq!((moment.at(5_100).wall_ns, moment.at(5_100).since_ns(moment)), (1_005_100, 100));
    }
}
