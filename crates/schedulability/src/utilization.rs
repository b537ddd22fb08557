//! Sums of `cost / period`, exactly where it matters.

use num_rational::BigRational;

/// Lower and upper bounds of a utilization with 64 binary places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utilization {
    pub low: u128,
    pub high: u128,
}

impl Utilization {
    /// One CPU.
    pub const ONE: u128 = 1 << 64;

    /// Of pairs of cost and period; no period is 0.
    pub fn of(pairs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut sum = Self::default();
        for (cost, period) in pairs {
            let scaled = u128::from(cost) << 64;
            // Each term is below 2^128 / period, and sums of fewer than 2^64 / cost terms do not reach 2^128.
            sum.low = sum.low.saturating_add(scaled / u128::from(period));
            sum.high = sum.high.saturating_add(scaled.div_ceil(u128::from(period)));
        }
        sum
    }

    /// For people.
    pub fn as_f64(self) -> f64 {
        self.high as f64 / Self::ONE as f64
    }
}

/// Whether a utilization exceeds one CPU; where 64 binary places do not tell, by fractions of any length.
pub fn exceeds_one(pairs: &[(u64, u64)]) -> bool {
    let bounds = Utilization::of(pairs.iter().copied());
    if bounds.high <= Utilization::ONE {
        return false;
    }
    if bounds.low > Utilization::ONE {
        return true;
    }
    let sum: BigRational = pairs.iter().map(|&(cost, period)| BigRational::new(cost.into(), period.into())).sum();
    sum > BigRational::from_integer(1.into())
}
