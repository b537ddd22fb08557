//! What is left where several take time of a CPU, and none knows of the others.

use super::Supply;
use crate::error::{Error, MOST_STEPS};
use crate::utilization::exceeds_one;

/// One of several that take time.
pub struct Part {
    /// What it would leave alone. Never faster than time: a nanosecond more of window is at most one more of service.
    pub supply: Box<dyn Supply + Send + Sync>,
    /// What it takes in the long run at most, and of how much time.
    pub missing: (u64, u64),
}

/// The time that each takes of a window is at most what it takes alone, and at worst no two take the same.
pub struct Combined(Vec<Part>);

impl Combined {
    pub fn new(parts: Vec<Part>) -> Self {
        Self(parts)
    }

    /// The window for a service, if it is not longer than that.
    fn within(&self, service_ns: u64, longest_ns: u64) -> Result<Option<u64>, Error> {
        // What is taken never falls with the window, so this rises to the least window that holds service and taking.
        let mut window_ns = service_ns;
        for _ in 0..MOST_STEPS {
            if window_ns > longest_ns {
                return Ok(None);
            }
            let mut next_ns = service_ns;
            for part in &self.0 {
                let taken_ns = window_ns - part.supply.service_in(window_ns)?.min(window_ns);
                next_ns = next_ns.checked_add(taken_ns).ok_or(Error::Overflow)?;
            }
            if next_ns == window_ns {
                return Ok(Some(window_ns));
            }
            window_ns = next_ns;
        }
        Err(Error::NotConverged { steps: MOST_STEPS, window_ns })
    }
}

impl Supply for Combined {
    fn service_in(&self, window_ns: u64) -> Result<u64, Error> {
        // The most service whose window is not longer; a longer window may have less than is certain in one in it.
        let (mut served, mut too_much) = (0, window_ns.checked_add(1).ok_or(Error::Overflow)?);
        while too_much - served > 1 {
            let middle = u64::midpoint(served, too_much);
            if self.within(middle, window_ns)?.is_some() {
                served = middle;
            } else {
                too_much = middle;
            }
        }
        Ok(served)
    }

    fn window_for(&self, service_ns: u64) -> Result<u64, Error> {
        if service_ns == 0 {
            return Ok(0);
        }
        self.within(service_ns, crate::LONGEST_NS)?.ok_or(Error::Overflow)
    }

    fn carries(&self, pairs: &[(u64, u64)]) -> bool {
        let mut all = pairs.to_vec();
        all.extend(self.0.iter().map(|part| part.missing));
        !exceeds_one(&all)
    }
}
