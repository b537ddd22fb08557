//! The offset between two counters, narrowed by what cannot have happened.
//!
//! A guest's counter is the host's plus a constant. Exchanges of clocks give an interval for that constant.
//! Then: no event of the guest can have happened while the thread that is its virtual CPU was not on a CPU of
//! the host. So each stretch off the CPU, shifted by the offset, must fit between two consecutive events of
//! the guest; whatever offset puts an event inside is impossible. What stays possible is a bound, not an
//! estimate.

/// Stretches off the CPU that are looked at, the longest first: they exclude most, and after some hundreds
/// little changes.
const MOST_STRETCHES: usize = 4_000;

/// Which offsets are possible: machine minus host, in cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offsets {
    pub low: i64,
    pub high: i64,
}

impl Offsets {
    /// The middle: at most [`Self::error`] away from the true one.
    pub fn middle(self) -> i64 {
        self.low + (self.high - self.low) / 2
    }

    /// Half of the width, rounded up.
    pub fn error(self) -> u64 {
        self.high.abs_diff(self.low).div_ceil(2)
    }

    pub fn intersect(self, other: Self) -> Option<Self> {
        let both = Self { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }
}

/// Narrow the possible offsets.
///
/// # Arguments
/// * `within`: from the exchanges.
/// * `off`: when the virtual CPU's thread was off the host's CPUs, in host cycles; not overlapping.
/// * `events`: times of events of that virtual CPU, sorted, in machine cycles.
///
/// A stretch that contradicts those before it is passed over and counted: with one of them, what is left is
/// no bound.
pub(crate) fn narrow(within: Offsets, off: &[(u64, u64)], events: &[u64]) -> Narrowed {
    let mut longest: Vec<(u64, u64)> = off.to_vec();
    longest.sort_unstable_by_key(|&(start, end)| std::cmp::Reverse(end - start));
    longest.truncate(MOST_STRETCHES);
    let mut possible = vec![within];
    let mut used = 0;
    let mut contradicting = 0;
    for &(start, end) in &longest {
        let hull = hull(&possible, within);
        let fitting = fits(hull, start, end, events);
        if fitting == [hull] {
            continue;
        }
        let both = intersect_all(&possible, &fitting);
        if both.is_empty() {
            contradicting += 1;
            continue;
        }
        possible = both;
        used += 1;
    }
    Narrowed { offsets: hull(&possible, within), used, contradicting }
}

/// What stretches off the CPU leave possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Narrowed {
    /// The hull of it.
    pub offsets: Offsets,
    /// How many stretches narrowed it.
    pub used: usize,
    /// How many contradicted those before them.
    pub contradicting: usize,
}

fn hull(possible: &[Offsets], otherwise: Offsets) -> Offsets {
    match (possible.first(), possible.last()) {
        (Some(first), Some(last)) => Offsets { low: first.low, high: last.high },
        _ => otherwise,
    }
}

/// The offsets within bounds that put no event into one stretch, in order.
fn fits(within: Offsets, start: u64, end: u64, events: &[u64]) -> Vec<Offsets> {
    let shifted = |time: u64, offset: i64| time.saturating_add_signed(offset);
    // Only events that some offset could put inside matter: one before them and one after bound the first and
    // last gap.
    let first = events.partition_point(|&time| time <= shifted(start, within.low));
    let last = events.partition_point(|&time| time < shifted(end, within.high));
    let mut fitting = Vec::new();
    for gap in first..=last {
        let low = gap.checked_sub(1).map_or(within.low, |before| difference(events[before], start));
        let high = events.get(gap).map_or(within.high, |&after| difference(after, end));
        let gap = Offsets { low: low.max(within.low), high: high.min(within.high) };
        if gap.low <= gap.high {
            fitting.push(gap);
        }
    }
    fitting
}

fn difference(machine: u64, host: u64) -> i64 {
    machine.wrapping_sub(host).cast_signed()
}

fn intersect_all(one: &[Offsets], other: &[Offsets]) -> Vec<Offsets> {
    let mut both = Vec::new();
    let mut from = 0;
    for &piece in one {
        while other.get(from).is_some_and(|it| it.high < piece.low) {
            from += 1;
        }
        both.extend(other[from..].iter().take_while(|it| it.low <= piece.high).filter_map(|&it| piece.intersect(it)));
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Offsets = Offsets { low: -1_000, high: 1_000 };

    #[test]
    fn a_sleep_must_fit_between_two_events() {
        // Off from 500 to 900; the guest was last seen at 1_510 and then at 1_930: the offset is 1_010 to
        // 1_030.
        let within = Offsets { low: 900, high: 1_100 };
        let found = narrow(within, &[(500, 900)], &[1_400, 1_510, 1_930, 2_000]);
        let offsets = Offsets { low: 1_010, high: 1_030 };
        assert_eq!(found, Narrowed { offsets, used: 1, contradicting: 0 });
        assert_eq!((offsets.middle(), offsets.error()), (1_020, 10));
    }

    #[test]
    fn two_sleeps_narrow_more_than_one() {
        let events = [100, 210, 400, 480];
        let found = narrow(Offsets { low: -20, high: 20 }, &[(110, 200), (402, 470)], &events);
        assert_eq!(found.offsets, Offsets { low: -2, high: 10 });
    }

    #[test]
    fn a_sleep_that_events_come_too_often_for_is_a_contradiction() {
        let events: Vec<u64> = (0..400).map(|step| step * 10).collect();
        let found = narrow(WIDE, &[(1_500, 1_600)], &events);
        assert_eq!(found, Narrowed { offsets: WIDE, used: 0, contradicting: 1 });
    }

    #[test]
    fn without_sleeps_the_exchange_is_all_there_is() {
        assert_eq!(narrow(WIDE, &[], &[5]), Narrowed { offsets: WIDE, used: 0, contradicting: 0 });
    }
}
