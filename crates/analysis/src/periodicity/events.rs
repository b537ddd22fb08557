//! Levels, and events: runs of samples that are longer than a level.

use std::ops::Range;

use crate::selection::values_at_ranks;
use crate::series::Series;

/// The lowest level is exceeded by this share of the samples; with more, events run together ...
const SHARE_MAX: f64 = 0.36;
/// ... unless what is longer is so many times as long: then pauses take so much of each cycle that few
/// samples are left without one.
const SHARE_OF_PAUSES: f64 = 0.5;
const PAUSES: f64 = 1.5;
/// From one level to the next, the share of samples above it falls by this factor.
const SHARE_STEP: f64 = 1.6;
/// The highest level is exceeded by at least so many samples.
const ABOVE_MIN: u64 = 4;

/// A run of adjacent samples that are all longer than a level.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// When the first of them started, in units.
    pub start: f64,
    /// When the last of them ended.
    pub end: f64,
    /// What they lasted more than that many ordinary samples, in units.
    pub overhead: f64,
}

impl Event {
    /// When it happened, seen from that side.
    pub fn at(&self, side: Side) -> f64 {
        match side {
            Side::Start => self.start,
            Side::End => self.end,
        }
    }

    /// From when to when nothing else can be seen: a cause that comes during the first sample would have been
    /// placed at its start.
    pub fn dark(&self, level: &Level) -> (f64, f64) {
        ((self.start + level.ordinary).min(self.end), self.end)
    }
}

/// Which side of an event keeps the time. A quota is used up sooner or later, and filled up again on time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Start,
    End,
}

/// A duration above which samples are events.
#[derive(Debug, Clone, Copy)]
pub struct Level {
    /// The shortest duration that counts, in units.
    pub duration: u64,
    /// The median of the samples that do not, in units.
    pub ordinary: f64,
}

impl Level {
    /// The least overhead of an event.
    pub fn least(&self) -> f64 {
        self.duration as f64 - self.ordinary
    }
}

/// The levels of a series, rising.
///
/// They lie at exact ranks rather than at equal ratios of cost: wherever in the distribution a cause sits,
/// some level is exceeded by its samples and at most 60 % more, and no figure for the noise has to be
/// assumed.
pub fn levels(series: &Series<'_>) -> Vec<Level> {
    let count = series.count() as u64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of `count`
    let above = |share: f64| (count as f64 * share) as u64;
    let mut ranks = Vec::new();
    if above(SHARE_OF_PAUSES) >= ABOVE_MIN {
        ranks.push(count - above(SHARE_OF_PAUSES));
    }
    let mut share = SHARE_MAX;
    while above(share) >= ABOVE_MIN {
        ranks.push(count - above(share));
        share /= SHARE_STEP;
    }
    // At most so many samples are longer than the value of a rank; the median of all others is at half the
    // rank.
    let levels = ranks.len();
    ranks.extend_from_within(..);
    ranks[levels..].iter_mut().for_each(|rank| *rank = rank.div_ceil(2));
    let values = values_at_ranks(&[series], &ranks);
    let (reached, ordinary) = values.split_at(levels);
    let mut levels: Vec<Level> = reached
        .iter()
        .zip(ordinary)
        .map(|(reached, ordinary)| Level { duration: reached + 1, ordinary: *ordinary as f64 })
        .collect();
    if let [lowest, next, ..] = levels[..]
        && (next.duration as f64) < PAUSES * lowest.duration as f64
    {
        levels.remove(0);
    }
    levels.dedup_by_key(|level| level.duration);
    levels
}

/// The events of a level in some blocks, in order of time; the search stops with the block that reaches
/// `limit`.
pub fn in_blocks(series: &Series<'_>, level: &Level, blocks: Range<usize>, limit: usize) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut next_in_run = usize::MAX;
    for block in blocks {
        if events.len() >= limit {
            break;
        }
        if series.blocks[block].max < level.duration {
            continue;
        }
        series.visit_block(block, |index, start, duration| {
            if duration < level.duration {
                return;
            }
            let overhead = duration as f64 - level.ordinary;
            let end = (start + duration) as f64;
            match events.last_mut() {
                Some(event) if index == next_in_run => {
                    event.overhead += overhead;
                    event.end = end;
                }
                _ => events.push(Event { start: start as f64, end, overhead }),
            }
            next_in_run = index + 1;
        });
    }
    events
}
