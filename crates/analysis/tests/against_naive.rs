//! Every statistic against a plain implementation: sort, sum, scan.
#![allow(clippy::float_cmp, clippy::redundant_closure_for_method_calls)]
// Figures are exact; a method path of `Series<'_>` is not general enough over its lifetime.

use proptest::prelude::*;
use stealtime_analysis::{Pool, PoolError, Series, SeriesError, SeriesInput, Spacing, pooled_summary};

/// Columns of a series, with its true values in plain vectors.
#[derive(Debug, Clone)]
struct Columns {
    durations: Vec<u64>,
    gaps: Option<Vec<u64>>,
}

/// Values as they occur: crowded near a floor, a long tail, now and then beyond 32 bits.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 200_000..200_300_u64,
        4 => 0..5_000_u64,
        2 => 1_000_000..4_000_000_000_u64,
        1 => u64::from(u32::MAX)..40_000_000_000_u64,
    ]
}

fn columns() -> impl Strategy<Value = Columns> {
    (prop::collection::vec((value(), value()), 1..6_000), any::<bool>()).prop_map(|(rows, gapped)| Columns {
        durations: rows.iter().map(|row| row.0).collect(),
        gaps: gapped.then(|| rows.iter().map(|row| row.1).collect()),
    })
}

fn stored(values: &[u64]) -> (Vec<u32>, Vec<(u64, u64)>) {
    let rows = values.iter().map(|&value| u32::try_from(value).unwrap_or(u32::MAX)).collect();
    let saturated = (0_u64..).zip(values.iter().copied()).filter(|entry| entry.1 >= u64::from(u32::MAX));
    (rows, saturated.collect())
}

