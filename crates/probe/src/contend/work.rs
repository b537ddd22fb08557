//! The work of one iteration: random numbers, and the search for the one that is nearest to a key.

/// The generator of G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators" (OOPSLA
/// 2014): a step and a mix, from any start.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl SplitMix {
    /// The numbers of one iteration: each has its own, whoever does it.
    pub fn of_unit(seed: u64, unit: u64) -> Self {
        Self(mix(seed).wrapping_add(mix(unit.wrapping_mul(STEP))))
    }

    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Over 0, up to 1.
    fn share(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

#[inline(always)]
fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// Writes random numbers over the whole collection.
#[inline(never)]
pub fn fill(collection: &mut [u64], numbers: &mut SplitMix) {
    for cell in collection {
        *cell = numbers.next();
    }
}

/// Looks at the whole collection for the number that differs least from `key`; gives its place and itself.
#[inline(never)]
pub fn search(collection: &[u64], key: u64) -> u64 {
    let nearest = collection.iter().enumerate().min_by_key(|&(_, number)| number ^ key);
    nearest.map_or(0, |(place, number)| (place as u64).wrapping_mul(STEP) ^ number)
}

/// How long one simulated I/O lasts: `spread_percent` of the mean are exponential, the rest is the same each
/// time.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, below 2^42")]
pub fn io_ns(mean_ns: u64, spread_percent: u32, numbers: &mut SplitMix) -> u64 {
    let spread = f64::from(spread_percent) / 100.0;
    (mean_ns as f64 * (1.0 - spread + spread * -numbers.share().ln())) as u64
}

/// Which searches of an iteration are under the lock: of each hundred runs of `lock_searches`, `lock_percent`,
/// spread evenly.
pub fn is_locked(run: u32, lock_percent: u32) -> bool {
    let before = |run: u64| run * u64::from(lock_percent) / 100;
    before(u64::from(run) + 1) > before(u64::from(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_number_is_found_where_it_is() {
        let mut collection = vec![u64::MAX; 100];
        collection[41] = 0b1000;
        assert_eq!(search(&collection, 0b1001), 41_u64.wrapping_mul(STEP) ^ 0b1000);
        collection[7] = 0b1001;
        assert_eq!(search(&collection, 0b1001), 7_u64.wrapping_mul(STEP) ^ 0b1001);
    }

    #[test]
    fn the_wanted_share_of_the_searches_is_locked() {
        for percent in [0, 1, 25, 50, 99, 100] {
            assert_eq!((0..1000).filter(|&run| is_locked(run, percent)).count(), 10 * percent as usize);
        }
    }

    #[test]
    fn simulated_io_has_its_mean_and_its_spread() {
        let mut numbers = SplitMix::of_unit(1, 1);
        assert_eq!(io_ns(1_000_000, 0, &mut numbers), 1_000_000);
        let times: Vec<f64> = (0..20_000).map(|_| io_ns(1_000_000, 100, &mut numbers) as f64).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let deviation = (times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64).sqrt();
        // Both are 1 ms for an exponential distribution; the standard error of the mean is 0.7 %.
        assert!((mean / 1e6 - 1.0).abs() < 0.03, "{mean}");
        assert!((deviation / 1e6 - 1.0).abs() < 0.05, "{deviation}");
    }
}
