//! Which periodic causes lengthen the samples, how often, and by how much: found from the samples alone.
//!
//! # Definition
//! An *event* at a level is a run of adjacent samples that are all at least that long; it happens when the
//! first of them starts, and its overhead is what the run lasted more than that many ordinary samples (their
//! median). A *period* is a frequency at which events of some level
//! 1. crowd in one window of phase more than chance allows, over all frequencies, windows and levels that
//!    were tried ([`phase::crowding`]): probability below [`phase::FALSE_ALARM`] for a series without any
//!    periodic cause, and
//! 2. are seen in at least [`phase::COVERAGE`] of all cycles, not counting what is seen half a cycle apart as
//!    well, and
//! 3. if that is less than [`CLEAR`], still in [`UNEXPLAINED`] of them without the events of periods that are
//!    seen in more.
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
//! one. A cause whose events are among those of a faster one (every fourth tick is dearer) is reported beside
//! it; their shares of lost time then overlap.
//!
//! # Sources
//! M. S. Bartlett, *The spectral analysis of point processes*, J. R. Stat. Soc. B 25 (1963); K. V. Mardia &
//! P. E. Jupp, *Directional Statistics* (2000), ch. 6 (Rayleigh test); R. Buccheri et al., *Search for pulsed
//! gamma-ray emission from radio pulsars*, Astron. Astrophys. 128 (1983) (periodograms of event times); J. I.
//! Naus, *The distribution of the size of the maximum cluster of points on a line*, JASA 60 (1965) (scan
//! statistic); H. Chernoff (1952) (the tail bound).

mod events;
mod phase;
mod search;
mod spectrum;

use rayon::prelude::*;
use serde::Serialize;

use crate::series::Series;
use search::{Candidate, search_level};

/// What is seen in this share of its cycles needs no further proof ...
const CLEAR: f64 = 0.8;
/// ... what is seen in fewer must be seen in this share by events that no better period explains.
const UNEXPLAINED: f64 = 0.5;
/// A level must be clearer by this share of cycles to be preferred to a lower one.
const CLEARER: f64 = 0.01;
/// How well a slower period must agree with two faster ones to be their coincidence: in whole cycles, and in
/// cost.
const COINCIDENCE_CYCLES: f64 = 0.02;
/// How wrong the slower rate may be, as a share: it has few occurrences.
const COINCIDENCE_DRIFT: f64 = 5e-4;
const COINCIDENCE_COST: f64 = 0.05;

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

impl Period {
    /// Whether events of this period can be among those in which `other` was seen: they are dear enough, and
    /// `other` is not simply every so many of its occurrences.
    fn may_explain(&self, other: &Self) -> bool {
        let ratio = self.rate_hz / other.rate_hz;
        let whole = ratio > 1.5 && (ratio - ratio.round()).abs() <= COINCIDENCE_CYCLES;
        self.cost_p50_ns >= other.level_ns && !whole
    }

    /// Whether it is only two faster causes that meet in one sample now and then: every so many of their
    /// cycles, at the cost of both.
    fn is_coincidence(&self, all: &[Self]) -> bool {
        let whole = |faster: &Self| {
            let ratio = faster.rate_hz / self.rate_hz;
            ratio > 1.5 && (ratio - ratio.round()).abs() <= COINCIDENCE_CYCLES + COINCIDENCE_DRIFT * ratio
        };
        let faster: Vec<&Self> = all.iter().filter(|other| whole(other)).collect();
        faster.iter().enumerate().any(|(position, one)| {
            faster[position + 1..].iter().any(|other| {
                let both = one.cost_p50_ns + other.cost_p50_ns;
                (self.cost_p50_ns - both).abs() <= COINCIDENCE_COST * both
            })
        })
    }
}