fn with_series<R>(columns: &Columns, floor: Option<u64>, check: impl FnOnce(&Series<'_>) -> R) -> R {
    let (durations, saturated) = stored(&columns.durations);
    let (gaps, saturated_gaps) = stored(columns.gaps.as_deref().unwrap_or(&[]));
    let spacing = match columns.gaps {
        None => Spacing::Tiled,
        Some(_) => Spacing::Gapped { gaps: &gaps, saturated: saturated_gaps },
    };
    let input = SeriesInput { durations: &durations, saturated, spacing, units_per_s: 1e9, calibrated_floor: floor };
    check(&Series::new(input).expect("columns made by `columns()` fit each other"))
}

fn starts(columns: &Columns) -> Vec<u64> {
    let mut time = 0;
    columns
        .durations
        .iter()
        .enumerate()
        .map(|(index, duration)| {
            time += columns.gaps.as_ref().map_or(0, |gaps| gaps[index]);
            let start = time;
            time += duration;
            start
        })
        .collect()
}

fn nearest_rank(sorted: &[u64], tail: usize) -> f64 {
    sorted[sorted.len() - sorted.len() / tail - 1] as f64
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn figures_are_those_of_the_sorted_values(columns in columns(), floor in prop::option::of(0..300_000_u64)) {
        let mut sorted = columns.durations.clone();
        sorted.sort_unstable();
        let count = sorted.len() as f64;
        let mean = sorted.iter().map(|&value| value as f64).sum::<f64>() / count;
        let variance = sorted.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        let longest = *sorted.last().unwrap();
        let index = columns.durations.iter().position(|&value| value == longest).unwrap();
        let cheapest = sorted.iter().copied().find(|&value| value > 0);
        let lowest = floor.into_iter().chain(cheapest).filter(|&floor| floor > 0).min().unwrap_or(0);

        let summary = with_series(&columns, floor, |series| series.summary());
        prop_assert_eq!(summary.count, sorted.len() as u64);
        prop_assert_eq!(summary.min_ns, sorted[0] as f64);
        prop_assert_eq!(summary.floor_ns, lowest as f64);
        prop_assert!(close(summary.mean_ns, mean), "{} is not {mean}", summary.mean_ns);
        prop_assert!(close(summary.sd_ns, variance.sqrt()), "{} is not {}", summary.sd_ns, variance.sqrt());
        prop_assert_eq!(summary.p50_ns, nearest_rank(&sorted, 2));
        prop_assert_eq!(summary.p90_ns, nearest_rank(&sorted, 10));
        prop_assert_eq!(summary.p99_ns, nearest_rank(&sorted, 100));
        prop_assert_eq!(summary.p999_ns, nearest_rank(&sorted, 1_000));
        prop_assert_eq!(summary.p9999_ns, nearest_rank(&sorted, 10_000));
        prop_assert_eq!(summary.p99999_ns, nearest_rank(&sorted, 100_000));
        prop_assert_eq!((summary.max_ns, summary.max_index), (longest as f64, index as u64));
        prop_assert_eq!(summary.max_at_s, starts(&columns)[index] as f64 / 1e9);
        prop_assert_eq!(summary.max_overhead_ns, (longest - lowest) as f64);
        prop_assert!(summary.unresolved.contains(&"p99999_ns".to_owned()));
        prop_assert_eq!(summary.unresolved.contains(&"p999_ns".to_owned()), sorted.len() < 1_000);
    }

    #[test]
    fn pooled_figures_are_those_of_all_values_together(one in columns(), other in columns()) {
        let mut sorted: Vec<u64> = one.durations.iter().chain(&other.durations).copied().collect();
        sorted.sort_unstable();
        let pooled = with_series(&one, None, |one| with_series(&other, None, |other| pooled_summary(&[one, other])));
        let pooled = pooled.unwrap();
        prop_assert_eq!(pooled.count, sorted.len() as u64);
        prop_assert_eq!(pooled.p50_ns, nearest_rank(&sorted, 2));
        prop_assert_eq!(pooled.p999_ns, nearest_rank(&sorted, 1_000));
        prop_assert_eq!(pooled.max_ns, *sorted.last().unwrap() as f64);
        let owner = [&one, &other][pooled.max_part];
        prop_assert_eq!(pooled.max_at_s, starts(owner)[usize::try_from(pooled.max_index).unwrap()] as f64 / 1e9);
    }

    #[test]
    fn a_pool_needs_one_series_at_a_time_and_each_in_its_turn(one in columns(), other in columns()) {
        let digests = [&one, &other].map(|columns| with_series(columns, None, |series| series.digest()));
        let begin = || Pool::new(digests.to_vec()).unwrap();
        prop_assert_eq!(begin().summary(), Err(PoolError::Incomplete { added: 0, parts: 2 }));
        let mut pool = begin();
        for columns in [&one, &other] {
            with_series(columns, None, |series| pool.add(series)).unwrap();
        }
        prop_assert_eq!(with_series(&one, None, |series| pool.add(series)), Err(PoolError::TooMany(2)));
        let at_once = with_series(&one, None, |one| with_series(&other, None, |other| pooled_summary(&[one, other])));
        prop_assert_eq!(pool.summary(), Ok(at_once.unwrap()));
    }

    #[test]
    fn the_curve_runs_through_the_sorted_values_up_to_the_maximum(columns in columns()) {
        let mut sorted = columns.durations.clone();
        sorted.sort_unstable();
        let curve = with_series(&columns, None, |series| series.percentile_curve());
        prop_assert_eq!(curve.value_ns.last().copied(), sorted.last().map(|&value| value as f64));
        prop_assert_eq!(curve.tail_share.last().copied(), Some(0.0));
        for (share, value) in curve.tail_share.iter().zip(&curve.value_ns) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let longer = (share * sorted.len() as f64).round() as usize;
            prop_assert_eq!(*value, sorted[sorted.len() - longer - 1] as f64);
        }
    }

    #[test]
    fn histograms_hold_every_sample_in_its_bin(columns in columns()) {
        let histogram = with_series(&columns, None, |series| series.histogram());
        let within = |low: f64, high: f64| {
            columns.durations.iter().filter(|&&value| low <= value as f64 && (value as f64) < high).count() as u64
        };
        prop_assert_eq!(histogram.log_count.iter().sum::<u64>(), columns.durations.len() as u64);
        for (edges, count) in histogram.log_edge_ns.windows(2).zip(&histogram.log_count) {
            prop_assert_eq!(within(edges[0], edges[1]), *count, "{:?}", edges);
        }
        let linear = histogram.linear_count.iter().sum::<u64>();
        prop_assert_eq!(linear + histogram.above_linear, columns.durations.len() as u64);
        for (edges, count) in histogram.linear_edge_ns.windows(2).zip(&histogram.linear_count) {
            prop_assert_eq!(within(edges[0], edges[1]), *count, "{:?}", edges);
        }
    }

    #[test]
    fn the_envelope_keeps_every_maximum(columns in columns(), buckets in 1..5_000_u32) {
        let (envelope, span) =
            with_series(&columns, None, |series| (series.envelope(buckets), series.summary().span_s));
        let starts = starts(&columns);
        prop_assert!(envelope.bucket.len() <= buckets as usize);
        prop_assert!(envelope.bucket_s * f64::from(buckets) >= span);
        let width = (envelope.bucket_s * 1e9).round();
        for (position, &bucket) in envelope.bucket.iter().enumerate() {
            let low = f64::from(bucket) * width;
            let first = starts.partition_point(|&start| (start as f64) < low);
            let last = starts.partition_point(|&start| (start as f64) < low + width);
            let inside = &columns.durations[first..last];
            prop_assert_eq!(inside.len(), envelope.count[position] as usize);
            prop_assert_eq!(inside.iter().min().map(|&value| value as f64), Some(envelope.min_ns[position]));
            prop_assert_eq!(inside.iter().max().map(|&value| value as f64), Some(envelope.max_ns[position]));
            let at = starts.iter().position(|&start| start as f64 / 1e9 == envelope.max_at_s[position]).unwrap();
            prop_assert!((first..last).contains(&at));
        }
        prop_assert_eq!(envelope.count.iter().map(|&count| count as usize).sum::<usize>(), starts.len());
    }

    #[test]
    fn spikes_are_all_samples_beyond_the_threshold(
        columns in columns(), threshold in value(), most in 0..3_000_usize
    ) {
        let starts = starts(&columns);
        let mut beyond: Vec<usize> =
            (0..columns.durations.len()).filter(|&index| columns.durations[index] > threshold).collect();
        let total = beyond.len() as u64;
        beyond.sort_by_key(|&index| (std::cmp::Reverse(columns.durations[index]), index));
        beyond.truncate(most);
        beyond.sort_unstable();
        let spikes = with_series(&columns, None, |series| series.spikes(threshold, most));
        prop_assert_eq!(spikes.total, total);
        prop_assert_eq!(spikes.index, beyond.iter().map(|&index| index as u64).collect::<Vec<_>>());
        prop_assert_eq!(spikes.start, beyond.iter().map(|&index| starts[index]).collect::<Vec<_>>());
        prop_assert_eq!(spikes.duration, beyond.iter().map(|&index| columns.durations[index]).collect::<Vec<_>>());
    }

    #[test]
    fn the_worst_are_the_end_of_the_sorted_samples(columns in columns(), wanted in 0..50_usize) {
        let mut order: Vec<usize> = (0..columns.durations.len()).collect();
        order.sort_by_key(|&index| (std::cmp::Reverse(columns.durations[index]), index));
        order.truncate(wanted);
        let worst = with_series(&columns, None, |series| series.worst(wanted));
        let starts = starts(&columns);
        prop_assert_eq!(worst.len(), order.len());
        for (sample, index) in worst.iter().zip(order) {
            prop_assert_eq!(sample.index, index as u64);
            prop_assert_eq!(sample.duration_ns, columns.durations[index] as f64);
            prop_assert_eq!(sample.start_s, starts[index] as f64 / 1e9);
        }
    }
}

