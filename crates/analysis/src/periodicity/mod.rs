//! Which periodic causes lengthen the samples, how often, and by how much: found from the samples alone.
//!
//! # Definition
//! An *event* at a level is a run of adjacent samples that are all at least that long; it happens when the
//! first of them starts, or when the last ends if that side keeps the time better (a quota is used up sooner or
//! later, and filled up on time), and its overhead is what the run lasted more than that many ordinary samples
//! (their median). The rest of a long event is *dark*: nothing else can be seen in it. A *period* is a
//! frequency at which events of some level
//! 1. crowd in one window of phase more than chance allows, over all frequencies, windows and levels that
//!    were tried ([`phase::crowding`]): probability below [`phase::FALSE_ALARM`] for a series without any
//!    periodic cause, reckoned in the time that can be seen ([`exposure`]), and
//! 2. are seen in at least [`phase::COVERAGE`] of the cycles in which they could be, beyond what chance puts
//!    there, and not always in the same ones of every 2 to 20 ([`fold`]): so a multiple of two locked rates
//!    would look, and
//! 3. are shorter than the period, come clearly more often than those of a slower one of which this would be a
//!    multiple, and cost more, in half of the cycles, than what faster periods take there, and
//! 4. take at least [`LOST_MIN`] of the lost time.
//!
//! Of one frequency found at several levels the one that takes most is the cause; what comes after a pause (cold
//! caches, noise that cannot be seen at other times) has its frequency too. The cost of a period is that of the
//! events which no dearer one explains.
//!
//! # Search
//! Levels are the durations exceeded by 36 %, 23 %, 14 % ... of the samples, up to the maximum
//! ([`events::levels`]), so that a 50 ms cause at 1 Hz stands alone above the 3 us ticks at 250 Hz. At each
//! level the Rayleigh periodogram `|sum exp(2 pi i f t)|^2 / n` of short windows, added up, names a
//! frequency; it is folded onto its fundamental, refined over ever longer stretches, tested, and its events
//! are taken away before the next search. A frequency above `n / (COVERAGE T)` cannot have its coverage,
//! which bounds the search. The period is then measured over the whole series, with its phase followed from
//! stretch to stretch, so that a drift of a few ppm between two clocks does not smear it.
//!
//! # Limits
//! A cause is placed only to within one sample, so periods under 2.2 samples cannot be found, nor can those
//! seen fewer than four times. The search looks at the first 16,384 events of a level: what begins later and
//! rarer is not found. Of two locked causes (250 Hz and 100 Hz) a common multiple is named in rare
//! alignments: in 1 of 158 simulated series. Two causes of equal period but different phase are reported as
//! one. A cause whose phase jumps now and then by a good part of its period is not found. A cause whose events
//! are among those of a faster one (every fourth tick is dearer) is reported beside it.
//!
//! # Sources
//! M. S. Bartlett, *The spectral analysis of point processes*, J. R. Stat. Soc. B 25 (1963); K. V. Mardia &
//! P. E. Jupp, *Directional Statistics* (2000), ch. 6 (Rayleigh test); R. Buccheri et al., *Search for pulsed
//! gamma-ray emission from radio pulsars*, Astron. Astrophys. 128 (1983) (periodograms of event times); J. I.
//! Naus, *The distribution of the size of the maximum cluster of points on a line*, JASA 60 (1965) (scan
//! statistic); H. Chernoff (1952) (the tail bound).

mod events;
mod exposure;
mod fold;
mod phase;
mod search;
mod spectrum;

use rayon::prelude::*;
use serde::Serialize;

use crate::series::Series;
use fold::{Fold, Stretch};
use search::{Candidate, search_level};

/// An event costs more than others explain if it costs so many times what they do ...
const OWN_COST: f64 = 1.5;
/// ... and a period must do so in this share of its cycles.
const UNEXPLAINED: f64 = 0.5;
/// What takes a smaller share of the lost time is not told.
const LOST_MIN: f64 = 1e-3;
/// What costs at least this share of another period's cost is its occurrence, if it is in phase.
const DEAR: f64 = 0.5;

/// A periodic cause of lost time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Period {
    /// From one occurrence to the next.
    pub period_s: f64,
    /// Occurrences a second.
    pub rate_hz: f64,
    /// The median cost of an occurrence: its overhead less that of ordinary samples.
    pub cost_p50_ns: f64,
    /// The 90th percentile of the same.
    pub cost_p90_ns: f64,
    pub events: u64,
    /// The share of the cycles in which one was seen, less what chance puts there.
    pub coverage: f64,
    /// The share of all time lost over the floor that it explains.
    pub lost_share: f64,
    /// The overhead above which samples were looked at when it was found.
    pub level_ns: f64,
}

