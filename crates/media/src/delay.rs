//! How long packets were under way.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// From the sender's stamp to the receiver's, on one clock.
    OneWay,
    /// There and back, without the time that the reflector had the packet.
    RoundTrip,
    /// The clocks are two: by how much a packet was longer under way than the fastest before it (and itself), as the
    /// delay variation of RFC 5481 section 4.2.
    Variation,
}

/// Of many values, in nanoseconds; minimum and maximum are exact, the others to 1 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Quartiles {
    pub min: u64,
    pub q1: u64,
    pub median: u64,
    pub q3: u64,
    pub max: u64,
}

/// The delays of one stream, or of several.
#[derive(Debug, Clone)]
pub struct Delays {
    histogram: Histogram<u32>,
    range: Option<(u64, u64)>,
    /// The smallest difference of stamps so far, where the clocks are two.
    fastest_ns: Option<i64>,
    /// Came before they were sent, if the stamps are true.
    pub impossible: u64,
}

/// 256 buckets for each doubling and 128 more: a value is within 0.8 % of what its bucket says.
const SIGNIFICANT_DIGITS: u8 = 2;

impl Delays {
    pub fn new() -> Self {
        // Without bounds it grows as it must; it refuses no number of digits up to five.
        let histogram = Histogram::new(SIGNIFICANT_DIGITS).unwrap_or_else(|error| unreachable!("{error}"));
        Self { histogram, range: None, fastest_ns: None, impossible: 0 }
    }

    /// A packet came whose stamps, the later minus the earlier, differ by this.
    pub fn add(&mut self, basis: Basis, difference_ns: i64) {
        let delay_ns = match basis {
            Basis::OneWay | Basis::RoundTrip => {
                self.impossible += u64::from(difference_ns < 0);
                difference_ns.max(0).unsigned_abs()
            }
            Basis::Variation => {
                let fastest_ns = self.fastest_ns.map_or(difference_ns, |fastest_ns| fastest_ns.min(difference_ns));
                self.fastest_ns = Some(fastest_ns);
                difference_ns.abs_diff(fastest_ns)
            }
        };
        let (min, max) = self.range.unwrap_or((delay_ns, delay_ns));
        self.range = Some((min.min(delay_ns), max.max(delay_ns)));
        // It grows with the longest.
        let _ = self.histogram.record(delay_ns);
    }

    /// Takes those of another stream in.
    pub fn merge(&mut self, other: &Self) {
        self.impossible += other.impossible;
        self.range = match (self.range, other.range) {
            (Some((min, max)), Some((low, high))) => Some((min.min(low), max.max(high))),
            (one, another) => one.or(another),
        };
        // Both grow by themselves, so that nothing is out of range.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "{added:?}");
    }

    /// How many packets took at most so long, and longer than the value before: with it the delays of several
    /// receivers can be put together, which quartiles cannot.
    pub fn buckets(&self) -> BTreeMap<u64, u64> {
        self.histogram
            .iter_recorded()
            .map(|bucket| {
                (self.histogram.highest_equivalent(bucket.value_iterated_to()), bucket.count_since_last_iteration())
            })
            .collect()
    }

    pub fn quartiles(&self) -> Option<Quartiles> {
        let (min, max) = self.range?;
        // A bucket's highest value may lie above the highest that came.
        let at = |quantile| self.histogram.value_at_quantile(quantile).clamp(min, max);
        Some(Quartiles { min, q1: at(0.25), median: at(0.5), q3: at(0.75), max })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quartiles_are_within_one_percent(mut values in prop::collection::vec(0_u64..2_000_000_000, 4..400)) {
            let mut delays = Delays::new();
            for &value in &values {
                delays.add(Basis::OneWay, i64::try_from(value).unwrap());
            }
            values.sort_unstable();
            let rank = |of_four: usize| values[(values.len() * of_four).div_ceil(4).max(1) - 1];
            let found = delays.quartiles().unwrap();
            prop_assert_eq!((found.min, found.max), (values[0], values[values.len() - 1]));
            for (found, exact) in [(found.q1, rank(1)), (found.median, rank(2)), (found.q3, rank(3))] {
                prop_assert!(found.abs_diff(exact) as f64 <= 0.01 * exact as f64, "{} {}", found, exact);
            }
        }

        #[test]
        fn buckets_hold_every_packet_and_give_the_quartiles(values in prop::collection::vec(0_i64..2_000_000_000, 1..400)) {
            let mut delays = Delays::new();
            for &value in &values {
                delays.add(Basis::OneWay, value);
            }
            let (buckets, found) = (delays.buckets(), delays.quartiles().unwrap());
            prop_assert_eq!(buckets.values().sum::<u64>(), values.len() as u64);
            let at = |of_four: u64| {
                let (mut left, wanted) = (0, (values.len() as u64 * of_four).div_ceil(4));
                let mut within = |count: u64| {
                    left += count;
                    left >= wanted
                };
                let (&most, _) = buckets.iter().find(|(_, count)| within(**count)).unwrap();
                most.clamp(found.min, found.max)
            };
            prop_assert_eq!([at(1), at(2), at(3)], [found.q1, found.median, found.q3]);
        }

        #[test]
        fn any_difference_can_be_added(values in prop::collection::vec(any::<i64>(), 1..20)) {
            for basis in [Basis::OneWay, Basis::Variation] {
                let (mut delays, mut both) = (Delays::new(), Delays::new());
                for &value in &values {
                    delays.add(basis, value);
                }
                both.merge(&delays);
                prop_assert_eq!(both.quartiles(), delays.quartiles());
            }
        }
    }

    #[test]
    fn on_two_clocks_only_the_variation_is_told() {
        let mut delays = Delays::new();
        for difference_ns in [-7_000_000, -6_999_900, -7_000_000, -6_998_000] {
            delays.add(Basis::Variation, difference_ns);
        }
        let found = delays.quartiles().unwrap();
        assert_eq!((found.min, found.max, delays.impossible), (0, 2000, 0));
    }

    #[test]
    fn what_came_before_it_was_sent_is_counted() {
        let mut delays = Delays::new();
        delays.add(Basis::OneWay, -1);
        assert_eq!((delays.impossible, delays.quartiles().unwrap().max), (1, 0));
    }
}
