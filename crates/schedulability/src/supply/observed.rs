//! The supply that was seen: everything but the gaps of one observation.

use super::Supply;
use crate::error::Error;
use crate::utilization::exceeds_one;

/// The lower supply function of one observation, as rt-muse measures it for threads (Maggio, Lelli and Bini,
/// Real-Time Systems 53, 2017): the least service in any window that lies in the observation.
///
/// It bounds what was observed, and nothing else: no later window need keep to it. Each question goes through all gaps;
/// [`super::Envelope`] answers many.
#[derive(Clone, Debug)]
#[allow(clippy::struct_field_names)] // each with its unit
pub struct Observed {
    observed_ns: u64,
    /// Begin of each gap.
    start_ns: Vec<u64>,
    /// Service from the observation's begin to each gap, then to its end.
    served_ns: Vec<u64>,
    /// By how much later each gap may have come.
    slip_ns: u64,
}

impl Observed {
    /// From gaps `(start, length)` in order of time, from the begin of an observation.
    ///
    /// # Errors
    /// [`Error::Supply`]: they overlap, are empty or not within the observation, there is no service at all, or the
    /// observation exceeds 3335 days.
    pub fn new(observed_ns: u64, gaps: &[(u64, u64)]) -> Result<Self, Error> {
        if observed_ns > crate::LONGEST_NS {
            return Err(Error::Supply("the observation exceeds 3335 days"));
        }
        let mut served = 0;
        let mut last_end = 0;
        let mut one = Self { observed_ns, start_ns: Vec::new(), served_ns: Vec::new(), slip_ns: 0 };
        for &(start, length) in gaps {
            let end = start.checked_add(length).ok_or(Error::Overflow)?;
            if length == 0 {
                return Err(Error::Supply("a gap is empty"));
            }
            if end > observed_ns {
                return Err(Error::Supply("a gap ends after the observation"));
            }
            if start < last_end {
                return Err(Error::Supply("gaps overlap or are not in order of time"));
            }
            served += start - last_end;
            one.start_ns.push(start);
            one.served_ns.push(served);
            last_end = end;
        }
        one.served_ns.push(served + (observed_ns - last_end));
        if one.served_ns.last() == Some(&0) {
            return Err(Error::Supply("nothing was served in the whole observation"));
        }
        Ok(one)
    }

    /// The same, where each gap may have come later by up to that much, which is served after it at least: it is known
    /// in which turn of a loop a gap was, and not where in it.
    #[must_use]
    pub fn slipping(self, slip_ns: u64) -> Self {
        Self { slip_ns, ..self }
    }

    pub fn observed_ns(&self) -> u64 {
        self.observed_ns
    }

    /// What was not served, and how long it was observed.
    pub fn missing(&self) -> (u64, u64) {
        (self.observed_ns - self.served_in_all(), self.observed_ns)
    }

    pub fn longest_gap(&self) -> u64 {
        (0..self.start_ns.len()).map(|gap| self.end_of(gap) - self.start_ns[gap]).max().unwrap_or(0)
    }

    /// The least service in a window; of one that exceeds the observation, if all time beyond it were served.
    pub(super) fn least_or_continued(&self, window_ns: u64) -> u64 {
        match window_ns.checked_sub(self.observed_ns) {
            Some(beyond) => self.served_in_all() + beyond,
            None => self.least_in(window_ns),
        }
    }

