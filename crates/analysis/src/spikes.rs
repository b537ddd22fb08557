//! All samples beyond a threshold, with their exact places in time.

use rayon::prelude::*;

use crate::series::Series;

/// The samples that last longer than a threshold, in order of time; all columns are equally long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spikes {
    /// Index in the series.
    pub index: Vec<u64>,
    /// When each started, in units from the start of sample 0.
    pub start: Vec<u64>,
    /// How long it lasted, in units.
    pub duration: Vec<u64>,
    /// How many there are beyond the threshold, the ones left out included.
    pub total: u64,
}

impl Series<'_> {
    /// Find the samples of more than `threshold` units; of more than `most` only the longest, of equals the
    /// earlier.
    pub fn spikes(&self, threshold: u64, most: usize) -> Spikes {
        let found: Vec<(u64, u64, u64)> = self
            .pieces()
            .into_par_iter()
            .flat_map_iter(|blocks| blocks.flat_map(|block| self.spikes_of(block, threshold)))
            .collect();
        let total = found.len() as u64;
        let mut kept = found;
        if kept.len() > most {
            if let Some(last) = most.checked_sub(1) {
                kept.select_nth_unstable_by_key(last, |&(index, _, duration)| (std::cmp::Reverse(duration), index));
            }
            kept.truncate(most);
            kept.sort_unstable();
        }
        Spikes {
            index: kept.iter().map(|spike| spike.0).collect(),
            start: kept.iter().map(|spike| spike.1).collect(),
            duration: kept.iter().map(|spike| spike.2).collect(),
            total,
        }
    }

    /// Index, start and duration; a block without any costs nothing.
    fn spikes_of(&self, block: usize, threshold: u64) -> Vec<(u64, u64, u64)> {
        let mut found = Vec::new();
        if self.blocks[block].max <= threshold {
            return found;
        }
        self.visit_block(block, |index, start, duration| {
            if duration > threshold {
                found.push((index as u64, start, duration));
            }
        });
        found
    }
}
