//! The supply that several observations bound together, in few points: no question goes through all their gaps.

use std::collections::BinaryHeap;

use rayon::prelude::*;

use super::{Observed, Supply};
use crate::error::Error;
use crate::utilization::exceeds_one;

/// A stretch between two points is halved as long as it hides more than this part of its window.
const FINENESS: u64 = 1_000;

/// The least service of all windows of several observations, in every length of window.
///
/// Between its points it claims what both of them warrant: no less than the shorter window, and no more missing than
/// in the longer one. So it never claims more than was observed, and at its points exactly that. A window that is
/// longer than one of the observations gets at most that observation's service and all the time beyond it, since a
/// supply is never faster than time.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// Window and service, both from 0 on; windows rise, services never fall and never faster than windows.
    points: Vec<(u64, u64)>,
    /// Of each observation: what was not served, and how long it was.
    missing: Vec<(u64, u64)>,
}

impl Envelope {
    /// Goes over all windows of some observations.
    ///
    /// # Errors
    /// [`Error::Supply`]: there are none.
    pub fn over(observations: &[Observed], most_points: usize) -> Result<Self, Error> {
        let Some(longest_ns) = observations.iter().map(Observed::observed_ns).max() else {
            return Err(Error::Supply("nothing was observed"));
        };
        let least = |window_ns: u64| {
            let in_each = observations.par_iter().map(|one| one.least_or_continued(window_ns));
            in_each.min().unwrap_or(0)
        };
        let gap_ns = observations.iter().map(Observed::longest_gap).max().unwrap_or(0);
        // Powers of two, so that also short windows are looked at where few points are left.
        let powers = (0..u64::BITS).map(|power| 1 << power).take_while(|&window| window < longest_ns);
        let mut windows: Vec<u64> = powers.chain([0, gap_ns, longest_ns]).collect();
        windows.sort_unstable();
        windows.dedup();
        let mut points: Vec<(u64, u64)> = windows.into_iter().map(|window| (window, least(window))).collect();
        let mut open: BinaryHeap<Stretch> =
            points.windows(2).filter_map(|pair| Stretch::between(pair[0], pair[1])).collect();
        while points.len() < most_points {
            let Some(Stretch { from, to, .. }) = open.pop() else { break };
            let window = u64::midpoint(from.0, to.0);
            let point = (window, least(window));
            points.push(point);
            open.extend(Stretch::between(from, point).into_iter().chain(Stretch::between(point, to)));
        }
        points.sort_unstable();
        let missing = observations.iter().map(Observed::missing).collect();
        Self::from_points(points, missing)
    }

    /// From what [`Self::points`] and [`Self::missing`] gave.
    ///
    /// # Errors
    /// [`Error::Supply`]: they do not begin with 0, fall, or rise faster than time.
    pub fn from_points(points: Vec<(u64, u64)>, missing: Vec<(u64, u64)>) -> Result<Self, Error> {
        if points.first() != Some(&(0, 0)) {
            return Err(Error::Supply("the points do not begin with nothing"));
        }
        let is_step = |pair: &[(u64, u64)]| {
            let window = pair[1].0.checked_sub(pair[0].0);
            let service = pair[1].1.checked_sub(pair[0].1);
            matches!((window, service), (Some(window), Some(service)) if window > 0 && service <= window)
        };
        if !points.windows(2).all(is_step) {
            return Err(Error::Supply("the points fall, or rise faster than time"));
        }
        if points.last().is_some_and(|&(window, service)| window > crate::LONGEST_NS || service == 0) {
            return Err(Error::Supply("the observation exceeds 104 days, or nothing was served in it"));
        }
        if missing.iter().any(|&(lost, observed)| observed == 0 || lost > observed) {
            return Err(Error::Supply("more is missing than was observed"));
        }
        Ok(Self { points, missing })
    }

    pub fn points(&self) -> &[(u64, u64)] {
        &self.points
    }

    pub fn missing(&self) -> &[(u64, u64)] {
        &self.missing
    }

    fn last(&self) -> (u64, u64) {
        self.points.last().copied().unwrap_or((0, 0))
    }

    fn not_observed(&self, service_ns: u64) -> Error {
        Error::NotObserved { observed_ns: self.last().0, service_ns }
    }
}

impl Supply for Envelope {
    fn service_in(&self, window_ns: u64) -> Result<u64, Error> {
        let after = self.points.partition_point(|&(window, _)| window < window_ns);
        let &(window, service) = self.points.get(after).ok_or_else(|| self.not_observed(self.last().1))?;
        let before = after.checked_sub(1).map_or(0, |before| self.points[before].1);
        Ok(before.max(service.saturating_sub(window - window_ns)))
    }

    fn window_for(&self, service_ns: u64) -> Result<u64, Error> {
        let after = self.points.partition_point(|&(_, service)| service < service_ns);
        let &(window, service) = self.points.get(after).ok_or_else(|| self.not_observed(service_ns))?;
        Ok(window - (service - service_ns))
    }

    fn carries(&self, pairs: &[(u64, u64)]) -> bool {
        self.missing.iter().all(|&one| {
            let mut all = pairs.to_vec();
            all.push(one);
            !exceeds_one(&all)
        })
    }
}

/// What lies between two points, and how much it hides.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    /// By how much the service may be higher between the points than is claimed, in parts of the window (2^-32).
    hidden: u128,
    from: (u64, u64),
    to: (u64, u64),
}

impl Stretch {
    /// None where nothing is hidden that is worth a point.
    fn between(from: (u64, u64), to: (u64, u64)) -> Option<Self> {
        let rise = to.1 - from.1;
        // It could rise at once, or, as is claimed, at last.
        let hidden_ns = rise.min(to.0 - from.0 - rise);
        let is_worth = hidden_ns > to.0 / FINENESS;
        is_worth.then(|| Self { hidden: u128::from(hidden_ns) * (1 << 32) / u128::from(to.0), from, to })
    }
}