impl Series<'_> {
    /// Find the periodic causes, the one that costs most time first.
    pub fn periods(&self) -> Vec<Period> {
        let levels = events::levels(self);
        let found: Vec<Vec<Candidate>> =
            levels.par_iter().map(|level| search_level(self, level, levels.len())).collect();
        let mut distinct: Vec<Candidate> = Vec::new();
        for candidate in found.into_iter().flatten() {
            match distinct.iter_mut().find(|other| other.is_same_as(&candidate)) {
                // A low level adds noise, a high one cuts occurrences off; of equals the lowest sees every
                // cost.
                Some(other) if candidate.contrast > other.contrast + CLEARER => *other = candidate,
                Some(_) => {}
                None => distinct.push(candidate),
            }
        }
        let measured = distinct.into_iter().filter_map(|candidate| Some((candidate, self.measure(&candidate)?)));
        let mut periods = self.without_aliases(measured.collect());
        let all = periods.clone();
        periods.retain(|period| !period.is_coincidence(&all));
        periods.sort_by(|one, other| other.lost_share.total_cmp(&one.lost_share));
        periods
    }

    /// Leave out what is seen in a part of its cycles only because better periods have their events there:
    /// 250 Hz and 100 Hz together fill three quarters of the cycles of 300 Hz.
    fn without_aliases(&self, mut measured: Vec<(Candidate, Period)>) -> Vec<Period> {
        measured.sort_by(|one, other| other.1.coverage.total_cmp(&one.1.coverage));
        let mut kept: Vec<(Candidate, Period)> = Vec::new();
        for (candidate, period) in measured {
            let explaining: Vec<Candidate> =
                kept.iter().filter(|(_, better)| better.may_explain(&period)).map(|(better, _)| *better).collect();
            if period.coverage >= CLEAR || self.coverage_beyond(&candidate, &explaining) >= UNEXPLAINED {
                kept.push((candidate, period));
            }
        }
        kept.into_iter().map(|(_, period)| period).collect()
    }

    /// The coverage of a candidate by events that are in phase with none of the others.
    fn coverage_beyond(&self, candidate: &Candidate, others: &[Candidate]) -> f64 {
        let fold = self.fold_pieces(candidate, |mut events, span| {
            for other in others {
                let mut explained = vec![false; events.len()];
                phase::Fold::new(&events, other.frequency, other.width, span * other.frequency, |position| {
                    explained[position] = true;
                });
                let mut explained = explained.into_iter();
                events.retain(|_| !explained.next().unwrap_or(false));
            }
            events
        });
        fold.coverage()
    }

    /// Fold the events of a candidate's level piece by piece, so that a drift of its phase does not smear it;
    /// `choose` may take events of a piece away, and is told how long the piece is.
    fn fold_pieces(
        &self,
        candidate: &Candidate,
        choose: impl Fn(Vec<events::Event>, f64) -> Vec<events::Event> + Sync,
    ) -> phase::Fold {
        let segments = phase::segments(self.span as f64 * candidate.frequency);
        let blocks_a_segment = self.block_count().div_ceil(segments).max(1);
        let pieces: Vec<usize> = (0..self.block_count()).step_by(blocks_a_segment).collect();
        pieces
            .into_par_iter()
            .map(|first| {
                let blocks = first..(first + blocks_a_segment).min(self.block_count());
                let events = events::in_blocks(self, &candidate.level, blocks.clone(), usize::MAX);
                let end = self.blocks.get(blocks.end).map_or(self.span, |block| block.start);
                let span = (end - self.blocks[blocks.start].start) as f64;
                let events = choose(events, span);
                phase::Fold::new(&events, candidate.frequency, candidate.width, span * candidate.frequency, |_| ())
            })
            .reduce(phase::Fold::default, phase::Fold::merge)
    }

    /// Measure a candidate over the whole series; `None` if it does not hold there.
    fn measure(&self, candidate: &Candidate) -> Option<Period> {
        let mut fold = self.fold_pieces(candidate, |events, _| events);
        if !fold.is_periodic() {
            return None;
        }
        let (cost_p50, cost_p90) = fold.cost_quantiles();
        let lost = (self.moments.mean - self.floor as f64) * self.count() as f64;
        Some(Period {
            period_s: 1.0 / (candidate.frequency * self.units_per_s),
            rate_hz: candidate.frequency * self.units_per_s,
            cost_p50_ns: self.nanoseconds(cost_p50),
            cost_p90_ns: self.nanoseconds(cost_p90),
            events: fold.hits,
            coverage: fold.coverage(),
            lost_share: (fold.overhead / lost).min(1.0),
            level_ns: self.nanoseconds(candidate.level.duration as f64 - candidate.level.ordinary),
        })
    }
}
