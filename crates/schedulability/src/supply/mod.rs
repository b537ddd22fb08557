//! How much of a CPU the tasks get: a lower bound of the service in any window.

mod combined;
mod dedicated;
mod envelope;
mod linear;
mod observed;
mod periodic;
mod windows;

pub use combined::{Combined, Part};
pub use dedicated::Dedicated;
pub use envelope::Envelope;
pub use linear::Linear;
pub use observed::Observed;
pub use periodic::{Constrained, Periodic};
pub use windows::Windows;

use crate::error::Error;

/// A supply bound function and its inverse. Both are monotone.
pub trait Supply {
    /// The least service in any window of that length.
    fn service_in(&self, window_ns: u64) -> Result<u64, Error>;

    /// The shortest window that holds that service wherever it begins; 0 for no service.
    ///
    /// # Errors
    /// [`Error::Overflow`], or [`Error::NotObserved`] of a measured supply.
    fn window_for(&self, service_ns: u64) -> Result<u64, Error>;

    /// Whether tasks that demand this much in the long run get it: no more than the supply's long-run share.
    fn carries(&self, pairs: &[(u64, u64)]) -> bool;

    /// Whether it is the whole CPU; some bounds hold for that alone.
    fn is_dedicated(&self) -> bool {
        false
    }

    /// A share after a delay that is never more than this supply, of the same long-run share; None where none is known.
    fn linear_bound(&self) -> Option<Linear> {
        None
    }
}
