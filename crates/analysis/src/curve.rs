//! The upper tail of a distribution, for curves that are laid over each other.

use serde::Serialize;

use crate::selection::values_at_ranks;
use crate::series::Series;

/// Points a decade of the tail.
const PER_DECADE: u32 = 24;

/// Exact values at log-spaced tail shares, from all samples down to the single longest one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PercentileCurve {
    /// The share of samples that are longer than the value: from just under 1 down to 0 at the maximum.
    pub tail_share: Vec<f64>,
    /// The value, not decreasing; the last is the exact maximum.
    pub value_ns: Vec<f64>,
}

impl Series<'_> {
    /// Compute the curve of this series.
    pub fn percentile_curve(&self) -> PercentileCurve {
        curve(&[self], self)
    }
}

/// Compute the curve of all samples of several series together; `None` for no series.
pub fn pooled_percentile_curve(parts: &[&Series<'_>]) -> Option<PercentileCurve> {
    parts.first().map(|first| curve(parts, first))
}

fn curve(parts: &[&Series<'_>], first: &Series<'_>) -> PercentileCurve {
    let count: u64 = parts.iter().map(|part| part.count() as u64).sum();
    let ranks = ranks(count);
    let value_ns = values_at_ranks(parts, &ranks).into_iter().map(|units| first.nanoseconds(units as f64)).collect();
    let tail_share = ranks.iter().map(|rank| (count - rank) as f64 / count as f64).collect();
    PercentileCurve { tail_share, value_ns }
}

/// Ascending ranks without repeats: the first sample, then `n - floor(n 10^(-i/24))`, then the last.
fn ranks(count: u64) -> Vec<u64> {
    let mut ranks = vec![1];
    for step in 0.. {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of `count`, 0 or more
        let longer = (count as f64 * 10_f64.powf(-f64::from(step) / f64::from(PER_DECADE))) as u64;
        let rank = count - longer.min(count - 1);
        if ranks.last() != Some(&rank) {
            ranks.push(rank);
        }
        if longer == 0 {
            return ranks;
        }
    }
    ranks
}
