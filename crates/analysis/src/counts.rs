//! How often each duration came, added up over many trials.

/// Adds up how often each duration came in several parts; gives durations in order, each once, with their counts.
///
/// Most durations of a probe lie close together: they are added where they belong, in a place for each row from the
/// shortest one on, and only what lies beyond is sorted.
///
/// # Panics
/// If a part has another number of counts than of durations, or the samples of a duration are more than 2^64.
pub fn merged_counts(parts: &[(&[u64], &[u64])]) -> (Vec<u64>, Vec<u64>) {
    let rows: usize = parts.iter().map(|(durations, _)| durations.len()).sum();
    let Some(low) = parts.iter().flat_map(|(durations, _)| durations.iter().copied()).min() else {
        return (Vec::new(), Vec::new());
    };
    let mut near = vec![0_u64; rows];
    let mut far = Vec::new();
    for (durations, counts) in parts {
        assert_eq!(durations.len(), counts.len(), "each duration has a count");
        for (&duration, &count) in durations.iter().zip(*counts) {
            match usize::try_from(duration - low).ok().and_then(|place| near.get_mut(place)) {
                Some(sum) => *sum += count,
                None => far.push((duration, count)),
            }
        }
    }
    far.retain(|&(_, count)| count > 0);
    // Each part is in order: a stable sort merges such runs.
    far.sort_by_key(|&(duration, _)| duration);
    let most = near.iter().filter(|&&count| count > 0).count() + far.len();
    let (mut durations, mut sums) = (Vec::with_capacity(most), Vec::with_capacity(most));
    for (duration, count) in (low..).zip(near).filter(|&(_, count)| count > 0) {
        durations.push(duration);
        sums.push(count);
    }
    for (duration, count) in far {
        match sums.last_mut() {
            Some(sum) if durations.last() == Some(&duration) => *sum += count,
            _ => {
                durations.push(duration);
                sums.push(count);
            }
        }
    }
    (durations, sums)
}

#[cfg(test)]
mod tests {
    use super::merged_counts;

    #[test]
    fn what_lies_close_together_and_what_lies_far_apart_adds_up() {
        let (first, second) = ([5, 6, 9, u64::MAX], [6, 7, 1 << 40, u64::MAX]);
        let (durations, counts) = merged_counts(&[(&first, &[1, 2, 3, 4]), (&[], &[]), (&second, &[10, 20, 30, 40])]);
        assert_eq!(durations, [5, 6, 7, 9, 1 << 40, u64::MAX]);
        assert_eq!(counts, [1, 12, 20, 3, 30, 44]);
    }

    #[test]
    fn what_came_never_is_left_out() {
        assert_eq!(merged_counts(&[(&[3, 4, 1 << 50], &[0, 1, 0])]), (vec![4], vec![1]));
        assert_eq!(merged_counts(&[]), (vec![], vec![]));
    }
}
