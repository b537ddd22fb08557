//! How a guest is held back that writes more than its standby takes.
//!
//! Between two epochs it runs for at most [`RUNS`] intervals: then it stands until the standby has acknowledged so much
//! that the next epoch may be captured. So no epoch grows without limit, whatever the guest does and however slow the
//! link is. What it may run beyond the first interval is spread over the time that the last epochs took, in short
//! pieces, so that it does not stand for long at once.
//!
//! A guest that writes more than is shipped already while it is copied in advance runs for a share of the time only, in
//! short pieces, too. That is halved until rounds become short: what the guest sends meanwhile leaves at once, and what
//! it sends after its first epoch does not.

use std::time::Duration;

/// For so many intervals it runs between two epochs at the most.
const RUNS: f64 = 1.5;

/// A piece in which it runs and one in which it stands take so long together, or longer if the former would be too
/// short.
const SLICE: Duration = Duration::from_millis(20);

/// The least of both: what is shorter costs more than it gives, as QEMU is told twice.
const SHORTEST: Duration = Duration::from_millis(2);

/// Of the longest hold, what two epochs may take from one to the acknowledgement of the next.
const SHARE_OF_HOLD: f64 = 0.5;

/// The least that it runs between two epochs, of the interval.
const LEAST_RUN: f64 = 0.1;

/// The least that it runs while it is copied in advance, of the time. What carries no more than that of what the guest
/// writes is no link for it.
const LEAST_OF_COPY: f64 = 1.0 / 64.0;

/// The weight of the newest cycle in the moving average.
const NEWEST_WEIGHT: f64 = 0.5;

/// How much more it may run after each epoch that was acknowledged soon enough, and by how much more epochs may be on
/// their way where it may run for all its time.
const GROWTH: f64 = 1.1;
const DEEPER_TENTHS: u64 = 1;

/// What is to be done with the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Motion {
    Stand,
    Run,
}

/// How long a guest stood between two epochs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HeldBack {
    pub total: Duration,
    /// At once.
    pub longest: Duration,
}

/// Says when the guest stands and when it runs, while the next epoch is due and has no room.
#[derive(Debug)]
pub(super) struct Brake {
    longest_hold: Duration,
    /// Whether the guest stands for this.
    stands: bool,
    /// Since when it stands or runs.
    since: Duration,
    /// Since the last epoch, before `since`.
    ran: Duration,
    held_back: HeldBack,
    /// From one epoch to when there was room for the next, on average; none before the first that was late.
    cycle: Option<Duration>,
    /// When the last epoch let the guest go on.
    continued: Duration,
    /// Of [`RUNS`] intervals, what it may run.
    share: f64,
    /// How many epochs may be on their way now, and at the most.
    depth_tenths: u64,
    most: u64,
    /// When one of both was last reduced.
    reduced: Duration,
    /// For which share of the time it runs while it is copied in advance; none: it is not held back for that.
    of_copy: Option<f64>,
}

impl Brake {
    pub fn new(longest_hold: Duration, most_in_flight: u64) -> Self {
        let zero = Duration::ZERO;
        Self {
            longest_hold,
            stands: false,
            since: zero,
            ran: zero,
            held_back: HeldBack::default(),
            cycle: None,
            continued: zero,
            share: 1.0,
            depth_tenths: 10 * most_in_flight,
            most: most_in_flight,
            reduced: zero,
            of_copy: None,
        }
    }

    /// Whether the guest stands for this.
    pub fn stands(&self) -> bool {
        self.stands
    }

    /// How long an acknowledgement may take: output may have been sent right after the epoch before.
    pub fn longest_acknowledgement(&self) -> Duration {
        self.longest_hold.mul_f64(SHARE_OF_HOLD)
    }

    /// It is copied in advance, and writes more than is shipped: from now on it runs for half as much of the time as
    /// before. Tells whether; there is a least.
    pub fn slow_copy(&mut self, at: Duration) -> bool {
        let share = self.of_copy.unwrap_or(1.0) / 2.0;
        if share < LEAST_OF_COPY {
            return false;
        }
        if self.of_copy.replace(share).is_none() {
            self.since = at;
        }
        true
    }

    /// Whether it is held back while it is copied in advance.
    pub fn slows_copy(&self) -> bool {
        self.of_copy.is_some()
    }

    /// The copy in advance of a guest that writes more than is shipped is over, and the guest runs; its last round
    /// `took` so long. Gives how long it stood for that.
    pub fn copied(&mut self, took: Duration) -> Duration {
        let stood = self.held_back.total;
        // Each epoch takes as long, and more of them on their way would wait for each other.
        let depth = self.longest_acknowledgement().as_nanos() / took.as_nanos().max(1);
        let depth = u64::try_from(depth).unwrap_or(u64::MAX).clamp(1, self.most);
        *self = Self { cycle: Some(took), depth_tenths: 10 * depth, ..Self::new(self.longest_hold, self.most) };
        stood
    }

