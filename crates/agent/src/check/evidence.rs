//! What the samples of one CPU say.

use serde::Serialize;
use stealtime_probe::recorder::Recorder;

use crate::check::judge::Levels;

/// What a whole series has.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    pub samples: u64,
    pub interval_ns: u64,
    pub levels: Levels,
    /// When the thread was told to begin, in ns of `CLOCK_MONOTONIC`: one that does not is late since then.
    pub begun_ns: u64,
}

/// A wake-up that was late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// When it should have been, in ns of `CLOCK_MONOTONIC`.
    pub due_ns: u64,
    pub late_ns: u64,
}

impl Late {
    fn end_ns(self) -> u64 {
        self.due_ns.saturating_add(self.late_ns)
    }

    /// Whether most of this time is also that of another.
    pub fn is_mostly(self, other: Self) -> bool {
        let common = self.end_ns().min(other.end_ns()).saturating_sub(self.due_ns.max(other.due_ns));
        common > self.late_ns / 2
    }
}

/// The samples of one CPU in figures.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Series {
    pub samples: u64,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    /// How many were over each level.
    pub over_warning: u64,
    pub over_bar: u64,
    /// The thread on this CPU did not come back until the end.
    pub is_silent: bool,
    #[serde(skip)]
    pub latest: Option<Late>,
}

impl Series {
    /// Reads what was recorded until `end_ns`.
    pub fn of(recorder: &Recorder, expected: Expected, end_ns: u64) -> Self {
        let mut durations = recorder.copy(0..recorder.len()).durations;
        let (long, _, _) = recorder.saturated();
        let due_ns = |index: u64| Self::origin_ns(recorder, expected) + index * expected.interval_ns;
        // The first of several that are equally late.
        let short = (0_u64..).zip(&durations).map(|(index, &late_ns)| (index, u64::from(late_ns)));
        let all = short.chain(long.iter().copied()).map(|(index, late_ns)| Late { due_ns: due_ns(index), late_ns });
        let begun = Self::late_start(recorder, expected);
        let mut latest = begun.into_iter().chain(all).fold(None, |latest: Option<Late>, one| match latest {
            Some(known) if known.late_ns >= one.late_ns => latest,
            _ => Some(one),
        });
        let waits_ns = Self::waiting_ns(recorder, expected, end_ns);
        let is_silent = waits_ns > expected.interval_ns.max(expected.levels.critical_ns);
        let over = |level_ns: u64| durations.iter().filter(|&&late_ns| u64::from(late_ns) > level_ns).count() as u64;
        let (mut over_warning, mut over_bar) = (over(expected.levels.warning_ns), over(expected.levels.critical_ns));
        if is_silent {
            over_warning += 1;
            over_bar += 1;
            if latest.is_none_or(|latest| latest.late_ns < waits_ns) {
                latest = Some(Late { due_ns: due_ns(durations.len() as u64), late_ns: waits_ns });
            }
        }
        let samples = durations.len() as u64;
        durations.sort_unstable();
        let percentile = |percent: usize| {
            // The nearest rank: the smallest that so many percent do not exceed.
            let rank = (durations.len() * percent).div_ceil(100).max(1) - 1;
            durations.get(rank).map(|&late_ns| u64::from(late_ns))
        };
        Self { samples, p50_ns: percentile(50), p99_ns: percentile(99), over_warning, over_bar, is_silent, latest }
    }

    /// How long a thread has been late for the sample that comes next; 0 if it is not due, or none comes.
    pub fn waiting_ns(recorder: &Recorder, expected: Expected, now_ns: u64) -> u64 {
        if recorder.is_stopped() || recorder.len() as u64 >= expected.samples {
            return 0;
        }
        let due_ns = Self::origin_ns(recorder, expected) + recorder.len() as u64 * expected.interval_ns;
        now_ns.saturating_sub(due_ns)
    }

    /// How late the thread began; nothing of one that has not.
    pub fn late_start(recorder: &Recorder, expected: Expected) -> Option<Late> {
        // Its first sample is due an interval after it looked at the clock.
        let began_ns = recorder.origin().checked_sub(expected.interval_ns)?;
        Some(Late { due_ns: expected.begun_ns, late_ns: began_ns.saturating_sub(expected.begun_ns) })
    }

    fn origin_ns(recorder: &Recorder, expected: Expected) -> u64 {
        if recorder.origin() == 0 { expected.begun_ns } else { recorder.origin() }
    }
}

#[cfg(test)]
mod tests {
    use stealtime_probe::clock::SampleClock;

    use super::*;

    const EXPECTED: Expected = Expected {
        samples: 4,
        interval_ns: 1_000,
        levels: Levels { warning_ns: 50, critical_ns: 100 },
        begun_ns: 9_000,
    };

    fn recorded(late_ns: &[u64]) -> Recorder {
        let recorder = Recorder::new(4, false, 10_000_000_000, SampleClock::Monotonic).unwrap();
        recorder.start(10_000, 14_000);
        for (index, &one) in late_ns.iter().enumerate() {
            recorder.write(index, one);
        }
        recorder
    }

    #[test]
    fn the_latest_is_known_with_its_time_also_beyond_32_bits() {
        let series = Series::of(&recorded(&[7, 60, 200, 200]), EXPECTED, 20_000);
        assert_eq!(series.latest, Some(Late { due_ns: 12_000, late_ns: 200 }), "the first of two");
        assert_eq!((series.samples, series.over_warning, series.over_bar, series.is_silent), (4, 3, 2, false));
        assert_eq!((series.p50_ns, series.p99_ns), (Some(60), Some(200)));
        let long = Series::of(&recorded(&[7, 1 << 40, 5, 5]), EXPECTED, 20_000);
        assert_eq!(long.latest, Some(Late { due_ns: 11_000, late_ns: 1 << 40 }));
        assert_eq!(long.over_bar, 1);
    }

    #[test]
    fn a_thread_that_does_not_come_back_is_late_until_now() {
        let series = Series::of(&recorded(&[7]), EXPECTED, 20_000);
        assert_eq!(series.latest, Some(Late { due_ns: 11_000, late_ns: 9_000 }));
        assert!(series.is_silent);
        let recorder = recorded(&[7]);
        recorder.stop();
        assert!(!Series::of(&recorder, EXPECTED, 20_000).is_silent, "it was told to stop");
    }

    #[test]
    fn a_thread_that_does_not_even_begin_is_late_since_it_was_told_to() {
        let recorder = Recorder::new(4, false, 10_000_000_000, SampleClock::Monotonic).unwrap();
        recorder.start(9_000 + 1_000 + 5_000, 20_000);
        let begun = Series::late_start(&recorder, EXPECTED);
        assert_eq!(begun, Some(Late { due_ns: 9_000, late_ns: 5_000 }));
        let recorder = Recorder::new(4, false, 10_000_000_000, SampleClock::Monotonic).unwrap();
        let series = Series::of(&recorder, EXPECTED, 29_000);
        assert_eq!(series.latest, Some(Late { due_ns: 9_000, late_ns: 20_000 }));
        assert!(series.is_silent && series.samples == 0);
    }

    #[test]
    fn what_happens_at_the_same_time_is_told_from_what_does_not() {
        let late = |due_ns, late_ns| Late { due_ns, late_ns };
        assert!(late(100, 50).is_mostly(late(110, 200)));
        assert!(!late(100, 50).is_mostly(late(140, 200)));
        assert!(!late(100, 50).is_mostly(late(10, 20)));
    }
}