    /// The least service in a window that is not longer than the observation.
    fn least_in(&self, window_ns: u64) -> u64 {
        // The service of a sliding window is least where it begins with a gap, or at an end of the observation.
        let last_start = self.observed_ns - window_ns;
        let mut least =
            self.served_until(window_ns).min(self.served_in_all().saturating_sub(self.most_until(last_start)));
        // Ends of windows rise with their starts: one pass finds the gap before each. The first gap of a window is
        // worst as late as it can be, all others as early.
        let mut before = 0;
        let starts = self.start_ns.iter().map(|&start| start + self.slip_ns);
        for (start, &served) in starts.zip(&self.served_ns).take_while(|&(start, _)| start <= last_start) {
            let end = start + window_ns;
            while self.start_ns.get(before).is_some_and(|&next| next < end) {
                before += 1;
            }
            let until = match before.checked_sub(1) {
                Some(gap) => self.served_ns[gap] + end.saturating_sub(self.end_of(gap)),
                None => end,
            };
            least = least.min(until.saturating_sub(served + self.slip_ns));
        }
        least
    }

    fn served_in_all(&self) -> u64 {
        *self.served_ns.last().unwrap_or(&0)
    }

    /// Service from the begin to `at_ns`.
    fn served_until(&self, at_ns: u64) -> u64 {
        let gaps_before = self.start_ns.partition_point(|&start| start < at_ns);
        if gaps_before == 0 {
            return at_ns;
        }
        let gap = gaps_before - 1;
        let after_gap = at_ns.saturating_sub(self.end_of(gap));
        self.served_ns[gap] + after_gap
    }

    /// The same at most, if the gap before came as late as it can have.
    fn most_until(&self, at_ns: u64) -> u64 {
        let until = self.served_until(at_ns);
        let last = self.start_ns.partition_point(|&start| start < at_ns).checked_sub(1);
        last.map_or(until, |gap| until.max(self.served_ns[gap] + self.slip_ns.min(at_ns - self.start_ns[gap])))
    }

    fn end_of(&self, gap: usize) -> u64 {
        let next_start = self.start_ns.get(gap + 1).copied().unwrap_or(self.observed_ns);
        next_start - (self.served_ns[gap + 1] - self.served_ns[gap])
    }

    /// The first time by which that much was served.
    fn reached(&self, served_ns: u64) -> u64 {
        let gaps_before = self.served_ns[..self.start_ns.len()].partition_point(|&served| served < served_ns);
        if gaps_before == 0 {
            return served_ns;
        }
        let gap = gaps_before - 1;
        self.end_of(gap) + (served_ns - self.served_ns[gap])
    }

    /// The last time from which on that much was served.
    fn left_from(&self, service_ns: u64) -> u64 {
        let served = self.served_in_all() - service_ns;
        // The begin of a gap is followed by as much service as its end: the last such time is the end.
        let gaps_until =
            self.served_ns[..self.start_ns.len()].partition_point(|&before| before + self.slip_ns <= served);
        if gaps_until == 0 {
            return served;
        }
        let gap = gaps_until - 1;
        self.end_of(gap) + (served - self.served_ns[gap])
    }
}

impl Supply for Observed {
    fn service_in(&self, window_ns: u64) -> Result<u64, Error> {
        if window_ns > self.observed_ns {
            return Err(Error::NotObserved { observed_ns: self.observed_ns, service_ns: self.served_in_all() });
        }
        Ok(self.least_in(window_ns))
    }

    fn window_for(&self, service_ns: u64) -> Result<u64, Error> {
        let not_observed = Error::NotObserved { observed_ns: self.observed_ns, service_ns };
        if service_ns == 0 {
            return Ok(0);
        }
        let all = self.served_in_all();
        if service_ns > all {
            return Err(not_observed);
        }
        let mut longest = self.reached(service_ns).max(self.observed_ns - self.left_from(service_ns));
        for (&start, &before) in self.start_ns.iter().zip(&self.served_ns) {
            let before = before + self.slip_ns;
            if before + service_ns > all {
                break;
            }
            longest = longest.max(self.reached(before + service_ns).saturating_sub(start + self.slip_ns));
        }
        Ok(longest)
    }

    fn carries(&self, pairs: &[(u64, u64)]) -> bool {
        let mut all = pairs.to_vec();
        all.push(self.missing());
        !exceeds_one(&all)
    }
}
