//! Arrivals that lie on no grid: how close together they came, and a period with jitter that covers all of them.

/// So many jobs arrived within so short a time at the closest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurvePoint {
    pub jobs: u64,
    /// From the first of them to the last.
    pub within_ns: u64,
}

/// What was seen of sporadic arrivals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sporadic {
    /// In the mean, rounded down.
    pub period_ns: u64,
    /// With it, no `k` arrivals were closer than `(k - 1) * period - jitter`: the periodic model with jitter of
    /// compositional analysis (Richter, Racu and Ernst; `PJd` of pyCPA).
    pub jitter_ns: u64,
    /// Two arrivals at the closest.
    pub least_distance_ns: u64,
    /// The arrival curve, some points of it.
    pub curve: Vec<CurvePoint>,
}

/// How many jobs each point of a curve is about.
const POINTS: [usize; 12] = [2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100];

/// From the times of arrivals in ns, rising; none of fewer than two.
pub fn sporadic(times: &[i64]) -> Option<Sporadic> {
    let (&first, &last) = (times.first()?, times.last()?);
    let steps = i64::try_from(times.len()).ok()?.checked_sub(1).filter(|&steps| steps > 0)?;
    let period = (last - first) / steps;
    // The largest (k - 1) * period - (t[j] - t[i]) over all pairs: one pass, as each side is one place's own.
    let (mut lowest, mut jitter) = (i64::MAX, 0);
    for (place, &time) in (0_i64..).zip(times) {
        let ahead = place * period - (time - first);
        lowest = lowest.min(ahead);
        jitter = jitter.max(ahead - lowest);
    }
    let closest = |jobs: usize| times.windows(jobs).map(|window| window[jobs - 1] - window[0]).min();
    let curve = POINTS
        .iter()
        .filter_map(|&jobs| Some(CurvePoint { jobs: jobs as u64, within_ns: closest(jobs)?.unsigned_abs() }));
    Some(Sporadic {
        period_ns: period.unsigned_abs(),
        jitter_ns: jitter.unsigned_abs(),
        least_distance_ns: closest(2)?.unsigned_abs(),
        curve: curve.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_become_a_period_with_jitter_that_covers_them() {
        let times: Vec<i64> = (0..10).flat_map(|burst| [0, 10, 20].map(|within| burst * 1000 + within)).collect();
        let found = sporadic(&times).unwrap();
        assert_eq!(found.least_distance_ns, 10);
        assert_eq!(found.curve[..3].iter().map(|point| point.within_ns).collect::<Vec<_>>(), [10, 20, 1000]);
        for (first, &from) in (0_i64..).zip(&times) {
            for (later, &until) in (0_i64..).zip(&times).filter(|&(later, _)| later >= first) {
                let least = (later - first) * found.period_ns.cast_signed() - found.jitter_ns.cast_signed();
                assert!(until - from >= least, "{first} to {later}");
            }
        }
        assert_eq!(sporadic(&[5]), None);
    }
}
