//! Reservations: a budget in every period.

use super::{Linear, Supply};
use crate::error::Error;
use crate::utilization::exceeds_one;

/// The periodic resource model of Shin and Lee, "Periodic Resource Model for Compositional Real-Time Guarantees"
/// (RTSS 2003): `budget` in every `period`, anywhere in it.
///
/// The budget must be offered whether or not the tasks are idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periodic(Constrained);

impl Periodic {
    /// # Errors
    /// [`Error::Supply`]: the budget is 0 or more than the period.
    pub fn new(period_ns: u64, budget_ns: u64) -> Result<Self, Error> {
        // A budget that may come as late as the period's end.
        Constrained::new(period_ns, budget_ns, period_ns).map(Self)
    }
}

impl Supply for Periodic {
    fn service_in(&self, window_ns: u64) -> Result<u64, Error> {
        self.0.service_in(window_ns)
    }

    fn window_for(&self, service_ns: u64) -> Result<u64, Error> {
        self.0.window_for(service_ns)
    }

    fn carries(&self, pairs: &[(u64, u64)]) -> bool {
        self.0.carries(pairs)
    }

    fn linear_bound(&self) -> Option<Linear> {
        self.0.linear_bound()
    }
}

/// `budget` in every `period`, within `deadline` of its begin, as `SCHED_DEADLINE` gives it to a vCPU's thread.
///
/// The longest window without service is `(period - budget) + (deadline - budget)`: a budget as early as it can
/// be, the next as late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_field_names)] // each with its unit
pub struct Constrained {
    period_ns: u64,
    budget_ns: u64,
    blackout_ns: u64,
}

impl Constrained {
    /// # Errors
    /// [`Error::Supply`]: not `0 < budget <= deadline <= period`.
    pub fn new(period_ns: u64, budget_ns: u64, deadline_ns: u64) -> Result<Self, Error> {
        if budget_ns == 0 {
            return Err(Error::Supply("the budget is 0"));
        }
        if budget_ns > deadline_ns {
            return Err(Error::Supply("the budget exceeds the deadline"));
        }
        if deadline_ns > period_ns {
            return Err(Error::Supply("the deadline exceeds the period"));
        }
        if period_ns > crate::LONGEST_NS {
            return Err(Error::Supply("the period exceeds 3335 days"));
        }
        Ok(Self { period_ns, budget_ns, blackout_ns: (period_ns - budget_ns) + (deadline_ns - budget_ns) })
    }
}

impl Supply for Constrained {
    fn service_in(&self, window_ns: u64) -> Result<u64, Error> {
        let Some(after) = window_ns.checked_sub(self.blackout_ns) else { return Ok(0) };
        let whole = after / self.period_ns;
        Ok(whole * self.budget_ns + (after % self.period_ns).min(self.budget_ns))
    }

    fn window_for(&self, service_ns: u64) -> Result<u64, Error> {
        if service_ns == 0 {
            return Ok(0);
        }
        // The last nanosecond of service is the `rest`th of a budget, 1 to `budget`.
        let whole = (service_ns - 1) / self.budget_ns;
        let rest = (service_ns - 1) % self.budget_ns + 1;
        let periods = whole.checked_mul(self.period_ns).ok_or(Error::Overflow)?;
        periods.checked_add(self.blackout_ns + rest).ok_or(Error::Overflow)
    }

    fn carries(&self, pairs: &[(u64, u64)]) -> bool {
        let mut all = pairs.to_vec();
        all.push((self.period_ns - self.budget_ns, self.period_ns));
        !exceeds_one(&all)
    }

    fn linear_bound(&self) -> Option<Linear> {
        // After the blackout each budget comes at its period's begin: the line touches the supply there.
        Linear::new(self.budget_ns, self.period_ns, self.blackout_ns).ok()
    }
}
