//! The search for periods among the events of one level.

use super::DEAR;
use super::events::{self, Event, Level, Side};
use super::exposure::Exposure;
use super::fold::{self, Comb, Fold, Stretch};
use super::phase::{COVERAGE, FALSE_ALARM, OCCURRENCES_MIN, WIDTHS, crowding};
use super::spectrum::{Spectrum, rayleigh, span};
use crate::series::Series;

/// Two frequencies closer than this share are one cause found at two levels.
const SAME_FREQUENCY: f64 = 2e-3;
/// The events that are searched, from the start of the series.
const EVENTS_MAX: usize = 1 << 14;
/// Events of a window of the periodogram, and how many windows are added up.
const WINDOW: usize = 512;
const WINDOWS: usize = 4;
/// Peaks of a level that are tested before it is given up.
const PEAKS_MAX: usize = 8;
/// Peaks of a level that may fail.
const FAILURES_MAX: usize = 3;
/// With fewer events a peak cannot be higher than chance makes it, and only the test decides.
const FEW_EVENTS: usize = 64;
/// Periods a sample: at half of it the samples' own rhythm would show.
const FREQUENCY_MAX: f64 = 0.45;
/// Events that decide which of several harmonics is the fundamental.
const FOLDED_MAX: usize = 1 << 12;
/// Cycles that a window must hold.
const CYCLES_MIN: f64 = 2.5;
/// Where events hide more than the rest of the time, their ends may keep the time better than their starts.
const SIDES_APART: f64 = 0.95;
/// What takes so many times as much as another of the same period is its cause.
const TAKES_MORE: f64 = 1.2;
/// What comes less than so many times as often as a whole fraction of its frequency is that fraction.
const MORE_OFTEN: f64 = 1.5;
/// Otherwise a level must be clearer by this share of cycles to be preferred to a lower one.
const CLEARER: f64 = 0.01;

/// A frequency that passed the tests on the searched events.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    pub comb: Comb,
    /// From where samples are events.
    pub level: Level,
    /// Frequencies closer than this lose less than half a cycle over the searched time.
    pub resolution: f64,
    /// How much more often events are in phase than half a cycle apart.
    pub contrast: f64,
    /// The median cost of an occurrence, in units.
    pub cost: f64,
    /// How often it occurs at about its cost, a unit of time.
    pub rate: f64,
}

impl Candidate {
    /// Whether both are one cause, found at two levels.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let apart = (self.comb.frequency - other.comb.frequency).abs();
        apart <= (SAME_FREQUENCY * self.comb.frequency).max(self.resolution).max(other.resolution)
    }

    /// Whether this says more of the cause that both are: what takes clearly more is the cause itself, and not
    /// what comes after it; else what stands out more clearly. A low level adds noise, a high one cuts
    /// occurrences off; of equals the lower sees every cost.
    pub fn is_better_than(&self, lower: &Self) -> bool {
        if self.taken() > TAKES_MORE * lower.taken() {
            return true;
        }
        lower.taken() <= TAKES_MORE * self.taken() && self.contrast > lower.contrast + CLEARER
    }

    /// What all occurrences take, as a share of the time.
    pub fn taken(&self) -> f64 {
        self.cost * self.rate
    }

    /// Whether it is another at several times its frequency: it occurs hardly more often, as all its other
    /// cycles lie in the dark, or have nothing.
    pub fn is_multiple_of(&self, slower: &Self) -> bool {
        let ratio = self.comb.frequency / slower.comb.frequency;
        let apart = (ratio - ratio.round()).abs() * slower.comb.frequency;
        let exact = (SAME_FREQUENCY * slower.comb.frequency).max(self.resolution).max(slower.resolution);
        ratio > 1.5 && apart <= exact && self.rate < MORE_OFTEN * slower.rate
    }
}

/// Find the periods among the events of one of `levels` levels.
pub fn search_level(series: &Series<'_>, level: &Level, levels: usize) -> Vec<Candidate> {
    let events = events::in_blocks(series, level, 0..series.block_count(), EVENTS_MAX);
    let Some(last) = events.last() else { return Vec::new() };
    let whole = if events.len() < EVENTS_MAX { series.span as f64 } else { last.end };
    let dark: f64 = events.iter().map(|event| event.dark(level)).map(|(from, to)| to - from).sum();
    let mut search = Search {
        explained: vec![false; events.len()],
        level: *level,
        events,
        whole,
        seen: (whole - dark).max(0.0),
        frequency_max: FREQUENCY_MAX * series.count() as f64 / series.span as f64,
        ln_trials: (levels as f64 * PEAKS_MAX as f64 * f64::from(WIDTHS)).ln(),
        rejected: Vec::new(),
        spectrum: None,
    };
    let mut found: Vec<Candidate> = Vec::new();
    for _ in 0..PEAKS_MAX {
        let Some(peak) = search.next_peak() else { break };
        let accepted = search.test(&peak).filter(|new| !found.iter().any(|old| old.is_same_as(new)));
        match accepted {
            Some(candidate) => {
                search.explain(&candidate);
                found.push(candidate);
            }
            None => search.rejected.push(peak.frequency),
        }
        if search.rejected.len() > FAILURES_MAX {
            break;
        }
    }
    found
}

