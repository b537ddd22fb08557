//! A complete histogram of `u32` values whose bins are at most 0.1 % wide.
//!
//! Values below 1024 have a bin each; above, each octave is cut into 1024 equal bins (the layout of
//! `HdrHistogram`). It locates every rank to within one bin; [`crate::selection`] then finds the exact value
//! inside.

/// Bins an octave, as a power of two.
const PRECISION_BITS: u32 = 10;
const PER_OCTAVE: usize = 1 << PRECISION_BITS;

/// How many bins cover all of `u32`.
pub const BUCKETS: usize = PER_OCTAVE * (32 - PRECISION_BITS as usize + 1);

#[inline]
pub fn bucket_of(value: u32) -> usize {
    // Below PER_OCTAVE the exponent is 0 and the bin is the value itself.
    let exponent = u32::BITS - (value | ((1 << PRECISION_BITS) - 1)).leading_zeros() - PRECISION_BITS;
    if exponent == 0 {
        value as usize
    } else {
        let shift = exponent - 1;
        (shift as usize) * PER_OCTAVE + (value >> shift) as usize
    }
}

/// The smallest value of a bin.
pub fn lower_bound(bucket: usize) -> u64 {
    if bucket < 2 * PER_OCTAVE {
        bucket as u64
    } else {
        let shift = bucket / PER_OCTAVE - 1;
        ((bucket - shift * PER_OCTAVE) as u64) << shift
    }
}

/// How many values fall into a bin.
pub fn width(bucket: usize) -> u64 {
    lower_bound(bucket + 1) - lower_bound(bucket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_tile_all_values_without_holes() {
        assert_eq!(lower_bound(0), 0);
        for bucket in 0..BUCKETS {
            let low = u32::try_from(lower_bound(bucket)).unwrap();
            let high = u32::try_from(lower_bound(bucket + 1) - 1).unwrap();
            assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket), "bin {bucket} is {low}..={high}");
        }
        assert_eq!(lower_bound(BUCKETS), 1 << 32);
    }

    proptest! {
        #[test]
        fn a_bin_is_at_most_a_thousandth_wide(value: u32) {
            let bucket = bucket_of(value);
            let low = lower_bound(bucket);
            prop_assert!(low <= u64::from(value) && u64::from(value) < low + width(bucket));
            prop_assert!(width(bucket) == 1 || width(bucket) * 1000 <= low);
        }
    }
}
