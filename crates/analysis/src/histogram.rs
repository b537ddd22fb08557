//! Histograms for figures: log-spaced over everything, and linear over the crowd near the floor.

use rayon::prelude::*;
use serde::Serialize;

use crate::buckets::{BUCKETS, bucket_of, lower_bound};
use crate::selection::values_at_ranks;
use crate::series::Series;

/// Log-spaced bins a decade.
const PER_DECADE: f64 = 40.0;
/// Bins of the linear view.
const LINEAR_BINS: u64 = 256;

/// Counts of all samples in two sets of bins; a bin holds `edge[i] <= value < edge[i + 1]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Histogram {
    /// Edges of the log-spaced bins, one more than counts; all samples are inside.
    pub log_edge_ns: Vec<f64>,
    /// Samples in each log-spaced bin.
    pub log_count: Vec<u64>,
    /// Edges of equal bins from the minimum to the 99th percentile, one more than counts.
    pub linear_edge_ns: Vec<f64>,
    /// Samples in each of them.
    pub linear_count: Vec<u64>,
    /// Samples above the last linear edge.
    pub above_linear: u64,
}

impl Series<'_> {
    /// Count this series into bins.
    pub fn histogram(&self) -> Histogram {
        histogram(&[self], self)
    }
}

/// Count all samples of several series into the same bins; `None` for no series.
pub fn pooled_histogram(parts: &[&Series<'_>]) -> Option<Histogram> {
    parts.first().map(|first| histogram(parts, first))
}

fn histogram(parts: &[&Series<'_>], first: &Series<'_>) -> Histogram {
    let min = parts.iter().flat_map(|part| &part.blocks).map(|block| block.min).min().unwrap_or(0);
    let max = parts.iter().flat_map(|part| &part.blocks).map(|block| block.max).max().unwrap_or(0);
    let log_edges = log_edges(min, max);
    let log_count = log_counts(parts, &log_edges);

    let count: u64 = parts.iter().map(|part| part.count() as u64).sum();
    let near = values_at_ranks(parts, &[count - count / 100])[0];
    let bin_width = (near - min + 1).div_ceil(LINEAR_BINS).max(1);
    let bins = (near - min + 1).div_ceil(bin_width);
    let linear_count = linear_counts(parts, min, bin_width, bins);
    let above_linear = count - linear_count.iter().sum::<u64>();
    let nanoseconds = |units: u64| first.nanoseconds(units as f64);
    Histogram {
        log_edge_ns: log_edges.iter().copied().map(nanoseconds).collect(),
        log_count,
        linear_edge_ns: (0..=bins).map(|bin| nanoseconds(min + bin * bin_width)).collect(),
        linear_count,
        above_linear,
    }
}

/// Edges that are also edges of the fine bins, so that the counts are exact; the first is at most `min`, the
/// last above `max`.
fn log_edges(min: u64, max: u64) -> Vec<u64> {
    let first = bucket_of(u32::try_from(min).unwrap_or(u32::MAX));
    let last = bucket_of(u32::try_from(max).unwrap_or(u32::MAX)) + 1;
    let ratio = 10_f64.powf(1.0 / PER_DECADE);
    let mut edges = vec![lower_bound(first)];
    let mut wanted = edges[0].max(1) as f64;
    for bucket in first + 1..last {
        let edge = lower_bound(bucket);
        if edge as f64 >= wanted * ratio {
            edges.push(edge);
            wanted = edge as f64;
        }
    }
    edges.push(lower_bound(last).max(max + 1));
    edges
}

fn log_counts(parts: &[&Series<'_>], edges: &[u64]) -> Vec<u64> {
    let mut counts = vec![0; edges.len() - 1];
    let bin_of = |value: u64| edges.partition_point(|&edge| edge <= value).clamp(1, edges.len() - 1) - 1;
    for part in parts {
        for bucket in 0..BUCKETS {
            if part.counts[bucket] > 0 {
                counts[bin_of(lower_bound(bucket))] += part.counts[bucket];
            }
        }
        for value in part.saturated_values() {
            counts[bin_of(value)] += 1;
        }
    }
    counts
}

fn linear_counts(parts: &[&Series<'_>], min: u64, bin_width: u64, bins: u64) -> Vec<u64> {
    let mut total = vec![0; usize::try_from(bins).unwrap_or(usize::MAX)];
    for part in parts {
        let pieces: Vec<Vec<u64>> = part
            .pieces()
            .into_par_iter()
            .map(|blocks| {
                let mut counts = vec![0_u64; total.len()];
                for block in blocks {
                    part.visit_block(block, |_, _, duration| {
                        let bin = usize::try_from((duration - min) / bin_width).unwrap_or(usize::MAX);
                        if let Some(count) = counts.get_mut(bin) {
                            *count += 1;
                        }
                    });
                }
                counts
            })
            .collect();
        for counts in pieces {
            for (total, count) in total.iter_mut().zip(counts) {
                *total += count;
            }
        }
    }
    total
}
