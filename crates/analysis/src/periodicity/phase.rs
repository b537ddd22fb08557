//! Events folded with a period: how they crowd in one window of phase, and in how many cycles they are seen.

use super::events::Event;

/// The share of cycles in which an event must be seen.
pub const COVERAGE: f64 = 0.6;
/// The chance of naming a period in a series that has none, over everything that is tried.
pub const FALSE_ALARM: f64 = 1e-3;
/// The widest window of phase, in cycles; each next one is half as wide. A sample of 0.24 periods smears
/// events over as much.
const WIDEST: f64 = 0.4;
/// How many widths are tried: the narrowest is a ten-thousandth of a cycle.
pub const WIDTHS: i32 = 13;
/// Cycles over which the phase is taken as constant: at 100 ppm of drift it moves by 0.026 of a cycle.
const CYCLES_A_SEGMENT: f64 = 256.0;
/// The window that crowds most cuts the tails of jitter; the window that counts is wider by this.
const WIDENING: f64 = 1.6;
/// Fewer occurrences are no period.
pub const OCCURRENCES_MIN: usize = 4;

/// A window of phase that holds more events than chance gives it.
#[derive(Debug, Clone, Copy)]
pub struct Crowding {
    /// The width of the window, in cycles.
    pub width: f64,
    /// The logarithm of a bound on the chance that the events crowd as they do in any window, per cycle
    /// of the whole time: to be added to the logarithm of how many cycles the highest frequency has.
    pub ln_chance: f64,
}

/// Find the window in which the events crowd most against chance.
///
/// Of events closer than a quarter of a cycle only the first counts, so that a burst is one event. With `n`
/// events and a window of `w` cycles that holds `k` of them, `n P(Bin(n - 1, w) >= k - 1)` bounds the chance
/// (anchor the window at each event in turn), the tail is at most `exp(-(n - 1) KL((k - 1) / (n - 1), w))`,
/// and a window so narrow tells `1 / w` frequencies apart for each cycle of the whole time.
///
/// Samples that divide a period into four and a half place its occurrences in two heaps: the window of one
/// heap may be the less likely, but holds half of the cycles only. So the window is the least likely of those
/// that hold as great a share of the events as a period must of its cycles, if any does.
pub fn crowding(times: &[f64], frequency: f64) -> Option<Crowding> {
    let mut last = f64::NEG_INFINITY;
    let mut phases = Vec::with_capacity(times.len());
    for time in times {
        let cycle = time * frequency;
        if cycle - last >= 0.25 {
            phases.push(cycle - cycle.floor());
            last = cycle;
        }
    }
    if phases.len() < OCCURRENCES_MIN {
        return None;
    }
    phases.sort_unstable_by(f64::total_cmp);
    let events = phases.len() as f64;
    let mut least: Option<Crowding> = None;
    let mut least_of_most: Option<Crowding> = None;
    for halvings in 0..WIDTHS {
        let width = WIDEST * 0.5_f64.powi(halvings);
        let held = densest(&phases, width).count as f64;
        let share = (held - 1.0) / (events - 1.0);
        let ln_chance = events.ln() - (events - 1.0) * divergence(share, width) - width.ln();
        let lesser = |one: &Option<Crowding>| one.is_none_or(|one| ln_chance < one.ln_chance);
        if lesser(&least) {
            least = Some(Crowding { width, ln_chance });
        }
        if held >= COVERAGE * events && lesser(&least_of_most) {
            least_of_most = Some(Crowding { width, ln_chance });
        }
    }
    let least = least?;
    Some(Crowding { width: least_of_most.unwrap_or(least).width, ..least })
}

/// How many stretches of constant phase a time of so many cycles is cut into.
pub fn segments(cycles: f64) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // saturates; a cycle is at least two samples
    let segments = (cycles / CYCLES_A_SEGMENT) as usize;
    segments.max(1)
}

/// Events of a stretch of time against the cycles of a period.
#[derive(Debug, Default)]
pub struct Fold {
    cycles: f64,
    /// Cycles with an event in phase.
    pub hits: u64,
    /// Cycles with an event half a cycle out of phase.
    misses: u64,
    /// The overhead of all events in phase, in units.
    pub overhead: f64,
    /// The overhead of the dearest event in phase of each cycle that has one, in units.
    costs: Vec<f32>,
}

