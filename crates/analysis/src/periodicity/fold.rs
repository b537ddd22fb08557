//! A stretch of events folded with a period: in how many of its cycles one is seen, and what it costs.

use super::events::{Event, Level, Side};
use super::phase::{COVERAGE, FALSE_ALARM, OCCURRENCES_MIN, densest, divergence};

/// Cycles over which the phase is taken as constant: at 100 ppm of drift it moves by 0.026 of a cycle.
const CYCLES_A_SEGMENT: f64 = 256.0;
/// The window that crowds most cuts the tails of jitter; the window that counts is wider by this.
const WIDENING: f64 = 1.6;
/// Half a cycle out of phase must be visible in so many cycles to tell what chance puts there.
const OPPOSITE_MIN: f64 = 0.25;
/// In phase an event is seen in so many more of the cycles than out of phase; where chance puts one into every
/// other cycle, some window holds most of any cause's.
const CONTRAST: f64 = 0.5;
/// Of two locked causes a multiple of their rates is seen in some of its cycles, always in the same ones of so
/// many at most.
const PATTERN_MAX: usize = 20;
/// Cycles of each kind that tell a pattern from chance.
const PATTERN_REPEATS: f64 = 4.0;
/// A pattern that explains more of which cycles have an event than this is none of one cause ...
const PATTERNED: f64 = 0.5;
/// ... unless so many of them have one.
const PATTERN_COVERAGE: f64 = 0.9;

/// What events are held against.
#[derive(Debug, Clone, Copy)]
pub struct Comb {
    /// Cycles a unit of time.
    pub frequency: f64,
    /// The window of phase in which its events crowd, in cycles.
    pub width: f64,
    /// Which side of its events keeps the time.
    pub side: Side,
}

/// Some events, and from when to when there would have been more, in units.
#[derive(Debug, Clone, Copy)]
pub struct Stretch<'a> {
    pub events: &'a [Event],
    pub level: &'a Level,
    pub from: f64,
    pub to: f64,
}

/// How many stretches of constant phase a time of so many cycles is cut into.
pub fn segments(cycles: f64) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // saturates; a cycle is at least two samples
    let segments = (cycles / CYCLES_A_SEGMENT) as usize;
    segments.max(1)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cycle {
    /// Nothing came in phase.
    Without,
    With,
    /// Nothing could have been seen in phase.
    Hidden,
}

/// Events of a stretch of time against the cycles of a period.
#[derive(Debug, Default)]
pub struct Fold {
    /// Cycles in which an event in phase would have been seen.
    pub cycles: f64,
    /// Cycles with an event in phase.
    pub hits: u64,
    /// Cycles in which an event half a cycle out of phase would have been seen, and those with one.
    opposite: f64,
    misses: u64,
    /// All cycles, seen or not.
    all: f64,
    /// Events out of phase, and the time in which they would be seen, in cycles.
    strays: f64,
    strayed: f64,
    /// The window that counts, in cycles.
    window: f64,
    patterns: Patterns,
    /// The overhead of the dearest event in phase of each cycle that has one, in units.
    costs: Vec<f32>,
}