fn tiled<'a>(durations: &'a [u32], saturated: &[(u64, u64)]) -> SeriesInput<'a> {
    SeriesInput {
        durations,
        saturated: saturated.to_vec(),
        spacing: Spacing::Tiled,
        units_per_s: 2e9,
        calibrated_floor: None,
    }
}

#[test]
fn columns_that_do_not_fit_each_other_are_refused() {
    let error = |input| Series::new(input).unwrap_err();
    assert_eq!(error(tiled(&[], &[])), SeriesError::Empty);
    assert_eq!(error(SeriesInput { units_per_s: 0.0, ..tiled(&[1], &[]) }), SeriesError::ClockRate(0.0));
    assert_eq!(
        error(tiled(&[1, u32::MAX], &[])),
        SeriesError::SaturatedCount { column: "duration", side_list: 0, rows: 1 }
    );
    assert_eq!(
        error(tiled(&[1, 2], &[(1, 5_000_000_000)])),
        SeriesError::NotSaturated { column: "duration", index: 1 }
    );
    let spacing = Spacing::Gapped { gaps: &[1], saturated: vec![] };
    assert_eq!(error(SeriesInput { spacing, ..tiled(&[1, 2], &[]) }), SeriesError::GapCount { durations: 2, gaps: 1 });
}

