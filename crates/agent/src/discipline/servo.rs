//! From the edges of a clock that goes on to how the kernel's clock is to be steered. Pure: no clock is read
//! here.

/// The fraction of its second that the RTC lost when it was set is unknown: half of one is the least wrong
/// guess, and what the kernel guesses at boot (`drivers/rtc/class.c`, `rtc_hctosys`).
const FRACTION_NS: i64 = 500_000_000;

/// A clock that is behind by more is stepped forwards; less is caught up by running faster.
const STEP_NS: i64 = 100_000_000;

/// An error is caught up within about so long.
const CATCH_UP_S: f64 = 4.0;

/// A clock that is ahead waits by running slower by so much. All timers of the guest do, so that a host whose
/// wall clock is an hour behind must not cost a tenth of the guest's speed for as long as that takes.
const WAITING: f64 = 0.01;

/// The kernel takes at most 10 %.
const FASTEST: f64 = 0.099;

/// The weight of the newest second in the estimate of the rate.
const NEWEST_WEIGHT: f64 = 0.2;

/// A second that differs from the others by this share is a jump; two in a row are another rate.
const JUMP: f64 = 0.05;

const SECOND_NS: i64 = 1_000_000_000;

/// The clock that goes on went to this second when `CLOCK_MONOTONIC_RAW` showed this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// `CLOCK_MONOTONIC_RAW`.
    pub raw_ns: u64,
    /// Seconds since 1970.
    pub second: u64,
}

/// What to do to the kernel's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction {
    /// Move `CLOCK_REALTIME` by so much at once.
    pub step_ns: Option<i64>,
    /// From now on let it run faster by this share of its own pace.
    pub rate: f64,
}

/// What is known of the clock.
#[derive(Debug, Default)]
pub struct Servo {
    last: Option<Edge>,
    seconds: u32,
    rate: f64,
    jumped: bool,
}

impl Servo {
    /// Take an edge, and what `CLOCK_REALTIME` showed then.
    pub fn observe(&mut self, edge: Edge, real_ns: u64) -> Correction {
        if let Some(last) = self.last.replace(edge) {
            self.learn(last, edge);
        }
        let target_ns = i64::try_from(edge.second).unwrap_or(i64::MAX / SECOND_NS - 1) * SECOND_NS + FRACTION_NS;
        let behind_ns = target_ns - i64::try_from(real_ns).unwrap_or(i64::MAX);
        let is_first = self.seconds == 0 && self.rate == 0.0;
        // Only at first, when nobody can have relied on it, does the clock go back.
        if behind_ns > STEP_NS || (is_first && behind_ns < -STEP_NS) {
            return Correction { step_ns: Some(behind_ns), rate: self.rate };
        }
        let catching_up = (behind_ns as f64 / SECOND_NS as f64 / CATCH_UP_S).max(-WAITING);
        Correction { step_ns: None, rate: (self.rate + catching_up).clamp(-FASTEST, FASTEST) }
    }

    /// How much of each second the machine's own clock loses.
    pub fn lost_share(&self) -> f64 {
        1.0 - 1.0 / (1.0 + self.rate)
    }

    fn learn(&mut self, last: Edge, edge: Edge) {
        let real_s = edge.second.saturating_sub(last.second) as f64;
        let raw_s = edge.raw_ns.saturating_sub(last.raw_ns) as f64 / 1e9;
        if real_s <= 0.0 || raw_s <= 0.0 {
            return;
        }
        let rate = real_s / raw_s - 1.0;
        let is_jump = self.seconds > 0 && (rate - self.rate).abs() > JUMP;
        if is_jump && !self.jumped {
            self.jumped = true;
            return;
        }
        self.jumped = is_jump;
        self.seconds += 1;
        let weight = if is_jump { 1.0 } else { NEWEST_WEIGHT.max(1.0 / f64::from(self.seconds)) };
        self.rate = (self.rate + weight * (rate - self.rate)).clamp(-FASTEST, FASTEST);
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "made-up times are small")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A machine whose own clock loses, steered by a servo that sees each edge with an error.
    struct World {
        servo: Servo,
        true_s: f64,
        raw_s: f64,
        real_s: f64,
        rate: f64,
        lost: f64,
    }

