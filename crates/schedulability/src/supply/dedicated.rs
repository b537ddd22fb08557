//! A CPU of one's own.

use super::{Linear, Supply};
use crate::error::Error;
use crate::utilization::exceeds_one;

/// The whole CPU, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dedicated;

impl Supply for Dedicated {
    #[inline]
    fn service_in(&self, window_ns: u64) -> Result<u64, Error> {
        Ok(window_ns)
    }

    #[inline]
    fn window_for(&self, service_ns: u64) -> Result<u64, Error> {
        Ok(service_ns)
    }

    fn carries(&self, pairs: &[(u64, u64)]) -> bool {
        !exceeds_one(pairs)
    }

    fn is_dedicated(&self) -> bool {
        true
    }

    fn linear_bound(&self) -> Option<Linear> {
        Linear::new(1, 1, 0).ok()
    }
}
