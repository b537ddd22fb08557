//! Sizes and durations of the command line.

use std::time::Duration;

use anyhow::{Context, Result};

/// A duration as requests have it.
pub fn nanoseconds(duration: Duration) -> Result<u64> {
    u64::try_from(duration.as_nanos()).context("a duration of more than 584 years is not possible")
}

/// The same of what is only told: the longest there is, if it does not fit.
pub fn saturating_nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Parses a size: a number and one of B, kB, MB, GB (of 1000) or KiB, MiB, GiB (of 1024).
pub fn parse_bytes(text: &str) -> std::result::Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
        ("", 1),
    ];
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is no size, write for example 9MB"))?;
    let factor = UNITS.iter().find(|(name, _)| *name == unit.trim()).map(|&(_, factor)| factor);
    let factor = factor.ok_or_else(|| format!("{unit:?} is no unit of size, write for example 9MB or 8MiB"))?;
    number.checked_mul(factor).ok_or_else(|| format!("{text} is too much"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        let sizes = [("9MB", 9_000_000), ("8 MiB", 8 << 20), ("4096", 4096), ("1GB", 1_000_000_000)];
        for (text, bytes) in sizes {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "MB", "-1", "9XB", "99999999999999999999", "18446744073709551615kB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
