//! What arrives in a window of time that only grows: the inner loop of every fixed point.

use crate::error::Error;
use crate::task::LONGEST_NS;

/// Work in front of a job: at most `ceil((window + jitter) / period)` arrivals of `cost` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interference {
    pub cost_ns: u64,
    pub period_ns: u64,
    pub jitter_ns: u64,
}

impl Interference {
    /// Whether its numbers can be.
    pub(crate) fn can_be(&self) -> bool {
        self.period_ns > 0 && [self.cost_ns, self.period_ns, self.jitter_ns].iter().all(|&ns| ns <= LONGEST_NS)
    }

    /// How often it arrives in a window.
    pub fn arrivals_in(&self, window_ns: u64) -> Result<u64, Error> {
        let span = window_ns.checked_add(self.jitter_ns).ok_or(Error::Overflow)?;
        // Most windows are within one period, and a division is slow.
        Ok(if (1..=self.period_ns).contains(&span) { 1 } else { span.div_ceil(self.period_ns) })
    }
}

/// The demand of several [`Interference`]s in a window.
///
/// For each it is kept up to which window the number of arrivals stays: while the window grows, most need one
/// comparison instead of a division. Each of the columns that are read at every step is an array of its own.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "each says its unit")]
pub struct Arrivals {
    cost_ns: Vec<u64>,
    period_ns: Vec<u64>,
    /// One more arrival in windows longer than this.
    unchanged_until_ns: Vec<u64>,
    /// The least of that column.
    all_unchanged_until_ns: u64,
    demand_ns: u64,
    longest_period_ns: u64,
    /// Of the last one.
    jitter_ns: u64,
}

impl Arrivals {
    /// Forget everything, keep the memory.
    pub fn clear(&mut self) {
        self.cost_ns.clear();
        self.period_ns.clear();
        self.unchanged_until_ns.clear();
        self.all_unchanged_until_ns = u64::MAX;
        self.demand_ns = 0;
        self.longest_period_ns = 0;
    }

    /// One more, with its arrivals in `window_ns`.
    pub fn push(&mut self, source: Interference, window_ns: u64) -> Result<(), Error> {
        let count = source.arrivals_in(window_ns)?;
        let demand = count.checked_mul(source.cost_ns).ok_or(Error::Overflow)?;
        self.demand_ns = self.demand_ns.checked_add(demand).ok_or(Error::Overflow)?;
        let until = count.checked_mul(source.period_ns).ok_or(Error::Overflow)? - source.jitter_ns;
        self.all_unchanged_until_ns = self.all_unchanged_until_ns.min(until);
        self.longest_period_ns = self.longest_period_ns.max(source.period_ns);
        self.cost_ns.push(source.cost_ns);
        self.period_ns.push(source.period_ns);
        self.jitter_ns = source.jitter_ns;
        self.unchanged_until_ns.push(until);
        Ok(())
    }

    /// Let each arrival of the last one cost more.
    pub fn raise_last(&mut self, by_ns: u64) -> Result<(), Error> {
        let last = (self.cost_ns.last_mut(), self.period_ns.last(), self.unchanged_until_ns.last());
        if let (Some(cost_ns), Some(&period_ns), Some(&until)) = last {
            let once = until == period_ns - self.jitter_ns.min(period_ns);
            let count = if once { 1 } else { (until + self.jitter_ns) / period_ns };
            let demand = count.checked_mul(by_ns).ok_or(Error::Overflow)?;
            self.demand_ns = self.demand_ns.checked_add(demand).ok_or(Error::Overflow)?;
            *cost_ns = cost_ns.checked_add(by_ns).ok_or(Error::Overflow)?;
        }
        Ok(())
    }

    /// What all of them demand in a window that is not shorter than the last one.
    #[inline]
    pub fn demand_in(&mut self, window_ns: u64) -> Result<u64, Error> {
        if window_ns > self.all_unchanged_until_ns {
            self.advance(window_ns);
            if window_ns > self.all_unchanged_until_ns {
                self.catch_up(window_ns)?;
            }
        }
        Ok(self.demand_ns)
    }

