//! How events crowd in one window of phase.

use super::exposure::Exposure;

/// The share of cycles in which an event must be seen.
pub const COVERAGE: f64 = 0.6;
/// The chance of naming a period in a series that has none, over everything that is tried.
pub const FALSE_ALARM: f64 = 1e-3;
/// The widest window of phase, in cycles; each next one is half as wide. A sample of 0.24 periods smears
/// events over as much.
const WIDEST: f64 = 0.4;
/// How many widths are tried: the narrowest is a ten-thousandth of a cycle.
pub const WIDTHS: i32 = 13;
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
/// Of events closer than a quarter of a cycle only the first counts, so that a burst is one event. Chance puts
/// events where they can be seen: windows are shares of the time that can. With `n` events and a window of
/// `w` of it that holds `k` of them, `n P(Bin(n - 1, w) >= k - 1)` bounds the chance (anchor the window at
/// each event in turn), the tail is at most `exp(-(n - 1) KL((k - 1) / (n - 1), w))`, and a window so narrow
/// tells `1 / w` frequencies apart for each cycle of the whole time.
///
/// Samples that divide a period into four and a half place its occurrences in two heaps: the window of one
/// heap may be the less likely, but holds half of the cycles only. So the window is the least likely of those
/// that hold as many events as a period must have cycles with one, or as great a share of the events where
/// there are fewer, if any does. After a long pause samples begin at the same phases each time, so no window
/// is narrower than `narrowest`, the length of a sample in cycles.
pub fn crowding(times: &[f64], frequency: f64, exposure: &Exposure, narrowest: f64) -> Option<Crowding> {
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
    let places: Vec<f64> = phases.iter().map(|phase| exposure.before(*phase)).collect();
    let events = phases.len() as f64;
    let enough = COVERAGE * events.min(exposure.cycles);
    let mut least: Option<Crowding> = None;
    let mut least_of_most: Option<Crowding> = None;
    for halvings in 0..WIDTHS {
        let width = WIDEST * 0.5_f64.powi(halvings);
        if halvings > 0 && width * exposure.share < narrowest {
            break;
        }
        let window = densest(&places, width);
        let held = window.count as f64;
        let share = (held - 1.0) / (events - 1.0);
        let ln_chance = events.ln() - (events - 1.0) * divergence(share, width) - width.ln();
        let lesser = |one: &Option<Crowding>| one.is_none_or(|one| ln_chance < one.ln_chance);
        // A share of what can be seen is a smaller share of the cycle where much cannot.
        let crowding = Crowding { width: window.reach(&phases).max(width * exposure.share).min(width), ln_chance };
        if lesser(&least) {
            least = Some(crowding);
        }
        if held >= enough && lesser(&least_of_most) {
            least_of_most = Some(crowding);
        }
    }
    let least = least?;
    Some(Crowding { width: least_of_most.unwrap_or(least).width, ..least })
}

/// A window of phase and how many of the phases lie in it.
pub struct Window {
    /// Where the first of them is among all.
    first: usize,
    pub count: usize,
    /// The mean of the phases in it.
    pub centre: f64,
}

impl Window {
    /// How far apart the first and the last of its events are by another measure of their phases.
    fn reach(&self, phases: &[f64]) -> f64 {
        let last = self.first + self.count - 1;
        phases[last % phases.len()] - phases[self.first] + if last >= phases.len() { 1.0 } else { 0.0 }
    }
}

/// Find the window of `width` that holds most of the ascending `phases`, around the circle.
pub fn densest(phases: &[f64], width: f64) -> Window {
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
    let first = best.1.start;
    let centre = best.1.map(phase).sum::<f64>() / best.0.max(1) as f64;
    Window { first, count: best.0, centre }
}

/// How much evidence each trial gives that the rate is `share` and not `expected`, in nats; 0 unless it is
/// higher.
pub fn divergence(share: f64, expected: f64) -> f64 {
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
