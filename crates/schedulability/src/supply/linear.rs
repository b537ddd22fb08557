//! The linear bound: a share after a delay.

use super::Supply;
use crate::error::Error;
use crate::utilization::exceeds_one;

/// `max(0, (window - delay) * share)`, rounded down: the bounded-delay model of Mok, Feng and Chen, "Resource
/// Partition for Real-Time Systems" (RTAS 2001). The share is `service / span`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_field_names)] // each with its unit
pub struct Linear {
    pub(crate) service_ns: u64,
    pub(crate) span_ns: u64,
    pub(crate) delay_ns: u64,
}

impl Linear {
    /// # Errors
    /// [`Error::Supply`]: not `0 < service <= span`.
    pub fn new(service_ns: u64, span_ns: u64, delay_ns: u64) -> Result<Self, Error> {
        if service_ns == 0 || service_ns > span_ns {
            return Err(Error::Supply("the share must be more than 0 and at most 1"));
        }
        Ok(Self { service_ns, span_ns, delay_ns })
    }
}

impl Supply for Linear {
    fn service_in(&self, window_ns: u64) -> Result<u64, Error> {
        let after = u128::from(window_ns.saturating_sub(self.delay_ns));
        let service = after * u128::from(self.service_ns) / u128::from(self.span_ns);
        Ok(u64::try_from(service).unwrap_or(u64::MAX))
    }

    fn window_for(&self, service_ns: u64) -> Result<u64, Error> {
        if service_ns == 0 {
            return Ok(0);
        }
        let after = (u128::from(service_ns) * u128::from(self.span_ns)).div_ceil(u128::from(self.service_ns));
        let after = u64::try_from(after).map_err(|_| Error::Overflow)?;
        after.checked_add(self.delay_ns).ok_or(Error::Overflow)
    }

    fn carries(&self, pairs: &[(u64, u64)]) -> bool {
        let mut all = pairs.to_vec();
        all.push((self.span_ns - self.service_ns, self.span_ns));
        !exceeds_one(&all)
    }

    fn linear_bound(&self) -> Option<Linear> {
        Some(*self)
    }
}
