//! What one way of asking has seen: numbered probes, when their answers came, and every time without an answer.
//!
//! Sans-IO: it is told times and never looks at a clock. What its silences mean is for [`super::judging`].

use hdrhistogram::Histogram;

use crate::blackout::bits::Bits;
use crate::blackout::pace::{Pause, Turn};
use crate::kept::Kept;
use crate::silence::{Silence, Silences};

/// Silences, pauses and probes out of order of which more is kept than a count.
const MOST_KEPT: usize = 100_000;

/// Of as many probes it is known when they were really sent.
const RECENT: usize = 4096;

/// A silence shorter than this many intervals is not even looked at: two answers of an even path are one apart.
pub const LEAST_INTERVALS: u64 = 3;

/// A long silence, and the probes that were sent in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbedSilence {
    pub silence: Silence,
    /// When the first probe after those that were answered was really sent: whatever took its answer away was there
    /// when that was due.
    pub first_sent_ns: u64,
    /// It did not end before: when the last probe was really sent that its first answer overtook, or when that answer
    /// came, if that was held.
    pub lasted_until_ns: u64,
    /// The probes that were sent and due in it: from one to before another.
    pub first: u64,
    pub end: u64,
}

/// What was seen so far.
#[derive(Debug, Clone)]
pub struct Line {
    pub interval_ns: u64,
    start_ns: u64,
    sent: Bits,
    answered: Bits,
    recent: Vec<u64>,
    /// The first probe that was answered; those before it do not count.
    first: Option<u64>,
    last: Option<u64>,
    highest: Option<u64>,
    pub unsent: u64,
    pub missed: u64,
    pub duplicated: Kept<u64, MOST_KEPT>,
    pub reordered: Kept<u64, MOST_KEPT>,
    /// From sending to the first answer.
    pub trips: Histogram<u64>,
    /// The least of them to the nanosecond: bounds of blackouts rest on it, and a histogram keeps three digits.
    fastest_ns: Option<u64>,
    /// By how much one answer came later after the one before than an interval, where they did not come together.
    pub excess: Histogram<u64>,
    pub silences: Silences,
    pub long_silences: Kept<ProbedSilence, MOST_KEPT>,
    pub pauses: Kept<Pause, MOST_KEPT>,
    pub longest_pause_ns: u64,
}