impl Series<'_> {
    /// Find the periodic causes, the one that takes most time first.
    pub fn periods(&self) -> Vec<Period> {
        let levels = events::levels(self);
        let found: Vec<Vec<Candidate>> =
            levels.par_iter().map(|level| search_level(self, level, levels.len())).collect();
        let mut distinct: Vec<Candidate> = Vec::new();
        for candidate in found.into_iter().flatten() {
            match distinct.iter_mut().find(|other| other.is_same_as(&candidate)) {
                Some(other) if candidate.is_better_than(other) => *other = candidate,
                Some(_) => {}
                None => distinct.push(candidate),
            }
        }
        let all = distinct.clone();
        distinct.retain(|candidate| !all.iter().any(|other| candidate.is_multiple_of(other)));
        let kept = self.with_own_cost(distinct);
        let mut periods: Vec<Period> =
            kept.iter().filter_map(|candidate| self.measure(candidate, &dearer(candidate, &kept))).collect();
        periods.retain(|period| period.lost_share >= LOST_MIN);
        periods.sort_by(|one, other| other.lost_share.total_cmp(&one.lost_share));
        periods
    }

    /// Leave out what others explain, the slower by the faster: where 250 Hz and 100 Hz meet, twenty
    /// milliseconds apart, both cost their own, and nothing is left for 50 Hz.
    fn with_own_cost(&self, mut candidates: Vec<Candidate>) -> Vec<Candidate> {
        candidates.sort_by(|one, other| other.comb.frequency.total_cmp(&one.comb.frequency));
        let mut kept: Vec<Candidate> = Vec::new();
        for candidate in candidates {
            let enough = |other: &Candidate| other.cost * OWN_COST * kept.len() as f64 > candidate.level.least();
            let faster: Vec<Candidate> = kept.iter().copied().filter(enough).collect();
            if faster.is_empty() || self.covers_beyond(&candidate, &faster) {
                kept.push(candidate);
            }
        }
        kept
    }

    /// Whether a candidate costs more than the others that are in phase in most of its cycles.
    fn covers_beyond(&self, candidate: &Candidate, others: &[Candidate]) -> bool {
        let fold = self.fold_pieces(candidate, |stretch| {
            let mut explained = vec![0.0; stretch.events.len()];
            for other in others {
                occurrences(stretch, other, |position| explained[position] += other.cost);
            }
            let events = stretch.events.iter().zip(explained);
            events.map(|(event, explained)| explained > 0.0 && event.overhead < OWN_COST * explained).collect()
        });
        fold.all_coverage() >= UNEXPLAINED
    }

    /// Fold the events of a candidate's level piece by piece, so that a drift of its phase does not smear it;
    /// `others` says of the events of a piece which belong to something else.
    fn fold_pieces(&self, candidate: &Candidate, others: impl Fn(Stretch<'_>) -> Vec<bool> + Sync) -> Fold {
        let segments = fold::segments(self.span as f64 * candidate.comb.frequency);
        let blocks_a_segment = self.block_count().div_ceil(segments).max(1);
        let pieces: Vec<usize> = (0..self.block_count()).step_by(blocks_a_segment).collect();
        pieces
            .into_par_iter()
            .map(|first| {
                let blocks = first..(first + blocks_a_segment).min(self.block_count());
                let events = events::in_blocks(self, &candidate.level, blocks.clone(), usize::MAX);
                let from = self.blocks[blocks.start].start as f64;
                let to = self.blocks.get(blocks.end).map_or(self.span, |block| block.start) as f64;
                let stretch = Stretch { events: &events, level: &candidate.level, from, to };
                let others = others(stretch);
                Fold::new(stretch, &candidate.comb, |position| others[position], |_| ())
            })
            .reduce(Fold::default, Fold::merge)
    }

    /// Measure a candidate over the whole series; `None` if it does not hold there.
    fn measure(&self, candidate: &Candidate, dearer: &[Candidate]) -> Option<Period> {
        let mut fold = self.fold_pieces(candidate, |stretch| {
            let mut others = vec![false; stretch.events.len()];
            for other in dearer {
                occurrences(stretch, other, |position| others[position] = true);
            }
            others
        });
        if !fold.is_periodic() {
            return None;
        }
        let (cost_p50, cost_p90) = fold.cost_quantiles();
        let lost = (self.moments.mean - self.floor as f64) * self.count() as f64;
        Some(Period {
            period_s: 1.0 / (candidate.comb.frequency * self.units_per_s),
            rate_hz: candidate.comb.frequency * self.units_per_s,
            cost_p50_ns: self.nanoseconds(cost_p50),
            cost_p90_ns: self.nanoseconds(cost_p90),
            events: fold.hits,
            coverage: fold.coverage(),
            lost_share: (fold.overhead() / lost).min(1.0),
            level_ns: self.nanoseconds(candidate.level.least()),
        })
    }
}

/// The events that are dear enough to be occurrences of a candidate, and in phase with it.
fn occurrences(stretch: Stretch<'_>, candidate: &Candidate, mut takes: impl FnMut(usize)) {
    let is_dear = |event: &events::Event| event.overhead >= DEAR * candidate.cost;
    let (positions, events): (Vec<usize>, Vec<events::Event>) =
        stretch.events.iter().copied().enumerate().filter(|(_, event)| is_dear(event)).unzip();
    Fold::new(
        Stretch { events: &events, ..stretch },
        &candidate.comb,
        |_| false,
        |position| takes(positions[position]),
    );
}

/// The others that cost clearly more.
fn dearer(candidate: &Candidate, all: &[Candidate]) -> Vec<Candidate> {
    all.iter().copied().filter(|other| DEAR * other.cost > candidate.cost).collect()
}
