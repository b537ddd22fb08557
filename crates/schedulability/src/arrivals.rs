//! What arrives in a window of time that only grows: the inner loop of every fixed point.

use crate::error::Error;

/// Work in front of a job: at most `ceil((window + jitter) / period)` arrivals of `cost` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interference {
    pub cost_ns: u64,
    pub period_ns: u64,
    pub jitter_ns: u64,
}

impl Interference {
    /// How often it arrives in a window.
    ///
    /// # Errors
    /// [`Error::Overflow`].
    pub fn arrivals_in(&self, window_ns: u64) -> Result<u64, Error> {
        let span = window_ns.checked_add(self.jitter_ns).ok_or(Error::Overflow)?;
        // Most windows are within one period, and a division is slow.
        Ok(if (1..=self.period_ns).contains(&span) { 1 } else { span.div_ceil(self.period_ns) })
    }
}

/// The demand of several [`Interference`]s in a window.
///
/// For each it is kept up to which window the number of arrivals stays: while the window grows, most need one
/// comparison instead of a division.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    sources: Vec<Interference>,
    /// One more arrival in windows longer than this; a column of its own, as it is all that the loop reads.
    unchanged_until_ns: Vec<u64>,
    /// The least of that column.
    all_unchanged_until_ns: u64,
    demand_ns: u64,
}

impl Arrivals {
    /// Forget everything, keep the memory.
    pub fn clear(&mut self) {
        self.sources.clear();
        self.unchanged_until_ns.clear();
        self.all_unchanged_until_ns = u64::MAX;
        self.demand_ns = 0;
    }

    /// One more, with its arrivals in `window_ns`.
    pub fn push(&mut self, source: Interference, window_ns: u64) -> Result<(), Error> {
        let count = source.arrivals_in(window_ns)?;
        let demand = count.checked_mul(source.cost_ns).ok_or(Error::Overflow)?;
        self.demand_ns = self.demand_ns.checked_add(demand).ok_or(Error::Overflow)?;
        let until = count.checked_mul(source.period_ns).ok_or(Error::Overflow)? - source.jitter_ns;
        self.all_unchanged_until_ns = self.all_unchanged_until_ns.min(until);
        self.sources.push(source);
        self.unchanged_until_ns.push(until);
        Ok(())
    }

    /// Let each arrival of the last one cost more.
    pub fn raise_last(&mut self, by_ns: u64) -> Result<(), Error> {
        if let (Some(last), Some(&until)) = (self.sources.last_mut(), self.unchanged_until_ns.last()) {
            let once = until == last.period_ns - last.jitter_ns.min(last.period_ns);
            let count = if once { 1 } else { (until + last.jitter_ns) / last.period_ns };
            let demand = count.checked_mul(by_ns).ok_or(Error::Overflow)?;
            self.demand_ns = self.demand_ns.checked_add(demand).ok_or(Error::Overflow)?;
            last.cost_ns = last.cost_ns.checked_add(by_ns).ok_or(Error::Overflow)?;
        }
        Ok(())
    }

    /// What all of them demand in a window that is not shorter than the last one.
    #[inline]
    pub fn demand_in(&mut self, window_ns: u64) -> Result<u64, Error> {
        if window_ns > self.all_unchanged_until_ns {
            self.advance(window_ns)?;
        }
        Ok(self.demand_ns)
    }

    fn advance(&mut self, window_ns: u64) -> Result<(), Error> {
        let mut least = u64::MAX;
        for (source, until) in self.sources.iter().zip(&mut self.unchanged_until_ns) {
            if window_ns > *until {
                let late = window_ns - *until;
                let (mut demand, mut later) = (source.cost_ns, source.period_ns);
                // Nearly always one arrival; only a long step is worth a division.
                if late > source.period_ns {
                    let more = late.div_ceil(source.period_ns);
                    demand = more.checked_mul(demand).ok_or(Error::Overflow)?;
                    later = more.checked_mul(later).ok_or(Error::Overflow)?;
                }
                self.demand_ns = self.demand_ns.checked_add(demand).ok_or(Error::Overflow)?;
                *until = until.checked_add(later).ok_or(Error::Overflow)?;
            }
            least = least.min(*until);
        }
        self.all_unchanged_until_ns = least;
        Ok(())
    }
}
