//! How often what a running guest wrote is copied in advance, before it is stopped for the first whole epoch.
//!
//! All memory is copied first; then, round after round, what was written during the round before. Rounds
//! become short where pages are shipped faster than they are written. The idea is that of live migration
//! (Clark et al., NSDI 2005). Where they do not, the guest is held back, more and more, as by QEMU's auto-converge.

use std::time::Duration;

/// So many pages, 2 MiB, are copied within a millisecond: not worth another round, however short the
/// interval.
const FEW_PAGES: u64 = 512;

/// A round that takes longer than this share of the shortest one so far brings the end no nearer.
const PROGRESS: f64 = 0.9;

/// So many of those in a row, and more rounds are of no use. One alone may be the host's fault.
const PATIENCE: u32 = 4;

/// The same for a guest that is held back: it comes to the end soon, or is held back more. The first round since then
/// holds what it wrote before.
const PROGRESS_HELD_BACK: f64 = 0.7;
const PATIENCE_HELD_BACK: u32 = 2;

/// What is to be done after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Again,
    /// The first whole epoch: it holds no more than each that follows.
    Epoch,
    /// Pages are written faster than they are shipped: a guest that is not held back, or more, comes no further.
    Stuck,
}

#[derive(Debug)]
pub struct Rounds {
    interval: Duration,
    /// What a round may take after which an epoch follows, where the guest is held back for it.
    enough: Option<Duration>,
    shortest: Option<Duration>,
    without_progress: u32,
    /// How many there were.
    pub count: u32,
}

impl Rounds {
    /// A series after which an epoch follows each `interval`.
    pub fn new(interval: Duration) -> Self {
        Self { interval, enough: None, shortest: None, without_progress: 0, count: 0 }
    }

    /// From now on the guest is held back, or more than before: its rounds are to take no longer than `enough`.
    pub fn hold_back(&mut self, enough: Duration) {
        self.enough = Some(enough.max(self.interval));
        self.without_progress = 0;
    }

    /// A round shipped `pages` and took so long: what was written meanwhile is left.
    pub fn took(&mut self, pages: u64, took: Duration) -> Next {
        self.count += 1;
        if pages <= FEW_PAGES || took <= self.enough.unwrap_or(self.interval) {
            return Next::Epoch;
        }
        let (progress, patience) = match self.enough {
            Some(_) => (PROGRESS_HELD_BACK, PATIENCE_HELD_BACK),
            None => (PROGRESS, PATIENCE),
        };
        let is_progress = self.shortest.is_none_or(|shortest| took < shortest.mul_f64(progress));
        self.without_progress = if is_progress { 0 } else { self.without_progress + 1 };
        self.shortest = Some(self.shortest.map_or(took, |shortest| shortest.min(took)));
        if self.without_progress < patience { Next::Again } else { Next::Stuck }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    /// Rounds of a guest that writes so many different pages in each second, at most `all`, over a link that
    /// takes so many.
    fn simulate(written_per_s: f64, shipped_per_s: f64, all: f64) -> (Next, u32, f64) {
        let mut rounds = Rounds::new(INTERVAL);
        let mut took_s = all / shipped_per_s;
        loop {
            let pages = (written_per_s * took_s).min(all);
            took_s = pages / shipped_per_s;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
            match rounds.took(pages as u64, Duration::from_secs_f64(took_s)) {
                Next::Again => {}
                next => return (next, rounds.count, (written_per_s * took_s).min(all)),
            }
        }
    }

    #[test]
    fn a_guest_that_writes_slower_than_the_link_ships_leaves_what_it_writes_in_an_interval() {
        for (written, shipped) in [(90_000.0, 300_000.0), (90_000.0, 110_000.0), (100.0, 1_000.0), (0.0, 1_000.0)] {
            let (next, count, left) = simulate(written, shipped, 262_144.0);
            assert_eq!(next, Next::Epoch, "{written} of {shipped}");
            assert!(
                left <= (written * INTERVAL.as_secs_f64()).max(512.0) + 1.0,
                "{written} of {shipped}: {left} after {count}"
            );
        }
    }

    #[test]
    fn a_guest_that_writes_faster_is_noticed_after_a_few_rounds() {
        for (written, shipped) in [(90_000.0, 80_000.0), (400_000.0, 80_000.0), (90_000.0, 90_000.0)] {
            let (next, count, _) = simulate(written, shipped, 262_144.0);
            assert_eq!((next, count), (Next::Stuck, PATIENCE + 1), "{written} of {shipped}");
        }
    }

    /// A guest that is held back after it wrote all: the share of the time for which it may run at last, how many
    /// rounds there were, and how long the last one took.
    fn hold_back(written_per_s: f64, shipped_per_s: f64, all: f64, enough: Duration) -> (f64, u32, Duration) {
        let mut rounds = Rounds::new(INTERVAL);
        rounds.hold_back(enough);
        let (mut share, mut pages) = (0.5, all);
        loop {
            let took_s = pages / shipped_per_s;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
            let next = rounds.took(pages as u64, Duration::from_secs_f64(took_s));
            pages = (written_per_s * share * took_s).min(all);
            match next {
                Next::Epoch => return (share, rounds.count, Duration::from_secs_f64(took_s)),
                Next::Stuck => {
                    share /= 2.0;
                    rounds.hold_back(enough);
                }
                Next::Again => {}
            }
            assert!(rounds.count < 50, "{share}, {pages} pages");
        }
    }

    #[test]
    fn a_guest_that_is_held_back_comes_to_short_rounds_and_runs_for_no_less_than_it_must() {
        let enough = Duration::from_millis(500);
        for (written, shipped) in [(90_000.0, 30_000.0), (90_000.0, 80_000.0), (400_000.0, 80_000.0)] {
            let (share, count, took) = hold_back(written, shipped, 179_200.0, enough);
            assert!(took <= enough && count <= 12, "{written} of {shipped}: {took:?} after {count}");
            assert!(share >= shipped / written / 4.0, "{written} of {shipped}: {share}");
        }
    }

    #[test]
    fn one_round_that_the_host_held_up_is_forgiven() {
        let mut rounds = Rounds::new(INTERVAL);
        let ms = Duration::from_millis;
        let nexts = [1000, 3000, 800, 900, 950, 700, 500, 90].map(|took| rounds.took(10_000, ms(took)));
        assert_eq!(nexts[..7], [Next::Again; 7]);
        assert_eq!(nexts[7], Next::Epoch);
    }
}