    /// An epoch was captured, and the guest goes on. Gives how long it had stood for this before, when it was
    /// told to stop for the epoch at `begin`.
    pub fn epoch(&mut self, begin: Duration, continued: Duration) -> HeldBack {
        if self.continued > Duration::ZERO {
            let took = begin.saturating_sub(self.continued);
            let average =
                self.cycle.map_or(took, |cycle| cycle.mul_f64(1.0 - NEWEST_WEIGHT) + took.mul_f64(NEWEST_WEIGHT));
            self.cycle = Some(average);
        }
        self.change(begin, Motion::Run);
        self.continued = continued;
        self.since = continued;
        self.ran = Duration::ZERO;
        std::mem::take(&mut self.held_back)
    }

    /// Nothing is captured any more: what comes next begins anew.
    pub fn rest(&mut self) {
        *self = Self::new(self.longest_hold, self.most);
    }

    /// An epoch that was captured at a moment is acknowledged at another one.
    ///
    /// What was on its way when less was allowed says nothing of that (as in TCP's congestion control, once for each
    /// window).
    pub fn acknowledged(&mut self, captured: Duration, at: Duration) {
        let (took, limit) = (at.saturating_sub(captured), self.longest_acknowledgement());
        if took <= limit {
            if self.share < 1.0 {
                self.share = (self.share * GROWTH).min(1.0);
            } else {
                self.depth_tenths = (self.depth_tenths + DEEPER_TENTHS).min(10 * self.most);
            }
        } else if captured >= self.reduced {
            self.reduced = at;
            if self.depth_tenths > 10 {
                self.depth_tenths = (self.depth_tenths / 2).max(10);
            } else {
                let factor = limit.as_secs_f64() / took.as_secs_f64();
                self.share = (self.share * factor.max(0.5)).max(LEAST_RUN / RUNS);
            }
        }
    }

    /// How many epochs may be on their way.
    pub fn depth(&self) -> u64 {
        self.depth_tenths / 10
    }

    /// When the guest is to stand or to run next, and which, if the next epoch has no room until then.
    pub fn next(&self, interval: Duration) -> (Duration, Motion) {
        if let Some(share) = self.of_copy {
            let run = SLICE.mul_f64(share).max(SHORTEST);
            let stand = run.mul_f64(1.0 / share - 1.0);
            return if self.stands { (self.since + stand, Motion::Run) } else { (self.since + run, Motion::Stand) };
        }
        let budget = interval.mul_f64(RUNS * self.share);
        let left = budget.saturating_sub(self.ran);
        let (first, run, stand) = self.pieces(interval, budget);
        match self.stands {
            true if left < SHORTEST => (Duration::MAX, Motion::Run),
            true => (self.since + stand, Motion::Run),
            false if self.ran < first => (self.since + first.saturating_sub(self.ran), Motion::Stand),
            false => (self.since + left.min(run), Motion::Stand),
        }
    }

    /// How long it runs in one piece at first, and how long it runs and stands in each slice afterwards.
    ///
    /// What it may run beyond the first interval lasts as long as the last epochs took.
    fn pieces(&self, interval: Duration, budget: Duration) -> (Duration, Duration, Duration) {
        let beyond = budget.saturating_sub(interval);
        let late = self.cycle.unwrap_or_default().saturating_sub(interval);
        if late <= beyond || beyond < SHORTEST {
            return (budget, budget, Duration::ZERO);
        }
        let share = beyond.as_secs_f64() / late.as_secs_f64();
        let run = SLICE.mul_f64(share).max(SHORTEST);
        (interval, run, run.mul_f64(1.0 / share - 1.0).max(SHORTEST))
    }

