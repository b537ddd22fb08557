//! Extremes over equal stretches of time: a figure of 65,536 points that hides no maximum of 50 million
//! samples.
//!
//! A sample belongs to the bucket in which it starts. A figure that is zoomed or made narrower may merge
//! neighbouring buckets by taking the minimum of minima and the maximum of maxima, and stays exact.

use rayon::prelude::*;
use serde::Serialize;

use crate::series::Series;

/// Extremes of the buckets that hold a sample, in order of time; all columns are equally long.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Envelope {
    pub bucket_s: f64,
    /// Which bucket, from 0; the bucket starts at `bucket * bucket_s`.
    pub bucket: Vec<u32>,
    /// Samples that start in it.
    pub count: Vec<u32>,
    pub min_ns: Vec<f64>,
    pub max_ns: Vec<f64>,
    /// When the longest sample starts, exactly.
    pub max_at_s: Vec<f64>,
}

#[derive(Clone, Copy)]
struct Bucket {
    number: u64,
    count: u32,
    min: u64,
    max: u64,
    max_start: u64,
}

impl Bucket {
    fn merge(&mut self, later: &Self) {
        self.count += later.count;
        self.min = self.min.min(later.min);
        if later.max > self.max {
            (self.max, self.max_start) = (later.max, later.max_start);
        }
    }
}

impl Series<'_> {
    /// Cut the whole time into `buckets` equal stretches and find the extremes of each.
    pub fn envelope(&self, buckets: u32) -> Envelope {
        let width = (self.span + 1).div_ceil(u64::from(buckets.max(1)));
        let pieces: Vec<Vec<Bucket>> =
            self.pieces().into_par_iter().map(|blocks| self.extremes(blocks, width)).collect();
        let mut merged: Vec<Bucket> = Vec::with_capacity(buckets as usize);
        for bucket in pieces.into_iter().flatten() {
            match merged.last_mut() {
                Some(last) if last.number == bucket.number => last.merge(&bucket),
                _ => merged.push(bucket),
            }
        }
        let column = |of: fn(&Bucket) -> u64| merged.iter().map(|bucket| self.nanoseconds(of(bucket) as f64)).collect();
        Envelope {
            bucket_s: self.seconds(width),
            bucket: merged.iter().map(|bucket| u32::try_from(bucket.number).unwrap_or(u32::MAX)).collect(),
            count: merged.iter().map(|bucket| bucket.count).collect(),
            min_ns: column(|bucket| bucket.min),
            max_ns: column(|bucket| bucket.max),
            max_at_s: merged.iter().map(|bucket| self.seconds(bucket.max_start)).collect(),
        }
    }

    fn extremes(&self, blocks: std::ops::Range<usize>, width: u64) -> Vec<Bucket> {
        let mut found = Vec::new();
        // Ends before the first sample, so that the first sample opens a bucket.
        let mut end = 0;
        let mut current = Bucket { number: 0, count: 0, min: u64::MAX, max: 0, max_start: 0 };
        for block in blocks {
            self.visit_block(block, |_, start, duration| {
                if start >= end {
                    if current.count > 0 {
                        found.push(current);
                    }
                    let number = start / width;
                    end = (number + 1) * width;
                    current = Bucket { number, count: 0, min: u64::MAX, max: 0, max_start: start };
                }
                current.count += 1;
                current.min = current.min.min(duration);
                if duration > current.max {
                    (current.max, current.max_start) = (duration, start);
                }
            });
        }
        if current.count > 0 {
            found.push(current);
        }
        found
    }
}