impl Line {
    pub fn new(start_ns: u64, interval_ns: u64) -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self {
            interval_ns,
            start_ns,
            sent: Bits::default(),
            answered: Bits::default(),
            recent: vec![0; RECENT],
            first: None,
            last: None,
            highest: None,
            unsent: 0,
            missed: 0,
            duplicated: Kept::default(),
            reordered: Kept::default(),
            trips: Histogram::new(3)?,
            fastest_ns: None,
            excess: Histogram::new(3)?,
            silences: Silences::new(LEAST_INTERVALS * interval_ns),
            long_silences: Kept::default(),
            pauses: Kept::default(),
            longest_pause_ns: 0,
        })
    }

    /// It is a probe's turn: it is sent now, or the kernel does not take it.
    pub fn sent(&mut self, turn: &Turn, now_ns: u64, is_taken: bool) {
        if self.first.is_some() {
            self.missed += turn.missed;
            if let Some(pause) = turn.pause {
                self.longest_pause_ns = self.longest_pause_ns.max(pause.to_ns - pause.from_ns);
                self.pauses.add(pause);
            }
            self.unsent += u64::from(!is_taken);
        }
        // What the kernel refuses, no client could have sent: nothing is answered all the same.
        self.sent.add(turn.number);
        self.recent[recent(turn.number)] = now_ns;
        self.last = Some(turn.number);
    }

    /// A probe was answered.
    pub fn answered(&mut self, number: u64, at_ns: u64) {
        let last = self.last.unwrap_or(0);
        if !self.sent.has(number) || number > last {
            return;
        }
        let first = *self.first.get_or_insert(number);
        if number < first {
            return;
        }
        if !self.answered.add(number) {
            self.duplicated.add(number);
            return;
        }
        if self.highest > Some(number) {
            self.reordered.add(number);
        }
        // Those that come together, after a silence or because the path lets them out so, are one.
        if let Some(silent_ns) = self.silences.current_ns(at_ns).filter(|&ns| ns >= self.interval_ns / 2) {
            let _ = self.excess.record(silent_ns.saturating_sub(self.interval_ns));
        }
        if let Some(silence) = self.silences.answered(at_ns) {
            self.keep(silence, Some(number));
        }
        self.highest = self.highest.max(Some(number));
        // They grow with what they hold, and refuse only what no 64 bits hold.
        let trip_ns = at_ns.saturating_sub(self.sent_ns(number));
        let _ = self.trips.record(trip_ns);
        self.fastest_ns = Some(self.fastest_ns.map_or(trip_ns, |fastest_ns| fastest_ns.min(trip_ns)));
    }

    /// Nothing more is waited for: what is silent since its last answer is so until now.
    pub fn finish(&mut self, now_ns: u64) {
        if let Some(silence) = self.silences.finish(now_ns) {
            self.keep(silence, None);
        }
    }

    /// Keeps a long silence; at its end this probe was answered, if one was.
    fn keep(&mut self, silence: Silence, answered: Option<u64>) {
        let first = self.highest.map_or(0, |highest| highest + 1);
        let end = silence.to_ns.saturating_sub(self.start_ns).div_ceil(self.interval_ns);
        self.long_silences.add(ProbedSilence {
            silence,
            first_sent_ns: self.first_sent(first).map_or(silence.to_ns, |number| self.sent_ns(number)),
            lasted_until_ns: self.lasted_until_ns(first, silence.to_ns, answered),
            first,
            end: end.max(first),
        });
    }

    fn lasted_until_ns(&self, first: u64, to_ns: u64, answered: Option<u64>) -> u64 {
        let usual_ns = self.interval_ns + self.fastest_ns();
        let is_held = |number| to_ns.saturating_sub(self.sent_ns(number)) > usual_ns;
        if answered.is_some_and(is_held) {
            return to_ns;
        }
        let end = answered.or(self.last.map(|last| last + 1)).unwrap_or(first);
        let overtaken = (first..end).rev().find(|&number| self.sent.has(number));
        overtaken.map_or(to_ns, |number| self.sent_ns(number))
    }

    /// The first probe of this number or a later one that was sent.
    fn first_sent(&self, first: u64) -> Option<u64> {
        (first..=self.last?).find(|&number| self.sent.has(number))
    }

    /// When a probe was really sent, or was due if that is long ago.
    fn sent_ns(&self, number: u64) -> u64 {
        let is_recent = self.last.is_some_and(|last| last.saturating_sub(number) < RECENT as u64);
        if is_recent { self.recent[recent(number)] } else { self.due_ns(number) }
    }

    /// The fastest round trip: one that waits for others, as in held output, is not the path's.
    pub fn fastest_ns(&self) -> u64 {
        self.fastest_ns.unwrap_or(0)
    }

    /// The first probe that counts.
    pub fn first(&self) -> u64 {
        self.first.unwrap_or(0)
    }

    /// Whether it was ever answered.
    pub fn has_begun(&self) -> bool {
        self.first.is_some()
    }

    /// Probes that count: from the first one on that was answered.
    pub fn count_sent(&self) -> u64 {
        self.first.map_or(0, |first| self.sent_within(first, u64::MAX))
    }

    pub fn count_answered(&self) -> u64 {
        self.trips.len()
    }

    pub fn sent_within(&self, first: u64, end: u64) -> u64 {
        self.count(first, end, |number| self.sent.has(number))
    }

    /// Sent and never answered.
    pub fn lost_within(&self, first: u64, end: u64) -> u64 {
        self.count(first, end, |number| self.sent.has(number) && !self.answered.has(number))
    }

    fn count(&self, first: u64, end: u64, is_one: impl Fn(u64) -> bool) -> u64 {
        let end = self.last.map_or(0, |last| end.min(last + 1));
        (first..end).filter(|&number| is_one(number)).count() as u64
    }

    fn due_ns(&self, number: u64) -> u64 {
        self.start_ns + number * self.interval_ns
    }
}

