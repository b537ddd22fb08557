//! The bound of a response, or why there is none.

use crate::error::Error;

/// The bound of a task's response time, from arrival to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// No job takes longer.
    Bounded(u64),
    /// The bound, if there is one, is at least this.
    AtLeast(u64, Error),
}

impl Response {
    /// Whether every deadline is met; None if that is not known.
    pub fn meets(&self, deadline_ns: u64) -> Option<bool> {
        match *self {
            Self::Bounded(ns) => Some(ns <= deadline_ns),
            Self::AtLeast(_, Error::Overloaded) => Some(false),
            Self::AtLeast(ns, _) => (ns > deadline_ns).then_some(false),
        }
    }
}

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Only until a deadline is missed.
    UntilMiss,
    Whole,
}