impl Fold {
    /// Fold the events of one stretch; `removes` is called with the position of each event that the period
    /// explains, with some margin. What `others` says of an event hides what is in phase with it.
    pub fn new(
        stretch: Stretch<'_>,
        comb: &Comb,
        others: impl Fn(usize) -> bool,
        mut removes: impl FnMut(usize),
    ) -> Self {
        let Stretch { events, level, from, to } = stretch;
        let frequency = comb.frequency;
        let mut phases: Vec<f64> =
            events.iter().map(|event| (event.at(comb.side) * frequency).rem_euclid(1.0)).collect();
        phases.sort_unstable_by(f64::total_cmp);
        let centre = densest(&phases, comb.width).centre;
        let counting = (WIDENING * comb.width).min(0.5) / 2.0;
        let (from, to) = (from * frequency - centre, to * frequency - centre);
        let mut cycles = Cycles::new(from, to);
        let mut opposite = Cycles::new(from - 0.5, to - 0.5);
        let mut fold = Self { window: 2.0 * counting, ..Self::default() };
        let mut dark = 0.0;
        let mut last_hit = None;
        for (position, event) in events.iter().enumerate() {
            let (dark_from, dark_to) = event.dark(level);
            let (dark_from, dark_to) = (dark_from * frequency - centre, (dark_to * frequency - centre).min(to));
            dark += (dark_to - dark_from).max(0.0);
            cycles.hide(dark_from + counting, dark_to - counting);
            opposite.hide(dark_from - 0.5 + counting, dark_to - 0.5 - counting);
            let cycle = event.at(comb.side) * frequency - centre;
            let distance = (cycle - cycle.round()).abs();
            if others(position) {
                if distance <= counting {
                    cycles.hide(cycle.round(), cycle.round());
                } else if distance >= 0.5 - counting {
                    opposite.hide((cycle - 0.5).round(), (cycle - 0.5).round());
                }
                continue;
            }
            if distance <= (2.0 * counting).min(0.4) {
                removes(position);
            }
            if distance > counting {
                fold.strays += 1.0;
                if distance >= 0.5 - counting {
                    opposite.hit(cycle - 0.5);
                }
                continue;
            }
            #[allow(clippy::cast_possible_truncation)] // seven digits of a cost are enough
            let cost = event.overhead as f32;
            let place = cycles.hit(cycle);
            match fold.costs.last_mut() {
                Some(dearest) if place.is_some() && place == last_hit => *dearest = dearest.max(cost),
                _ if place.is_some() => fold.costs.push(cost),
                _ => {}
            }
            last_hit = place.or(last_hit);
        }
        fold.hits = cycles.count(Cycle::With);
        fold.all = cycles.states.len() as f64;
        fold.cycles = fold.all - cycles.count(Cycle::Hidden) as f64;
        fold.misses = opposite.count(Cycle::With);
        fold.opposite = opposite.states.len() as f64 - opposite.count(Cycle::Hidden) as f64;
        fold.strayed = (to - from - dark - fold.cycles * fold.window).max(0.0);
        fold.patterns = Patterns::of(&cycles.states);
        fold
    }

    pub fn merge(mut self, mut other: Self) -> Self {
        self.costs.append(&mut other.costs);
        Self {
            cycles: self.cycles + other.cycles,
            hits: self.hits + other.hits,
            opposite: self.opposite + other.opposite,
            misses: self.misses + other.misses,
            all: self.all + other.all,
            strays: self.strays + other.strays,
            strayed: self.strayed + other.strayed,
            window: self.window.max(other.window),
            patterns: self.patterns.merge(&other.patterns),
            costs: self.costs,
        }
    }

    /// The share of cycles in which an event is in phase.
    fn in_phase(&self) -> f64 {
        (self.hits as f64 / self.cycles.max(1.0)).min(1.0)
    }

    /// The share of cycles in which chance puts an event in phase: as it does half a cycle out of phase, or,
    /// where little can be seen there, at all other times.
    fn out_of_phase(&self, added: f64) -> f64 {
        if self.opposite >= OPPOSITE_MIN * self.all {
            return ((self.misses as f64 + 0.5 * added) / (self.opposite + added).max(1.0)).min(1.0);
        }
        ((self.strays + 0.5 * added) * self.window / self.strayed.max(self.window)).min(1.0)
    }

    /// How much more often events are in phase than out of phase.
    pub fn contrast(&self) -> f64 {
        self.in_phase() - self.out_of_phase(1.0)
    }

    /// The share of cycles with an event in phase, less what chance puts there. At twice the true frequency
    /// it is one half.
    pub fn coverage(&self) -> f64 {
        let chance = self.out_of_phase(0.0);
        if chance < 1.0 { ((self.in_phase() - chance) / (1.0 - chance)).max(0.0) } else { 0.0 }
    }

    /// The share of all cycles with an event in phase, hidden or not.
    pub fn all_coverage(&self) -> f64 {
        self.hits as f64 / self.all.max(1.0)
    }

    /// Whether events are in phase in most cycles, and out of phase in clearly fewer, and not in the same
    /// ones again and again.
    pub fn is_periodic(&self) -> bool {
        self.hits >= OCCURRENCES_MIN as u64
            && self.coverage() >= COVERAGE
            && self.contrast() >= CONTRAST
            && self.cycles * divergence(self.in_phase(), self.out_of_phase(1.0)) > -FALSE_ALARM.ln()
            && (self.in_phase() >= PATTERN_COVERAGE || !self.patterns.tell())
    }

    /// What all occurrences cost, in units.
    pub fn overhead(&self) -> f64 {
        self.costs.iter().map(|cost| f64::from(*cost)).sum()
    }