impl Fold {
    /// Fold the events of one segment, which lasts `cycles` cycles; `removes` is called with the position of
    /// each event that the period explains, with some margin.
    pub fn new(events: &[Event], frequency: f64, width: f64, cycles: f64, mut removes: impl FnMut(usize)) -> Self {
        let mut fold = Self { cycles, ..Self::default() };
        let mut phases: Vec<f64> = events.iter().map(|event| (event.time * frequency).rem_euclid(1.0)).collect();
        phases.sort_unstable_by(f64::total_cmp);
        let centre = densest(&phases, width).centre;
        let counting = (WIDENING * width).min(0.5) / 2.0;
        let (mut last_hit, mut last_miss) = (f64::NAN, f64::NAN);
        for (position, event) in events.iter().enumerate() {
            let cycle = event.time * frequency - centre;
            let distance = (cycle - cycle.round()).abs();
            if distance <= (2.0 * counting).min(0.4) {
                removes(position);
            }
            #[allow(clippy::cast_possible_truncation)] // seven digits of a cost are enough
            let cost = event.overhead as f32;
            if distance <= counting {
                fold.overhead += event.overhead;
                if same(cycle.round(), last_hit) {
                    if let Some(dearest) = fold.costs.last_mut() {
                        *dearest = dearest.max(cost);
                    }
                } else {
                    fold.costs.push(cost);
                    fold.hits += 1;
                    last_hit = cycle.round();
                }
            } else if distance >= 0.5 - counting && !same(cycle.floor(), last_miss) {
                fold.misses += 1;
                last_miss = cycle.floor();
            }
        }
        fold
    }

    pub fn merge(mut self, mut other: Self) -> Self {
        self.costs.append(&mut other.costs);
        Self {
            cycles: self.cycles + other.cycles,
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            overhead: self.overhead + other.overhead,
            costs: self.costs,
        }
    }

    /// The share of cycles in which an event is in phase.
    fn in_phase(&self) -> f64 {
        (self.hits as f64 / self.cycles.max(1.0)).min(1.0)
    }

    /// The share of cycles in which an event is half a cycle out of phase: what chance puts there.
    fn out_of_phase(&self) -> f64 {
        ((self.misses as f64 + 0.5) / (self.cycles + 1.0)).min(1.0)
    }

    /// How much more often events are in phase than out of phase.
    pub fn contrast(&self) -> f64 {
        self.in_phase() - self.out_of_phase()
    }

    /// The share of cycles with an event in phase, less what chance puts there. At twice the true frequency
    /// it is one half.
    pub fn coverage(&self) -> f64 {
        let chance = (self.misses as f64 / self.cycles.max(1.0)).min(1.0);
        if chance < 1.0 { ((self.in_phase() - chance) / (1.0 - chance)).max(0.0) } else { 0.0 }
    }

    /// Whether events are in phase in most cycles, and out of phase in clearly fewer.
    pub fn is_periodic(&self) -> bool {
        self.hits >= OCCURRENCES_MIN as u64
            && self.coverage() >= COVERAGE
            && self.cycles * divergence(self.in_phase(), self.out_of_phase()) > -FALSE_ALARM.ln()
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

/// A window of phase and how many of the phases lie in it.
struct Window {
    count: usize,
    /// The mean of the phases in it.
    centre: f64,
}

/// Find the window of `width` that holds most of the ascending `phases`, around the circle.
fn densest(phases: &[f64], width: f64) -> Window {
    let count = phases.len();
    let phase = |index: usize| phases[index % count] + if index >= count { 1.0 } else { 0.0 };
    let mut best = (0, 0..0);
    let mut end = 0;
    for (first, start) in phases.iter().enumerate() {
        end = end.max(first);
        while end < first + count && phase(end) <= start + width {
            end += 1;
        }
        if end - first > best.0 {
            best = (end - first, first..end);
        }
    }
    let centre = best.1.map(phase).sum::<f64>() / best.0.max(1) as f64;
    Window { count: best.0, centre }
}

/// Whether two numbers of cycles, which are whole, are the same.
fn same(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.5
}

/// How much evidence each trial gives that the rate is `share` and not `expected`, in nats; 0 unless it is
/// higher.
fn divergence(share: f64, expected: f64) -> f64 {
    if share <= expected {
        return 0.0;
    }
    let rest = if share < 1.0 { (1.0 - share) * ((1.0 - share) / (1.0 - expected)).ln() } else { 0.0 };
    share * (share / expected).ln() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_densest_window_is_found_across_the_end_of_the_circle() {
        let window = densest(&[0.01, 0.02, 0.4, 0.98, 0.99], 0.05);
        assert_eq!(window.count, 4);
        assert!((window.centre - 1.0).abs() < 1e-12, "{}", window.centre);
    }

    #[test]
    fn evidence_grows_with_the_share_and_is_none_below_the_expected() {
        assert!(divergence(0.2, 0.3) == 0.0);
        assert!((divergence(1.0, 0.1) - 10_f64.ln()).abs() < 1e-12);
        assert!(divergence(0.9, 0.3) > divergence(0.8, 0.3));
    }
}
