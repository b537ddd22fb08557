//! When something could be seen, folded with a period.
//!
//! While a long pause lasts the samples show nothing else. Where pauses take four fifths of each cycle, all
//! other events crowd in the last fifth, and not because they are periodic. So chance is reckoned in the time
//! that could be seen: phases are mapped to the share of it that lies before them.

/// Parts of a cycle; within each, what can be seen is taken as even.
const PARTS: usize = 1024;

/// A share of dark time that is too small to matter.
const DARK_MIN: f64 = 0.01;

/// What share of the time that can be seen lies before each part of a cycle.
#[derive(Debug)]
pub struct Exposure {
    /// One more than parts; empty where nearly all time can be seen.
    before: Vec<f64>,
    /// What share of all time can be seen.
    pub share: f64,
    /// How many cycles all time has.
    pub cycles: f64,
}

impl Exposure {
    /// Fold dark times, given in units, over `whole` units.
    pub fn new(dark: impl Iterator<Item = (f64, f64)> + Clone, frequency: f64, whole: f64) -> Self {
        let all: f64 = dark.clone().map(|(from, to)| to - from).sum();
        let cycles = frequency * whole;
        let share = (1.0 - all / whole).clamp(0.0, 1.0);
        if all < DARK_MIN * whole {
            return Self { before: Vec::new(), share, cycles };
        }
        let mut seen = Seen::new(cycles);
        for (from, to) in dark {
            seen.take(from * frequency, to * frequency);
        }
        Self { before: seen.running_share(), share, cycles }
    }

    /// The share of the time that can be seen before a phase of 0 to 1.
    pub fn before(&self, phase: f64) -> f64 {
        if self.before.is_empty() {
            return phase;
        }
        let place = phase * PARTS as f64;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to PARTS
        let part = (place as usize).min(PARTS - 1);
        let (low, high) = (self.before[part], self.before[part + 1]);
        low + (high - low) * (place - part as f64)
    }
}

/// How often each part of the cycle can be seen, in cycles.
struct Seen {
    whole: f64,
    /// What is taken from a single part.
    partly: Vec<f64>,
    /// What is taken from each part from here on.
    onward: Vec<f64>,
}

impl Seen {
    fn new(whole: f64) -> Self {
        Self { whole, partly: vec![0.0; PARTS], onward: vec![0.0; PARTS + 1] }
    }

    /// Take away from `from` to `to`, in cycles.
    fn take(&mut self, from: f64, to: f64) {
        let cycle = from.floor();
        let turns = (to - from).floor();
        self.onward[0] += turns;
        let (from, to) = (from - cycle, to - cycle - turns);
        self.take_within(from, to.min(1.0));
        if to > 1.0 {
            self.take_within(0.0, to - 1.0);
        }
    }

    fn take_within(&mut self, from: f64, to: f64) {
        let (from, to) = (from * PARTS as f64, to * PARTS as f64);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to PARTS
        let (first, last) = ((from as usize).min(PARTS - 1), (to as usize).min(PARTS - 1));
        if first == last {
            self.partly[first] += to - from;
            return;
        }
        self.partly[first] += (first + 1) as f64 - from;
        self.partly[last] += to - last as f64;
        self.onward[first + 1] += 1.0;
        self.onward[last] -= 1.0;
    }

    fn running_share(&self) -> Vec<f64> {
        let mut taken = 0.0;
        let mut sum = 0.0;
        let mut before = vec![0.0];
        for part in 0..PARTS {
            taken += self.onward[part];
            sum += (self.whole - taken - self.partly[part]).max(0.0);
            before.push(sum);
        }
        if sum > 0.0 {
            for share in &mut before {
                *share /= sum;
            }
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_four_fifths_leaves_all_that_can_be_seen_to_the_last() {
        let pauses: Vec<(f64, f64)> = (0..10).map(|cycle| (f64::from(cycle) + 0.5, f64::from(cycle) + 1.3)).collect();
        let exposure = Exposure::new(pauses.into_iter(), 1.0, 10.3);
        assert!((exposure.before(0.3) - 0.15 / 2.3).abs() < 0.07, "{}", exposure.before(0.3));
        assert!((exposure.before(0.5) - 1.0).abs() < 0.15, "{}", exposure.before(0.5));
        assert!((exposure.before(0.5) - exposure.before(0.3)) > 0.8);
    }

    #[test]
    fn pauses_of_many_cycles_take_from_all_phases_alike() {
        let exposure = Exposure::new([(3.25, 7.25)].into_iter(), 1.0, 10.0);
        for phase in [0.0, 0.2, 0.5, 0.9, 1.0] {
            assert!((exposure.before(phase) - phase).abs() < 1e-9, "{phase}");
        }
        assert!((exposure.share - 0.6).abs() < 1e-12);
    }
}