/// A frequency at which the periodogram is high.
struct Peak {
    frequency: f64,
    step: f64,
}

struct Search {
    events: Vec<Event>,
    level: Level,
    /// Which events belong to a period that was found.
    explained: Vec<bool>,
    /// The time that the events come from, in units.
    whole: f64,
    /// How much of it is not hidden by long events.
    seen: f64,
    frequency_max: f64,
    ln_trials: f64,
    rejected: Vec<f64>,
    /// Of the events that are not explained; made anew when more are.
    spectrum: Option<Spectrum>,
}

impl Search {
    fn unexplained(&self) -> Vec<f64> {
        let all = self.events.iter().zip(&self.explained);
        all.filter(|(_, explained)| !**explained).map(|(event, _)| event.start).collect()
    }

    /// Above this frequency so few events cannot cover the cycles.
    fn highest(&self, events: usize) -> f64 {
        self.frequency_max.min((events as f64 + 1.0) / (COVERAGE * self.seen))
    }

    fn next_peak(&mut self) -> Option<Peak> {
        if self.spectrum.is_none() {
            self.spectrum = self.spectrum();
        }
        let spectrum = self.spectrum.as_ref()?;
        let (frequency, power) = spectrum.peak(&self.rejected)?;
        let events = self.explained.iter().filter(|explained| !**explained).count();
        let by_chance = ln_tail(power, windows(events)) + spectrum.independent().ln() > 0.0;
        (events < FEW_EVENTS || !by_chance).then(|| Peak { frequency, step: spectrum.step() })
    }

    fn spectrum(&self) -> Option<Spectrum> {
        let times = self.unexplained();
        if times.len() < OCCURRENCES_MIN {
            return None;
        }
        let count = windows(times.len());
        let windows: Vec<&[f64]> = (0..count)
            .map(|window| {
                let first = window * times.len() / count;
                &times[first..(first + WINDOW).min(times.len())]
            })
            .collect();
        let longest = windows.iter().map(|times| span(times)).fold(0.0, f64::max);
        let lowest = CYCLES_MIN / longest;
        let highest = self.highest(times.len());
        (longest > 0.0 && highest > lowest).then(|| Spectrum::of_windows(&windows, lowest, highest))
    }

    fn test(&self, peak: &Peak) -> Option<Candidate> {
        let unexplained: Vec<&Event> =
            self.events.iter().zip(&self.explained).filter(|(_, explained)| !**explained).map(|(one, _)| one).collect();
        let starts: Vec<f64> = unexplained.iter().map(|event| event.start).collect();
        let frequency = fundamental(&starts, refine(&starts, peak.frequency, peak.step));
        let by_starts = self.crowd(Side::Start, &starts, frequency);
        let by_ends = (self.seen < SIDES_APART * self.whole).then(|| {
            let ends: Vec<f64> = unexplained.iter().map(|event| event.end).collect();
            let frequency = fundamental(&ends, refine(&ends, peak.frequency, peak.step));
            self.crowd(Side::End, &ends, frequency)
        });
        let crowded = [by_starts, by_ends.flatten()].into_iter().flatten();
        let (comb, ln_chance) = crowded.min_by(|one, other| one.1.total_cmp(&other.1))?;
        let cycles_of_highest = self.highest(starts.len()) * self.whole;
        if ln_chance + cycles_of_highest.ln() + self.ln_trials > FALSE_ALARM.ln() {
            return None;
        }
        let mut fold = self.fold(&comb, |_| false, |_| ());
        if !fold.is_periodic() {
            return None;
        }
        // What another period has left shows the cost, if enough is left; together they cost more.
        let mut own = self.fold(&comb, |position| self.explained[position], |_| ());
        if 2 * own.hits < fold.hits {
            own = self.fold(&comb, |_| false, |_| ());
        }
        let (cost, _) = own.cost_quantiles();
        // A pause that outlasts its period is one of a slower period, whose other cycles are in the dark.
        if cost * comb.frequency >= 1.0 {
            return None;
        }
        let (level, resolution, contrast) = (self.level, 0.5 / self.whole, fold.contrast());
        let (of_all, _) = fold.cost_quantiles();
        let rate = fold.dearer_than(DEAR * of_all) as f64 / self.whole;
        Some(Candidate { comb, level, resolution, contrast, cost, rate })
    }

