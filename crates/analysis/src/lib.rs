//! Exact statistics over complete series of samples, and what can be found in them.
//!
//! A [`Series`] borrows the columns of one trial (`docs/run-format.md`) and never copies them: 50 million
//! samples stay where they are. One parallel pass when it is made learns the sums, the maxima and a fine
//! histogram; every question after that is at most one more pass.
//!
//! ```
//! use stealtime_analysis::{Series, SeriesInput, Spacing};
//! let durations = [70, 71, 70, 950, 70];
//! let series = Series::new(SeriesInput {
//!     durations: &durations,
//!     saturated: vec![],
//!     spacing: Spacing::Tiled,
//!     units_per_s: 1e9,
//!     calibrated_floor: None,
//! })?;
//! assert_eq!(series.summary().max_ns, 950.0);
//! assert_eq!(series.worst(1)[0].index, 3);
//! # Ok::<(), stealtime_analysis::SeriesError>(())
//! ```

mod buckets;
mod counts;
mod curve;
mod envelope;
mod held_back;
mod histogram;
mod injected;
mod periodicity;
mod selection;
mod series;
mod spikes;
mod summary;
mod worst;

pub use counts::merged_counts;
pub use curve::{PercentileCurve, pooled_percentile_curve};
pub use envelope::Envelope;
pub use held_back::{HeldBack, Pause};
pub use histogram::{Histogram, pooled_histogram};
pub use injected::{InjectedMatch, InjectedStall};
pub use periodicity::Period;
pub use series::{Series, SeriesError, SeriesInput, Spacing};
pub use spikes::Spikes;
pub use summary::{Digest, Pool, PoolError, Summary, pooled_summary};
pub use worst::WorstSample;
