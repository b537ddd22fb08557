//! How long answers took, in a report.

use hdrhistogram::Histogram;
use serde::Serialize;

/// From the first copy of a request to its answer; to three significant digits.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RoundTrips {
    pub min: u64,
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

impl RoundTrips {
    /// None where nothing was answered.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile);
        (!histogram.is_empty()).then(|| Self {
            min: histogram.min(),
            p50: at(0.50),
            p99: at(0.99),
            max: histogram.max(),
        })
    }
}