    /// The guest stands or runs since `at`.
    pub fn change(&mut self, at: Duration, motion: Motion) {
        let piece = at.saturating_sub(self.since);
        if self.stands {
            self.held_back.total += piece;
            self.held_back.longest = self.held_back.longest.max(piece);
        } else {
            self.ran += piece;
        }
        self.stands = motion == Motion::Stand;
        self.since = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    /// What a simulated guest did.
    struct Simulated {
        /// Of each epoch after the first few.
        pages: Vec<f64>,
        longest_piece: Duration,
        hold: Duration,
        held_back_share: f64,
    }

    /// A guest that writes so many pages a second, never the same twice, and a standby that takes so many of them.
    fn simulate(written_per_s: f64, shipped_per_s: f64, longest_hold: Duration) -> Simulated {
        let mut brake = Brake::new(longest_hold, 4);
        let step = Duration::from_micros(500);
        let (mut at, mut due) = (Duration::from_secs(1), Duration::from_secs(1) + INTERVAL);
        brake.epoch(at, at);
        let mut in_flight: Vec<(Duration, f64)> = Vec::new();
        let mut seen =
            Simulated { pages: Vec::new(), longest_piece: Duration::ZERO, hold: Duration::ZERO, held_back_share: 0.0 };
        let (mut pages, mut stood, mut epochs) = (0.0, Duration::ZERO, 0);
        while epochs < 200 {
            at += step;
            if !brake.stands() {
                pages += written_per_s * step.as_secs_f64();
            }
            if let Some(first) = in_flight.first_mut() {
                first.1 -= shipped_per_s * step.as_secs_f64();
                if first.1 <= 0.0 {
                    let captured = first.0;
                    in_flight.remove(0);
                    brake.acknowledged(captured, at);
                    if epochs > 50 {
                        seen.hold = seen.hold.max(at.saturating_sub(captured));
                    }
                }
            }
            if (in_flight.len() as u64) < brake.depth() {
                if at < due {
                    continue;
                }
                let held_back = brake.epoch(at, at);
                epochs += 1;
                in_flight.push((at, pages));
                if epochs > 50 {
                    seen.pages.push(pages);
                    seen.longest_piece = seen.longest_piece.max(held_back.longest);
                }
                stood += held_back.total;
                (pages, due) = (0.0, at + INTERVAL);
            } else {
                let (moment, motion) = brake.next(INTERVAL);
                if at >= moment {
                    brake.change(at, motion);
                }
            }
        }
        seen.held_back_share = stood.as_secs_f64() / (at.as_secs_f64() - 1.0);
        seen
    }

    #[test]
    fn a_guest_that_its_standby_can_follow_is_never_held_back() {
        for (written, shipped) in [(1_000.0, 80_000.0), (70_000.0, 80_000.0), (79_000.0, 80_000.0)] {
            let seen = simulate(written, shipped, Duration::from_secs(1));
            assert!(seen.held_back_share == 0.0, "{written} of {shipped}: {}", seen.held_back_share);
        }
    }

    #[test]
    fn no_epoch_holds_more_than_is_written_in_one_and_a_half_intervals() {
        for (written, shipped) in [(90_000.0, 80_000.0), (400_000.0, 80_000.0), (90_000.0, 5_000.0)] {
            let seen = simulate(written, shipped, Duration::from_secs(3600));
            let most = seen.pages.iter().copied().fold(0.0, f64::max);
            let limit = written * (INTERVAL.mul_f64(RUNS) + SHORTEST).as_secs_f64();
            assert!(most <= limit, "{written} of {shipped}: {most} of {limit}");
            assert!(seen.held_back_share > 0.05, "{written} of {shipped}: {}", seen.held_back_share);
        }
    }

    #[test]
    fn it_stands_in_short_pieces() {
        for (written, shipped) in [(160_000.0, 80_000.0), (400_000.0, 80_000.0), (90_000.0, 10_000.0)] {
            let seen = simulate(written, shipped, Duration::from_secs(3600));
            let stands = SHORTEST.mul_f64((written / shipped * RUNS - 1.0) / (RUNS - 1.0));
            let limit = SLICE.max(stands) * 2;
            assert!(seen.longest_piece <= limit, "{written} of {shipped}: {:?} of {limit:?}", seen.longest_piece);
        }
    }

    /// For how long a guest that is copied runs within a second.
    fn runs_within_a_second(brake: &mut Brake, from: Duration) -> Duration {
        let (mut at, mut ran) = (from, Duration::ZERO);
        while at < from + Duration::from_secs(1) {
            let (moment, motion) = brake.next(INTERVAL);
            assert!(moment <= at + SHORTEST.mul_f64(1.0 / LEAST_OF_COPY), "it stands from {at:?} until {moment:?}");
            if !brake.stands() {
                ran += moment.saturating_sub(at);
            }
            at = at.max(moment);
            brake.change(at, motion);
        }
        ran
    }

    #[test]
    fn while_it_is_copied_it_runs_for_less_and_less_of_the_time_in_short_pieces() {
        let mut brake = Brake::new(Duration::from_secs(1), 4);
        let mut at = Duration::from_secs(7);
        let mut share = 1.0;
        while brake.slow_copy(at) {
            share /= 2.0;
            let ran = runs_within_a_second(&mut brake, at).as_secs_f64();
            assert!((ran - share).abs() < 0.03, "{ran} s and not {share}");
            at += Duration::from_secs(2);
        }
        assert!(share <= LEAST_OF_COPY, "{share}");
        assert!(brake.slows_copy());
        let stood = brake.copied(Duration::from_millis(400));
        assert!(stood > Duration::from_secs(4), "{stood:?}");
        assert!(!brake.slows_copy() && !brake.stands(), "{brake:?}");
    }

    #[test]
    fn as_many_epochs_are_on_their_way_at_first_as_are_acknowledged_in_time() {
        let depth = |took_ms| {
            let mut brake = Brake::new(Duration::from_secs(1), 4);
            brake.copied(Duration::from_millis(took_ms));
            brake.depth()
        };
        assert_eq!([0, 40, 125, 200, 300, 900].map(depth), [4, 4, 4, 2, 1, 1]);
    }

    #[test]
    fn what_is_held_for_long_makes_epochs_smaller() {
        for (written, shipped) in [(90_000.0, 20_000.0), (400_000.0, 80_000.0)] {
            let patient = simulate(written, shipped, Duration::from_secs(3600));
            let seen = simulate(written, shipped, Duration::from_secs(1));
            assert!(patient.hold > Duration::from_secs(1), "{written} of {shipped}: {:?}", patient.hold);
            assert!(seen.hold <= Duration::from_secs(1), "{written} of {shipped}: {:?}", seen.hold);
        }
    }
}