fn recent(number: u64) -> usize {
    // Below RECENT, whatever the number.
    usize::try_from(number % RECENT as u64).unwrap_or(0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::blackout::pace::Pace;

    /// A line of a millisecond, of which each probe is answered so many nanoseconds after it was due, or never.
    pub fn line_of(probes: u64, trip_ns: impl Fn(u64) -> Option<u64>) -> Line {
        late_line_of(probes, |_| 0, trip_ns)
    }

    /// The same, of which each probe is sent so much later than due; its answer counts from then on.
    pub fn late_line_of(probes: u64, late_ns: impl Fn(u64) -> u64, trip_ns: impl Fn(u64) -> Option<u64>) -> Line {
        let mut line = Line::new(0, 1_000_000).unwrap();
        let mut pace = Pace::new(0, 1_000_000);
        let mut answers: Vec<(u64, u64)> = Vec::new();
        for number in 0..probes {
            let turn = pace.take(number * 1_000_000).unwrap();
            let sent_ns = turn.due_ns + late_ns(number);
            line.sent(&turn, sent_ns, true);
            answers.extend(trip_ns(number).map(|trip_ns| (sent_ns + trip_ns, number)));
        }
        answers.sort_unstable();
        for (at_ns, number) in answers {
            line.answered(number, at_ns);
        }
        line
    }

    #[test]
    fn what_is_never_answered_is_lost_and_the_silence_is_from_answer_to_answer() {
        let line = line_of(100, |number| (!(40..60).contains(&number)).then_some(200_000));
        let silence = ProbedSilence {
            silence: Silence { from_ns: 39_200_000, to_ns: 60_200_000, ended: true },
            first_sent_ns: 40_000_000,
            lasted_until_ns: 59_000_000,
            first: 40,
            end: 61,
        };
        assert_eq!(line.long_silences.items, [silence]);
        assert_eq!((line.count_sent(), line.count_answered()), (100, 80));
        assert_eq!((line.sent_within(40, 61), line.lost_within(40, 61), line.lost_within(0, u64::MAX)), (21, 20, 20));
        assert_eq!((line.reordered.count, line.duplicated.count, line.silences.longest_ns), (0, 0, 21_000_000));
    }

    #[test]
    fn what_is_held_is_silent_but_not_lost() {
        let line = line_of(100, |number| Some(if (40..60).contains(&number) { (60 - number) * 1_000_000 } else { 0 }));
        assert_eq!(line.long_silences.items.len(), 1);
        assert_eq!(line.lost_within(0, u64::MAX), 0);
        let silence = line.long_silences.items[0];
        assert_eq!((silence.silence.from_ns, silence.silence.to_ns), (39_000_000, 60_000_000));
        assert_eq!((silence.first_sent_ns, silence.lasted_until_ns), (40_000_000, 60_000_000));
    }

    #[test]
    fn copies_and_overtaken_answers_are_counted_where_they_were() {
        let mut line = line_of(100, |number| Some(if number == 50 { 1_500_000 } else { 0 }));
        line.answered(70, 99_000_000);
        assert_eq!((line.reordered.within(50, 51), line.reordered.count), (1, 1));
        assert_eq!((line.duplicated.within(70, 71), line.duplicated.within(0, 70)), (1, 0));
        assert_eq!(line.lost_within(0, u64::MAX), 0);
    }

    #[test]
    fn nothing_counts_before_the_first_answer_and_silence_at_the_end_has_not_ended() {
        let mut line = line_of(100, |number| (20..80).contains(&number).then_some(0));
        assert_eq!((line.count_sent(), line.long_silences.count), (80, 0));
        line.finish(100_000_000);
        let silence = ProbedSilence {
            silence: Silence { from_ns: 79_000_000, to_ns: 100_000_000, ended: false },
            first_sent_ns: 80_000_000,
            lasted_until_ns: 99_000_000,
            first: 80,
            end: 100,
        };
        assert_eq!(line.long_silences.items, [silence]);
        assert_eq!(line.lost_within(silence.first, silence.end), 20);
    }

    #[test]
    fn answers_to_what_was_never_asked_are_nobodys() {
        let mut line = line_of(10, |_| Some(0));
        line.answered(10, 10_000_000);
        line.answered(u64::MAX, 10_000_000);
        assert_eq!(line.count_answered(), 10);
    }

    #[test]
    fn the_longest_silences_of_a_bad_path_are_bounded_in_memory() {
        let probes = 4 * (MOST_KEPT as u64 + 50);
        let line = line_of(probes, |number| number.is_multiple_of(4).then_some(0));
        assert_eq!((line.long_silences.items.len(), line.long_silences.left_out()), (MOST_KEPT, 49));
    }
}