    /// One arrival more of each that has one more at least, which nearly always is all.
    ///
    /// Which those are cannot be predicted, so the loop has no branch; where a sum could overflow it does nothing.
    fn advance(&mut self, window_ns: u64) {
        // Each was pushed with one arrival at least, so that all costs together are no more than the demand.
        if window_ns.checked_add(self.longest_period_ns).is_none() || self.demand_ns > u64::MAX / 2 {
            return;
        }
        let (until, period, cost) = (&mut self.unchanged_until_ns, &self.period_ns, &self.cost_ns);
        let (more, least) = one_more_of_each_wide(window_ns, until, period, cost);
        self.demand_ns += more;
        self.all_unchanged_until_ns = least;
    }

    /// All further arrivals, with divisions.
    #[cold]
    fn catch_up(&mut self, window_ns: u64) -> Result<(), Error> {
        let mut least = u64::MAX;
        let columns = self.unchanged_until_ns.iter_mut().zip(&self.period_ns).zip(&self.cost_ns);
        for ((until, &period_ns), &cost_ns) in columns {
            if window_ns > *until {
                let more = (window_ns - *until).div_ceil(period_ns);
                let demand = more.checked_mul(cost_ns).ok_or(Error::Overflow)?;
                self.demand_ns = self.demand_ns.checked_add(demand).ok_or(Error::Overflow)?;
                let later = more.checked_mul(period_ns).ok_or(Error::Overflow)?;
                *until = until.checked_add(later).ok_or(Error::Overflow)?;
            }
            least = least.min(*until);
        }
        self.all_unchanged_until_ns = least;
        Ok(())
    }
}

/// One arrival more of each whose number changes before `window_ns`: what they demand, and until when nothing changes.
#[inline(always)]
fn one_more_of_each(window_ns: u64, unchanged_until_ns: &mut [u64], period_ns: &[u64], cost_ns: &[u64]) -> (u64, u64) {
    let mut more = 0;
    let mut least = u64::MAX;
    for ((until, &period), &cost) in unchanged_until_ns.iter_mut().zip(period_ns).zip(cost_ns) {
        let mask = u64::from(window_ns > *until).wrapping_neg();
        more += cost & mask;
        *until += period & mask;
        least = least.min(*until);
    }
    (more, least)
}

/// [`one_more_of_each`], four at a time where the CPU can compare so many numbers of 64 bits at once.
#[inline]
fn one_more_of_each_wide(window_ns: u64, until: &mut [u64], period: &[u64], cost: &[u64]) -> (u64, u64) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn wide(window_ns: u64, until: &mut [u64], period: &[u64], cost: &[u64]) -> (u64, u64) {
            one_more_of_each(window_ns, until, period, cost)
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: This CPU has just been found to have AVX2, which is all that the function asks for.
            return unsafe { wide(window_ns, until, period, cost) };
        }
    }
    one_more_of_each(window_ns, until, period, cost)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn source() -> impl Strategy<Value = Interference> {
        (0..1_000_u64, 1..500_u64, 0..700_u64).prop_map(|(cost_ns, period_ns, jitter_ns)| Interference {
            cost_ns,
            period_ns,
            jitter_ns,
        })
    }

    proptest! {
        /// Up to 40 of them, so that whole and broken groups of four occur, in windows that grow by little and by much.
        #[test]
        fn demand_in_a_growing_window_is_that_of_each_counted_alone(
            sources in prop::collection::vec(source(), 0..40),
            steps in prop::collection::vec(prop_oneof![0..200_u64, 0..20_000_u64], 1..20),
        ) {
            let mut arrivals = Arrivals::default();
            arrivals.clear();
            for &one in &sources {
                arrivals.push(one, 1).unwrap();
            }
            let mut window_ns = 1;
            for step in steps {
                window_ns += step;
                let each = sources.iter().map(|one| one.cost_ns * one.arrivals_in(window_ns).unwrap());
                prop_assert_eq!(arrivals.demand_in(window_ns).unwrap(), each.sum::<u64>());
            }
        }
    }

    #[test]
    fn sums_beyond_all_numbers_are_an_error_and_no_wrong_demand() {
        let (cost_ns, period_ns) = (u64::MAX / 3, u64::MAX / 4);
        let mut arrivals = Arrivals::default();
        arrivals.clear();
        arrivals.push(Interference { cost_ns, period_ns, jitter_ns: 0 }, 1).unwrap();
        assert_eq!(arrivals.demand_in(2 * period_ns).unwrap(), 2 * cost_ns);
        assert_eq!(arrivals.demand_in(3 * period_ns).unwrap(), 3 * cost_ns);
        assert!(matches!(arrivals.demand_in(3 * period_ns + 1), Err(Error::Overflow)));
    }
}