#[test]
fn a_wake_up_before_its_time_is_no_floor() {
    let spacing = Spacing::Periodic { interval: 1_000 };
    let summary = Series::new(SeriesInput { spacing, ..tiled(&[50, 0, 60, 40], &[]) }).unwrap().summary();
    assert_eq!((summary.min_ns, summary.floor_ns, summary.max_overhead_ns), (0.0, 20.0, 10.0));
}

#[test]
fn a_periodic_series_starts_each_sample_at_its_release() {
    let spacing = Spacing::Periodic { interval: 1_000 };
    let summary = Series::new(SeriesInput { spacing, ..tiled(&[50, 9_000, 60, 70], &[]) }).unwrap().summary();
    assert_eq!((summary.max_ns, summary.max_at_s), (4_500.0, 500e-9));
    assert_eq!(summary.span_s, 3_070.0 / 2e9);
}

proptest! {
    #[test]
    fn a_pause_moves_what_comes_after_it_and_nothing_else(
        columns in columns(),
        pauses in prop::collection::btree_map(0..6_000_u64, 1..1_u64 << 40, 1..20),
        periodic in any::<bool>(),
    ) {
        let count = columns.durations.len() as u64;
        let pauses: Vec<(u64, u64)> = pauses.into_iter().filter(|pause| pause.0 < count).collect();
        let (durations, saturated) = stored(&columns.durations);
        let (gaps, saturated_gaps) = stored(columns.gaps.as_deref().unwrap_or(&[]));
        let spacing = match (&columns.gaps, periodic) {
            (None, true) => Spacing::Periodic { interval: 1_000_000 },
            (None, false) => Spacing::Tiled,
            (Some(_), _) => Spacing::Gapped { gaps: &gaps, saturated: saturated_gaps },
        };
        let input =
            SeriesInput { durations: &durations, saturated, spacing, units_per_s: 1e9, calibrated_floor: None };
        let plain = Series::new(input.clone()).unwrap();
        let paused = Series::with_pauses(input, pauses.clone()).unwrap();
        let all = usize::try_from(count).unwrap();
        let (before, after) = (plain.spikes(0, all), paused.spikes(0, all));
        let earlier = |index: u64| pauses.iter().filter(|pause| pause.0 <= index).map(|pause| pause.1).sum::<u64>();
        prop_assert_eq!(&before.duration, &after.duration);
        for ((index, start), moved) in before.index.iter().zip(&before.start).zip(&after.start) {
            prop_assert_eq!(start + earlier(*index), *moved);
        }
        let (plain, paused) = (plain.summary(), paused.summary());
        prop_assert_eq!((plain.p999_ns, plain.max_index), (paused.p999_ns, paused.max_index));
        let longer_s = earlier(count) as f64 * 1e-9;
        prop_assert!((paused.span_s - plain.span_s - longer_s).abs() <= 1e-9 * paused.span_s);
    }
}
