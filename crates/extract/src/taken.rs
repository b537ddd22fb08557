//! When the host took the CPU from a virtual one, on the counter of the guest.

use stealtime_overheads::Stretches;

/// Stretches of one virtual CPU, as sure as the clocks of host and guest can be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    stretches: Stretches,
    /// Each end may be so much earlier or later.
    error: u64,
}

impl Taken {
    /// From `(begin, end)` in any order.
    pub fn new(stretches: Vec<(u64, u64)>, error: u64) -> Self {
        Self { stretches: Stretches::new(stretches), error }
    }

    /// How much of `begin..end` was certainly taken.
    pub fn certain(&self, begin: u64, end: u64) -> u64 {
        let sure = self.stretches.within(begin, end).map(|(from, until)| {
            let (from, until) = (from.saturating_add(self.error), until.saturating_sub(self.error));
            until.min(end).saturating_sub(from.max(begin))
        });
        sure.sum()
    }

    /// Whether some of `begin..end` may have been taken.
    pub fn may_touch(&self, begin: u64, end: u64) -> bool {
        self.stretches.overlap(begin.saturating_sub(self.error), end.saturating_add(self.error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_within_for_sure_counts_as_taken() {
        let taken = Taken::new(vec![(300, 400), (100, 200), (150, 220)], 10);
        assert_eq!(taken.certain(0, 1000), 100 + 80);
        assert_eq!(taken.certain(150, 310), 60);
        assert_eq!(taken.certain(220, 300), 0);
        assert_eq!(Taken::new(vec![(100, 110)], 10).certain(0, 1000), 0);
    }

    #[test]
    fn what_may_have_been_taken_is_longer() {
        let taken = Taken::new(vec![(100, 200)], 10);
        assert!(taken.may_touch(0, 91) && taken.may_touch(209, 300) && taken.may_touch(150, 151));
        assert!(!taken.may_touch(0, 90) && !taken.may_touch(210, 300));
    }
}
