//! Random task sets, kernels and reservations that an analysis may or may not accept.

use crate::random::Random;
use crate::scenario::{Interferer, Kernel, Spec};
use crate::service::Reservation;

/// How large times are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Tens to hundreds of units, so that much comes at the same time.
    Small,
    /// Microseconds to hundreds of milliseconds, in nanoseconds.
    Real,
    /// A few units, where each rounding counts, and up to five quarters of what the CPU gives.
    Tiny,
    /// Up to days in nanoseconds, and as much.
    Huge,
}

impl Scale {
    pub const ALL: [Self; 4] = [Self::Small, Self::Real, Self::Tiny, Self::Huge];

    /// The shortest period and the longest.
    fn periods(self, random: &mut Random) -> (u64, u64) {
        match self {
            Self::Small => (20, 400),
            Self::Real => (1_000_000, 100_000_000),
            Self::Tiny => (1, 12),
            Self::Huge => {
                let power = random.between(24, 50);
                (1 << (power - 5), 1 << power)
            }
        }
    }

    /// That of small units or that of real ones.
    fn most(self, small: u64, real: u64) -> u64 {
        match self {
            Self::Small => small,
            Self::Real | Self::Huge => real,
            Self::Tiny => small.min(1),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Drawn {
    /// In the order of levels.
    pub specs: Vec<Spec>,
    pub kernel: Kernel,
    pub reservation: Reservation,
}

/// Draw a set: up to eight tasks, deadlines up to three periods and jitter up to three, levels now and then equal.
pub fn draw(random: &mut Random, scale: Scale) -> Drawn {
    let reservation_kind = random.between(0, 4);
    let share = if reservation_kind < 2 { 1.0 } else { 0.35 + 0.6 * random.share() };
    let count = random.between(1, 8) as usize;
    let widest = if matches!(scale, Scale::Small | Scale::Real) { 0.8 } else { 1.1 };
    let total = share * (0.15 + widest * random.share());
    let (shortest, longest) = scale.periods(random);
    let mut specs = Vec::new();
    let mut left = total;
    for number in 0..count {
        // UUniFast (Bini and Buttazzo, Real-Time Systems 30, 2005).
        let rest =
            if number + 1 == count { 0.0 } else { left * random.share().powf(1.0 / (count - number - 1) as f64) };
        let utilization = left - rest;
        left = rest;
        let period = random.between(shortest, longest);
        let cost = ((utilization * period as f64) as u64).clamp(1, period);
        let jitter = match random.between(0, 5) {
            0..=2 => 0,
            3 => random.between(0, period / 4),
            4 => random.between(0, period),
            _ => random.between(0, 3 * period),
        };
        let relative = match random.between(0, 3) {
            0 | 1 => period,
            2 => random.between(cost, period),
            _ => random.between(cost, 3 * period),
        };
        // Half of the jitter leaves room for itself.
        let deadline = relative + if random.once_in(2) { jitter } else { 0 };
        specs.push(Spec { cost, period, deadline, jitter, level: 0 });
    }
    specs.sort_by_key(|one| one.deadline.saturating_sub(one.jitter));
    let mut level = 0;
    for one in &mut specs {
        level += u64::from(!random.once_in(4));
        one.level = level;
    }
    let kernel = kernel(random, scale, longest);
    Drawn { kernel, reservation: reservation(random, (scale, longest), reservation_kind, share), specs }
}

/// Draw up to three things that take the CPU before all tasks of a set, in bursts of up to four, each up to a tenth.
pub fn interferers(random: &mut Random, drawn: &Drawn) -> Vec<Interferer> {
    let longest = drawn.specs.iter().map(|one| one.period).max().unwrap_or(1);
    let shortest = longest.div_ceil(20).max(2);
    let one = |random: &mut Random| {
        let period = random.between(shortest, 2 * longest.max(shortest));
        let cost = random.between(1, (period / 10).max(1));
        let jitter = if random.once_in(3) { 0 } else { random.between(0, 3 * period) };
        Interferer { cost, period, jitter }
    };
    (0..random.between(1, 3)).map(|_| one(random)).collect()
}

fn kernel(random: &mut Random, scale: Scale, longest: u64) -> Kernel {
    let mut up_to = |small: u64, real: u64| {
        if random.once_in(3) { 0 } else { random.between(0, scale.most(small, real)) }
    };
    let (latency, release, scheduling) = (up_to(6, 200_000), up_to(3, 20_000), up_to(2, 20_000));
    let (context_switch, cache, tick) = (up_to(1, 10_000), up_to(3, 50_000), up_to(2, 100_000));
    let (request, blocking) = (up_to(3, 20_000), up_to(8, 500_000));
    let tick_period = match scale {
        Scale::Small => random.between(12, 120),
        Scale::Real => random.between(1, 4) * 1_000_000,
        Scale::Tiny => random.between(4, 20),
        // Or ticks alone would be more than can be simulated.
        Scale::Huge => random.between(longest / 64, longest / 8),
    };
    let (elsewhere, is_blocked) = (random.once_in(4), random.once_in(3));
    let blocking = if is_blocked { blocking } else { 0 };
    Kernel { latency, release, scheduling, context_switch, cache, tick, tick_period, request, elsewhere, blocking }
}

fn reservation(random: &mut Random, (scale, longest): (Scale, u64), kind: u64, share: f64) -> Reservation {
    let period = match scale {
        Scale::Small => random.between(3, 40),
        Scale::Real => random.between(1_000, 10_000) * 1_000,
        Scale::Tiny => random.between(1, 6),
        Scale::Huge => random.between(longest / 64, longest / 4),
    };
    let budget = ((share * period as f64).round() as u64).clamp(1, period);
    match (kind, scale) {
        (0 | 1, _) => Reservation::Whole,
        (4, Scale::Small | Scale::Tiny) => {
            // A delay of a unit's time at least twice, so that single units are no finer than it.
            let delay = (2 * period).div_ceil(budget) + random.between(0, 40);
            Reservation::Bounded { service: budget, span: period, delay }
        }
        _ => {
            let deadline = if random.once_in(2) { period } else { random.between(budget, period) };
            Reservation::Periodic { period, budget, deadline }
        }
    }
}
