//! From `CLOCK_MONOTONIC`, on which timers run, to the time-stamp counter.

use stealtime_wire::{ClockConversion, ClockReading};

/// The line through the first and the last of some readings; how far the others lie off it is its error. They are
/// read where they lie: a long trial has many.
///
/// Between readings the kernel may steer its clock (NTP), which makes it no line: that shows in the readings
/// in between, and is part of the error.
pub fn line_through<'a>(
    readings: impl IntoIterator<Item = &'a ClockReading, IntoIter: Clone>,
) -> Option<ClockConversion> {
    let readings = readings.into_iter();
    let first = readings.clone().next()?;
    let (count, last) = readings.clone().fold((0, first), |(count, _), reading| (count + 1, reading));
    let elapsed_ns = last.monotonic_ns.checked_sub(first.monotonic_ns).filter(|&elapsed_ns| elapsed_ns > 0)?;
    let line = ClockConversion {
        tsc: first.tsc,
        monotonic_ns: first.monotonic_ns,
        tsc_per_ns: last.tsc.checked_sub(first.tsc)? as f64 / elapsed_ns as f64,
        error_ns: 0.0,
        readings: count,
    };
    let error_units = |reading: &ClockReading| {
        let off = reading.tsc.abs_diff(to_tsc(&line, reading.monotonic_ns));
        off as f64 + reading.bracket_tsc as f64 / 2.0
    };
    let worst = readings.map(error_units).fold(0.0, f64::max);
    Some(ClockConversion { error_ns: worst / line.tsc_per_ns, ..line })
}

/// What the time-stamp counter showed when `CLOCK_MONOTONIC` showed `monotonic_ns`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "distances from the line's point are of the length of a trial, far below 2^53"
)]
pub fn to_tsc(line: &ClockConversion, monotonic_ns: u64) -> u64 {
    let since_ns = monotonic_ns.wrapping_sub(line.monotonic_ns) as i64;
    line.tsc.wrapping_add_signed((since_ns as f64 * line.tsc_per_ns).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(tsc: u64, monotonic_ns: u64, bracket_tsc: u64) -> ClockReading {
        ClockReading { tsc, monotonic_raw_ns: 0, monotonic_ns, bracket_tsc }
    }

    #[test]
    fn a_moment_is_brought_to_the_counter_and_its_error_is_that_of_the_readings() {
        let line = line_through(&[reading(1_000, 500, 8), reading(21_000, 10_500, 12)]).unwrap();
        assert!((line.tsc_per_ns - 2.0).abs() < 1e-12);
        assert_eq!((to_tsc(&line, 500), to_tsc(&line, 400), to_tsc(&line, 10_600)), (1_000, 800, 21_200));
        assert!((line.error_ns - 3.0).abs() < 1e-9, "{line:?}");
    }

    #[test]
    fn a_reading_off_the_line_widens_the_error() {
        let line = line_through(&[reading(0, 0, 8), reading(10_100, 5_000, 20), reading(20_000, 10_000, 8)]).unwrap();
        assert!((line.error_ns - 55.0).abs() < 1e-9, "{line:?}");
    }

    #[test]
    fn no_line_goes_through_one_moment_or_backwards() {
        assert!(line_through(&[]).is_none());
        assert!(line_through(&[reading(5, 5, 1), reading(9, 5, 1)]).is_none());
        assert!(line_through(&[reading(9, 5, 1), reading(5, 9, 1)]).is_none());
    }
}