    fn crowd(&self, side: Side, times: &[f64], frequency: f64) -> Option<(Comb, f64)> {
        let dark = self.events.iter().map(|event| event.dark(&self.level));
        let exposure = Exposure::new(dark, frequency, self.whole);
        let crowding = crowding(times, frequency, &exposure, self.level.ordinary * frequency)?;
        Some((Comb { frequency, width: crowding.width, side }, crowding.ln_chance))
    }

    fn explain(&mut self, candidate: &Candidate) {
        let mut explained = std::mem::take(&mut self.explained);
        self.fold(&candidate.comb, |_| false, |position| explained[position] = true);
        self.explained = explained;
        self.spectrum = None;
    }

    /// Fold all events, whether explained or not, segment by segment.
    fn fold(&self, comb: &Comb, others: impl Fn(usize) -> bool, mut removes: impl FnMut(usize)) -> Fold {
        let segments = fold::segments(self.whole * comb.frequency);
        let mut first = 0;
        let mut from = 0.0;
        let mut whole = Fold::default();
        for segment in 1..=segments {
            let to = self.whole * segment as f64 / segments as f64;
            let next = if segment == segments {
                self.events.len()
            } else {
                self.events.partition_point(|event| event.start < to)
            };
            let stretch = Stretch { events: &self.events[first..next], level: &self.level, from, to };
            whole = whole.merge(Fold::new(
                stretch,
                comb,
                |position| others(first + position),
                |position| removes(first + position),
            ));
            (first, from) = (next, to);
        }
        whole
    }
}

/// How many windows of so many events are added up.
fn windows(events: usize) -> usize {
    (events / WINDOW).clamp(1, WINDOWS)
}

/// The logarithm of a bound on the tail of a sum of `windows` exponential variables of mean 1.
fn ln_tail(power: f64, windows: usize) -> f64 {
    let windows = windows as f64;
    if power <= windows { 0.0 } else { windows - power + windows * (power / windows).ln() }
}

/// Make a frequency as exact as all events allow, over ever longer stretches, each within the error of the
/// one before.
fn refine(times: &[f64], frequency: f64, step: f64) -> f64 {
    let mut best = frequency;
    let mut uncertainty = step;
    let mut concentration = 0.0;
    let mut events = WINDOW.min(times.len());
    loop {
        let part = &times[..events];
        let fine = 1.0 / (4.0 * span(part));
        #[allow(clippy::cast_possible_truncation)] // a few dozen
        let steps = (uncertainty / fine).ceil().min(64.0) as i32;
        let (refined, power) = (-steps..=steps)
            .map(|offset| best + f64::from(offset) * fine)
            .map(|frequency| (frequency, rayleigh(part, frequency)))
            .fold((best, 0.0), |one, other| if other.1 > one.1 { other } else { one });
        // The clock of the cause drifts against ours over so long a time: what was found before is better.
        if power / (events as f64) < 0.5 * concentration {
            return best;
        }
        concentration = power / events as f64;
        best = polish(part, refined);
        uncertainty = fine;
        if events == times.len() {
            return best;
        }
        events = (4 * events).min(times.len());
    }
}

/// Fold a refined frequency onto the lowest of its whole fractions that has a fair share of its power.
fn fundamental(times: &[f64], frequency: f64) -> f64 {
    let times = &times[..times.len().min(FOLDED_MAX)];
    let enough = 0.5 * rayleigh(times, frequency);
    // A fraction with less than one cycle in all the time has the power of a single window.
    let lowest = CYCLES_MIN / span(times);
    (2..=12)
        .rev()
        .map(|divisor| frequency / f64::from(divisor))
        .find(|&fraction| fraction >= lowest && rayleigh(times, fraction) >= enough)
        .unwrap_or(frequency)
}

/// Remove what is left of a drift of the phase, by a straight line through the phases near their mean.
fn polish(times: &[f64], mut frequency: f64) -> f64 {
    let origin = times.first().copied().unwrap_or(0.0);
    for _ in 0..2 {
        let turn = |time: &f64| std::f64::consts::TAU * ((time - origin) * frequency).fract();
        let (sine, cosine) =
            times.iter().map(|time| turn(time).sin_cos()).fold((0.0, 0.0), |sum, (s, c)| (sum.0 + s, sum.1 + c));
        let mean = f64::atan2(sine, cosine) / std::f64::consts::TAU;
        let near: Vec<(f64, f64)> = times
            .iter()
            .map(|time| {
                let phase = (time - origin) * frequency - mean;
                (time - origin, phase - phase.round())
            })
            .filter(|(_, distance)| distance.abs() < 0.25)
            .collect();
        let count = near.len().max(1) as f64;
        let middle = near.iter().map(|point| point.0).sum::<f64>() / count;
        let (product, square) = near.iter().fold((0.0, 0.0), |sum, (time, distance)| {
            (sum.0 + (time - middle) * distance, sum.1 + (time - middle).powi(2))
        });
        if square > 0.0 {
            // Events that come later and later in phase are slower than assumed.
            frequency -= product / square;
        }
    }
    frequency
}