    /// How many occurrences cost at least `cost`, in units.
    pub fn dearer_than(&self, cost: f64) -> usize {
        self.costs.iter().filter(|one| f64::from(**one) >= cost).count()
    }

    /// Median and 90th percentile of the cost of an occurrence, in units, by nearest rank.
    pub fn cost_quantiles(&mut self) -> (f64, f64) {
        let count = self.costs.len();
        if count == 0 {
            return (0.0, 0.0);
        }
        let mut rank =
            |tail: usize| f64::from(*self.costs.select_nth_unstable_by(count - count / tail - 1, f32::total_cmp).1);
        (rank(2), rank(10))
    }
}

/// The cycles whose phase of interest lies in a stretch.
struct Cycles {
    first: f64,
    states: Vec<Cycle>,
}

impl Cycles {
    fn new(from: f64, to: f64) -> Self {
        let first = from.ceil();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
        let count = (to.floor() - first + 1.0).max(0.0) as usize;
        Self { first, states: vec![Cycle::Without; count] }
    }

    /// Hide the cycles whose phase of interest lies in a time.
    fn hide(&mut self, from: f64, to: f64) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
        let (first, end) =
            ((from.ceil() - self.first).max(0.0) as usize, (to.floor() - self.first + 1.0).max(0.0) as usize);
        if first < end && first < self.states.len() {
            let end = end.min(self.states.len());
            self.states[first..end].iter_mut().filter(|state| **state == Cycle::Without).for_each(|state| {
                *state = Cycle::Hidden;
            });
        }
    }

    /// Put an event near the phase of interest of a cycle; gives which, if that is in the stretch.
    fn hit(&mut self, cycle: f64) -> Option<usize> {
        let place = cycle.round() - self.first;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // not negative
        let place = (place >= 0.0).then_some(place as usize)?;
        *self.states.get_mut(place)? = Cycle::With;
        Some(place)
    }

    fn count(&self, state: Cycle) -> u64 {
        self.states.iter().filter(|one| **one == state).count() as u64
    }
}

/// How much of which cycles have an event follows from their number modulo 2, 3, 4 ...
#[derive(Debug, Default)]
struct Patterns {
    cycles: f64,
    /// The variance of having an event or not, times the cycles.
    all: f64,
    /// For each modulus from 2 on: the part of it between the cycles of different remainders, less what
    /// chance gives them.
    between: Vec<f64>,
}

impl Patterns {
    fn of(states: &[Cycle]) -> Self {
        let seen: Vec<(usize, f64)> = states
            .iter()
            .enumerate()
            .filter(|(_, state)| **state != Cycle::Hidden)
            .map(|(number, state)| (number, f64::from(u8::from(*state == Cycle::With))))
            .collect();
        let cycles = seen.len() as f64;
        let rate = seen.iter().map(|(_, hit)| hit).sum::<f64>() / cycles.max(1.0);
        let variance = rate * (1.0 - rate);
        let between = |modulus: usize| {
            let mut sums = vec![(0.0, 0.0); modulus];
            for (number, hit) in &seen {
                let (count, hits) = &mut sums[number % modulus];
                *count += 1.0;
                *hits += hit;
            }
            let parts = sums.iter().filter(|(count, _)| *count > 0.0);
            parts.map(|(count, hits)| (hits - count * rate).powi(2) / count - variance).sum::<f64>() + variance
        };
        // Where all cycles are alike there is nothing to explain.
        let between = if variance > 0.0 { (2..=PATTERN_MAX).map(between).collect() } else { Vec::new() };
        Self { cycles, all: cycles * variance, between }
    }

    fn merge(mut self, other: &Self) -> Self {
        self.cycles += other.cycles;
        self.all += other.all;
        self.between.resize(self.between.len().max(other.between.len()), 0.0);
        self.between.iter_mut().zip(&other.between).for_each(|(sum, one)| *sum += one);
        self
    }

    /// Whether it is always the same cycles that have an event.
    fn tell(&self) -> bool {
        let moduli = self.between.iter().zip(2_u32..);
        let mut enough = moduli.filter(|(_, modulus)| PATTERN_REPEATS * f64::from(*modulus) <= self.cycles);
        self.all > 0.0 && enough.any(|(between, _)| between / self.all > PATTERNED)
    }
}
