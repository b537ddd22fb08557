//! Why there is no verdict.

use thiserror::Error;

/// After so many steps of a search there is no verdict: with a full CPU and jitter there may be no end.
pub const MOST_STEPS: u32 = 500_000;

/// After so many steps it is asked whether there can be a fixed point at all.
pub(crate) const STEPS_BEFORE_DOUBT: u32 = 2_000;

/// A reason for "not judged", or an input that describes nothing. Small and `Copy`: every step of a search can end
/// with it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Error {
    #[error("task {index}: {problem}")]
    Task { index: usize, problem: &'static str },
    #[error("what else takes the CPU has a period of 0, or a time that exceeds 3335 days")]
    Interference,
    #[error("the supply: {0}")]
    Supply(&'static str),
    #[error("a sum of times exceeds the 64 bits that it is computed in")]
    Overflow,
    /// The iteration was ended; the busy window may be endless.
    #[error("no fixed point was found in {steps} steps, up to a window of {window_ns} ns")]
    NotConverged { steps: u32, window_ns: u64 },
    /// What is of this or a higher priority never ends.
    #[error("the tasks demand more in the long run than the CPU supplies")]
    Overloaded,
    #[error("the supply was observed for {observed_ns} ns, in which {service_ns} ns of service are not certain")]
    NotObserved { observed_ns: u64, service_ns: u64 },
}

/// Why no set was drawn.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum RecipeError {
    #[error("none of {attempts} drawn sets has a utilization of at most {cap}")]
    OverUtilized { attempts: u32, cap: f64 },
    #[error("{0}")]
    Recipe(String),
}
