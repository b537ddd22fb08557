//! How long an epoch lasts: a fixed time, or as long as keeps the guest standing for a set share of the time.

use std::time::Duration;

use crate::spec::Interval;

/// What an automatic interval stays between.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(5);

/// The weight of the newest pause in the moving average.
const NEWEST_WEIGHT: f64 = 0.2;

/// The interval, and what it follows from.
#[derive(Debug, Clone)]
pub struct Pacing {
    wanted: Interval,
    interval: Duration,
    average_pause: Option<f64>,
}

impl Pacing {
    /// Begin with what the spec says, or, if it leaves it to us, with `first`.
    pub fn new(wanted: Interval, first: Duration) -> Self {
        Self { wanted, interval: first, average_pause: None }
    }

    /// From the beginning of one epoch to that of the next.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The guest stood for so long.
    pub fn paused(&mut self, pause: Duration) {
        let Interval::AutoOverhead(share) = self.wanted else { return };
        let pause = pause.as_secs_f64();
        let average = self.average_pause.map_or(pause, |average| average + NEWEST_WEIGHT * (pause - average));
        self.average_pause = Some(average);
        self.interval = Duration::from_secs_f64(average / share).clamp(SHORTEST, LONGEST);
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
}