    impl World {
        fn new(lost: f64) -> Self {
            Self { servo: Servo::default(), true_s: 1000.0, raw_s: 5.0, real_s: 1000.5, rate: 0.0, lost }
        }

        fn pass(&mut self, true_s: f64) {
            let raw_s = true_s * (1.0 - self.lost);
            self.true_s += true_s;
            self.raw_s += raw_s;
            self.real_s += raw_s * (1.0 + self.rate);
        }

        /// To the next edge, which is seen too late by `error_s`.
        fn second(&mut self, error_s: f64) -> Correction {
            self.pass(self.true_s.floor() + 1.0 - self.true_s);
            let raw_ns = ((self.raw_s + error_s) * 1e9) as u64;
            let edge = Edge { raw_ns, second: self.true_s.round() as u64 };
            let correction = self.servo.observe(edge, ((self.real_s + error_s) * 1e9) as u64);
            self.real_s += correction.step_ns.unwrap_or(0) as f64 / 1e9;
            self.rate = correction.rate;
            correction
        }

        fn behind_s(&self) -> f64 {
            self.true_s + 0.5 - self.real_s
        }
    }

    proptest! {
        #[test]
        fn a_clock_that_loses_is_kept(lost in 0.0..0.08, seed in 0..1000_u32) {
            let mut world = World::new(lost);
            for second in 0..120_u32 {
                let error_s = 0.002 * (f64::from(second * 7 + seed).sin());
                world.second(error_s);
                if second > 20 {
                    prop_assert!(world.behind_s().abs() < 0.02, "{} s behind", world.behind_s());
                }
            }
            prop_assert!((world.servo.lost_share() - lost).abs() < 0.003, "{}", world.servo.lost_share());
        }
    }

    #[test]
    fn a_failover_is_one_step_forwards_and_no_new_rate() {
        let mut world = World::new(0.02);
        for _ in 0..30 {
            world.second(0.0);
        }
        // Frozen for a third of a second of which neither clock knows.
        world.true_s += 0.33;
        let corrections = [(); 20].map(|()| world.second(0.0));
        let steps: Vec<i64> = corrections.iter().filter_map(|correction| correction.step_ns).collect();
        assert_eq!(steps.len(), 1, "{corrections:?}");
        assert!((300_000_000..360_000_000).contains(&steps[0]), "{steps:?}");
        assert!((world.servo.lost_share() - 0.02).abs() < 0.003, "{}", world.servo.lost_share());
        assert!(world.behind_s().abs() < 0.01, "{}", world.behind_s());
    }

    #[test]
    fn a_clock_that_is_ahead_waits_and_does_not_go_back() {
        let mut world = World::new(0.02);
        for _ in 0..30 {
            world.second(0.0);
        }
        // The other host's wall clock is behind by a second.
        world.true_s -= 1.0;
        let lost = world.servo.lost_share();
        for _ in 0..130 {
            assert_eq!(world.second(0.0).step_ns, None);
            assert!(world.rate > lost - 1.1 * WAITING, "{}", world.rate);
        }
        assert!(world.behind_s().abs() < 0.02, "{}", world.behind_s());
    }

    #[test]
    fn a_guest_that_comes_to_be_protected_is_kept_from_then_on() {
        let mut world = World::new(0.0);
        for _ in 0..20 {
            world.second(0.0);
        }
        world.lost = 0.058;
        for _ in 0..20 {
            world.second(0.0);
        }
        assert!(world.behind_s().abs() < 0.02, "{}", world.behind_s());
        assert!((world.servo.lost_share() - 0.058).abs() < 0.003, "{}", world.servo.lost_share());
    }
}
