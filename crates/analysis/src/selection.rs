//! Exact order statistics without sorting.
//!
//! The bins of [`crate::buckets`] say in which bin a rank lies; one pass then looks only at the bins that
//! hold a wanted rank. A narrow bin is counted value by value, a wide one with few samples in it is gathered
//! and sorted, so that memory stays below four bytes a sample of the bin or a value of its width, whichever
//! is less. The pass goes through one series after the other, which need not be there at the same time.

use rayon::prelude::*;

use crate::buckets::{BUCKETS, bucket_of, lower_bound, width};
use crate::series::Series;

const NO_SLOT: u16 = u16::MAX;

/// A bin that holds wanted ranks.
#[derive(Debug)]
struct Slot {
    low: u32,
    width: u64,
    count: u64,
}

/// What one worker saw of a slot.
#[derive(Debug)]
enum Tally {
    Counted(Vec<u32>),
    Gathered(Vec<u32>),
}

impl Slot {
    fn tally(&self) -> Tally {
        if self.count < self.width {
            Tally::Gathered(Vec::new())
        } else {
            Tally::Counted(vec![0; usize::try_from(self.width).unwrap_or(usize::MAX)])
        }
    }

    /// The value at a rank (from 0) of this slot.
    fn value_at(&self, tally: &Tally, rank: u64) -> u64 {
        match tally {
            Tally::Gathered(sorted) => u64::from(sorted[usize::try_from(rank).unwrap_or(usize::MAX)]),
            Tally::Counted(counts) => {
                let mut seen = 0;
                let offset = counts.iter().position(|&count| {
                    seen += u64::from(count);
                    seen > rank
                });
                u64::from(self.low) + offset.unwrap_or(counts.len()) as u64
            }
        }
    }
}

/// Where a rank lies.
#[derive(Debug)]
enum Place {
    Known(u64),
    InSlot { slot: usize, rank: u64 },
}

/// The search for the values at some ranks of several series together, of which one is there at a time.
#[derive(Debug)]
pub struct Selection {
    places: Vec<Place>,
    slots: Vec<Slot>,
    slot_of: Vec<u16>,
    tallies: Vec<Tally>,
}

impl Selection {
    /// Finds the bins of ranks (from 1), every one of which must be in `1..=` the number of samples.
    ///
    /// `counts` says how many unsaturated samples of all series lie in each bin, `saturated` the true values of
    /// the others.
    pub fn new(counts: &[u64], mut saturated: Vec<u64>, ranks: &[u64]) -> Self {
        saturated.sort_unstable();
        let cumulative = cumulative_counts(counts);
        let mut slots: Vec<Slot> = Vec::new();
        let mut slot_of = vec![NO_SLOT; BUCKETS];
        let places = ranks
            .iter()
            .map(|rank| {
                let bucket = cumulative.partition_point(|&up_to| up_to < *rank);
                if bucket == BUCKETS {
                    let beyond = usize::try_from(rank - cumulative[BUCKETS - 1] - 1).unwrap_or(usize::MAX);
                    return Place::Known(saturated[beyond]);
                }
                if width(bucket) == 1 {
                    return Place::Known(lower_bound(bucket));
                }
                let before = if bucket == 0 { 0 } else { cumulative[bucket - 1] };
                if slot_of[bucket] == NO_SLOT {
                    slot_of[bucket] = u16::try_from(slots.len()).unwrap_or(NO_SLOT);
                    let count = cumulative[bucket] - before;
                    let low = u32::try_from(lower_bound(bucket)).unwrap_or(u32::MAX);
                    slots.push(Slot { low, width: width(bucket), count });
                }
                Place::InSlot { slot: usize::from(slot_of[bucket]), rank: rank - before - 1 }
            })
            .collect();
        let tallies = slots.iter().map(Slot::tally).collect();
        Self { places, slots, slot_of, tallies }
    }

    /// Looks at the samples of one of the series.
    pub fn add(&mut self, part: &Series<'_>) {
        if self.slots.is_empty() {
            return;
        }
        let (slots, slot_of) = (&self.slots, &self.slot_of);
        let pieces: Vec<Vec<Tally>> = part
            .pieces()
            .into_par_iter()
            .map(|blocks| {
                let mut tallies: Vec<Tally> = slots.iter().map(Slot::tally).collect();
                let rows = part.block_range(blocks.start).start..part.block_range(blocks.end - 1).end;
                for &row in &part.rows()[rows] {
                    let slot = slot_of[bucket_of(row)];
                    if slot != NO_SLOT && row != u32::MAX {
                        let slot = usize::from(slot);
                        match &mut tallies[slot] {
                            Tally::Counted(counts) => counts[(row - slots[slot].low) as usize] += 1,
                            Tally::Gathered(values) => values.push(row),
                        }
                    }
                }
                tallies
            })
            .collect();
        for (total, piece) in pieces.into_iter().flat_map(|tallies| tallies.into_iter().enumerate()) {
            merge(&mut self.tallies[total], piece);
        }
    }

    /// The values at the ranks, in units, once all series have been looked at.
    pub fn values(mut self) -> Vec<u64> {
        for tally in &mut self.tallies {
            if let Tally::Gathered(values) = tally {
                values.sort_unstable();
            }
        }
        let value = |place: Place| match place {
            Place::Known(value) => value,
            Place::InSlot { slot, rank } => self.slots[slot].value_at(&self.tallies[slot], rank),
        };
        self.places.into_iter().map(value).collect()
    }
}

/// Find the values at the given ranks (from 1) of all samples of all parts together, in units.
///
/// Every rank must be in `1..=` the number of samples.
pub fn values_at_ranks(parts: &[&Series<'_>], ranks: &[u64]) -> Vec<u64> {
    let saturated = parts.iter().flat_map(|part| part.saturated_values()).collect();
    let counts = summed_counts(parts.iter().map(|part| part.counts.as_slice()));
    let mut selection = Selection::new(&counts, saturated, ranks);
    for part in parts {
        selection.add(part);
    }
    selection.values()
}

/// How many unsaturated samples of several series lie in each bin.
pub fn summed_counts<'a>(parts: impl Iterator<Item = &'a [u64]>) -> Vec<u64> {
    let mut counts = vec![0; BUCKETS];
    for part in parts {
        for (total, count) in counts.iter_mut().zip(part) {
            *total += count;
        }
    }
    counts
}

/// How many unsaturated samples lie in each bin or below it.
fn cumulative_counts(counts: &[u64]) -> Vec<u64> {
    let add = |total: &mut u64, count: &u64| {
        *total += count;
        Some(*total)
    };
    counts.iter().scan(0, add).collect()
}

fn merge(total: &mut Tally, piece: Tally) {
    match (total, piece) {
        (Tally::Counted(total), Tally::Counted(piece)) => {
            for (total, count) in total.iter_mut().zip(piece) {
                *total += count;
            }
        }
        (Tally::Gathered(total), Tally::Gathered(piece)) => total.extend(piece),
        // Both sides come from the same slot's `tally`.
        (Tally::Counted(_), Tally::Gathered(_)) | (Tally::Gathered(_), Tally::Counted(_)) => unreachable!(),
    }
}
