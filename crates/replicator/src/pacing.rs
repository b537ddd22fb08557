//! When epochs begin: after a fixed time, or after as long as keeps the guest standing for a set share of the
//! time; and beside the epochs of other members of this host. Or earlier, where output waits for the next one.

use std::time::Duration;

use crate::clock::nanoseconds;
use crate::spec::Interval;
use crate::turn::Turn;

/// What an automatic interval stays between.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(5);

/// A guest whose output asks for epochs all the time runs for at least 7/3 of each stop, and so stands for 30 % of the
/// time at most.
const RUN_TO_STOP: (u32, u32) = (7, 3);

/// The weight of the newest pause in the moving average.
const NEWEST_WEIGHT: f64 = 0.2;

/// The interval, and what it follows from.
#[derive(Debug, Clone)]
pub struct Pacing {
    wanted: Interval,
    interval: Duration,
    /// Of those that are automatic.
    longest: Duration,
    average_pause: Option<f64>,
    /// Between two epochs, where output asks for one; None: it waits for the next one that is due.
    min_interval: Option<Duration>,
}

impl Pacing {
    /// Begin with what the spec says, or, if it leaves it to us, with `first`.
    pub fn new(wanted: Interval, first: Duration) -> Self {
        Self { wanted, interval: first, longest: LONGEST, average_pause: None, min_interval: None }
    }

    /// Have an epoch begin as soon as output waits for it, at least so long after the one before; None: never.
    pub fn on_demand(self, min_interval: Option<Duration>) -> Self {
        Self { min_interval, ..self }
    }

    /// Where output waits for the next epoch and its acknowledgement, and for no longer than this: an automatic
    /// interval takes half of that at the most, whatever the pauses are.
    pub fn for_holds_of(self, longest_hold: Duration) -> Self {
        Self { longest: (longest_hold / 2).clamp(SHORTEST, LONGEST), ..self }
    }

    /// From the beginning of one epoch to that of the next.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// When the next epoch begins, after one that began and let the guest go on at these times of the
    /// monotonic clock.
    ///
    /// Moments are counted from the clock's zero, the same for all members of a host, so that those with one
    /// interval keep the distance that their turns give them.
    pub fn next(&self, turn: &Turn, begin: Duration, continued: Duration) -> Duration {
        // Never two epochs without the guest having run in between.
        let earliest = (begin + self.interval / 2).max(continued + self.interval / 4);
        let offset = turn.offset(self.interval);
        let interval_ns = nanoseconds(self.interval);
        let intervals = nanoseconds(earliest.saturating_sub(offset)).div_ceil(interval_ns);
        Duration::from_nanos(intervals * interval_ns) + offset
    }

    /// When output that waits has the next epoch begin, after one that began and let the guest go on at these times;
    /// None where no output does.
    ///
    /// However often output asks, the guest runs for a while in between ([`RUN_TO_STOP`]), or one that says much
    /// would stand for most of the time.
    pub fn next_on_demand(&self, begin: Duration, continued: Duration) -> Option<Duration> {
        let min_interval = self.min_interval?;
        Some((begin + min_interval).max(continued + continued.saturating_sub(begin) * RUN_TO_STOP.0 / RUN_TO_STOP.1))
    }

    /// The guest stood for so long.
    pub fn paused(&mut self, pause: Duration) {
        let Interval::AutoOverhead(share) = self.wanted else { return };
        let pause = pause.as_secs_f64();
        let average = self.average_pause.map_or(pause, |average| average + NEWEST_WEIGHT * (pause - average));
        self.average_pause = Some(average);
        self.interval = Duration::from_secs_f64(average / share).clamp(SHORTEST, self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_interval_stays() {
        let mut pacing = Pacing::new(Interval::FixedNs(25_000_000), Duration::from_millis(25));
        pacing.paused(Duration::from_millis(20));
        assert_eq!(pacing.interval(), Duration::from_millis(25));
    }

    #[test]
    fn members_of_one_host_keep_their_distance() {
        let folder = tempfile::tempdir().unwrap();
        let turns = [(); 3].map(|()| Turn::take(folder.path()));
        let pacing = Pacing::new(Interval::FixedNs(100_000_000), Duration::from_millis(100));
        let ms = Duration::from_millis;
        let next = |turn: &Turn, begin, continued| pacing.next(turn, ms(begin), ms(continued)).as_millis();
        assert_eq!(turns.each_ref().map(|turn| next(turn, 7_003, 7_009)), [7_100, 7_150, 7_125]);
        // One that begins late does not shift those after it.
        assert_eq!(next(&turns[0], 7_130, 7_134), 7_200);
        assert_eq!(next(&turns[0], 7_100, 7_180), 7_300, "the guest must have run");
        assert_eq!(next(&turns[1], 7_150, 7_153), 7_250);
    }

    #[test]
    fn an_automatic_interval_comes_to_keep_the_share() {
        let mut pacing = Pacing::new(Interval::AutoOverhead(0.05), Duration::from_millis(100));
        for _ in 0..60 {
            pacing.paused(Duration::from_millis(8));
        }
        let interval = pacing.interval().as_secs_f64();
        assert!((0.159..0.161).contains(&interval), "{interval}");
        for _ in 0..60 {
            pacing.paused(Duration::from_micros(100));
        }
        assert_eq!(pacing.interval(), SHORTEST);
    }

    #[test]
    fn output_that_waits_has_the_next_epoch_begin_once_the_guest_has_run_for_a_while() {
        let ms = Duration::from_millis;
        let pacing = Pacing::new(Interval::FixedNs(100_000_000), ms(100));
        assert_eq!(pacing.next_on_demand(ms(7_003), ms(7_004)), None);
        let pacing = pacing.on_demand(Some(ms(5)));
        assert_eq!(pacing.next_on_demand(ms(7_003), ms(7_004)), Some(ms(7_008)));
        // It stands for 30 % of the time at most.
        assert_eq!(pacing.next_on_demand(ms(7_003), ms(7_015)), Some(ms(7_043)));
    }

    #[test]
    fn an_automatic_interval_leaves_time_for_the_acknowledgement() {
        let of = |pacing: Pacing| {
            let mut pacing = pacing;
            pacing.paused(Duration::from_millis(400));
            pacing.interval()
        };
        let pacing = Pacing::new(Interval::AutoOverhead(0.1), Duration::from_millis(100));
        assert_eq!(of(pacing.clone()), Duration::from_secs(4));
        assert_eq!(of(pacing.clone().for_holds_of(Duration::from_secs(1))), Duration::from_millis(500));
        assert_eq!(of(pacing.for_holds_of(Duration::from_secs(60))), Duration::from_secs(4));
    }
}
