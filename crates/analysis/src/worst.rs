//! The longest samples, exactly, with their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;
use serde::Serialize;

use crate::series::Series;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WorstSample {
    /// Its index in the series.
    pub index: u64,
    /// When it started, from the start of sample 0.
    pub start_s: f64,
    /// How long it lasted.
    pub duration_ns: f64,
}

impl Series<'_> {
    /// Find the `wanted` longest samples, longest first; of equals the earlier first.
    pub fn worst(&self, wanted: usize) -> Vec<WorstSample> {
        let mut longest: Vec<(u64, Reverse<usize>)> =
            self.pieces().into_par_iter().flat_map_iter(|blocks| self.longest(blocks, wanted)).collect();
        longest.sort_unstable_by(|one, other| other.cmp(one));
        longest.truncate(wanted);
        longest
            .into_iter()
            .map(|(duration, Reverse(index))| WorstSample {
                index: index as u64,
                start_s: self.seconds(self.start(index)),
                duration_ns: self.nanoseconds(duration as f64),
            })
            .collect()
    }

    fn longest(&self, blocks: std::ops::Range<usize>, wanted: usize) -> Vec<(u64, Reverse<usize>)> {
        let mut heap: BinaryHeap<Reverse<(u64, Reverse<usize>)>> = BinaryHeap::with_capacity(wanted + 1);
        for block in blocks {
            // A heap that is full only takes what is longer than its shortest; most blocks hold nothing so
            // long.
            let enough = if heap.len() < wanted { 0 } else { heap.peek().map_or(u64::MAX, |least| least.0.0) };
            if wanted == 0 || (heap.len() == wanted && self.blocks[block].max <= enough) {
                continue;
            }
            for index in self.block_range(block) {
                let entry = Reverse((self.duration(index), Reverse(index)));
                if heap.len() < wanted {
                    heap.push(entry);
                } else if heap.peek().is_some_and(|least| entry < *least) {
                    heap.pop();
                    heap.push(entry);
                }
            }
        }
        heap.into_iter().map(|entry| entry.0).collect()
    }
}
