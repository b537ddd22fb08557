//! Stretches of time, to ask whether one of them overlaps.

/// Stretches in order, apart from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stretches(Vec<(u64, u64)>);

impl Stretches {
    /// From `(begin, end)` in any order; those that touch become one, empty ones none.
    pub fn new(mut stretches: Vec<(u64, u64)>) -> Self {
        stretches.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (begin, end) in stretches.into_iter().filter(|(begin, end)| begin < end) {
            match joined.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((begin, end)),
            }
        }
        Self(joined)
    }

    /// Those that have a moment in common with `begin..end`, whole.
    pub fn within(&self, begin: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self.0.partition_point(|&(_, until)| until <= begin);
        self.0[first..].iter().copied().take_while(move |&(from, _)| from < end)
    }

    /// Whether one of them has a moment in common with `begin..end`.
    pub fn overlap(&self, begin: u64, end: u64) -> bool {
        self.within(begin, end).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_common_moment_is_an_overlap() {
        let stretches = Stretches::new(vec![(30, 40), (10, 20), (20, 22), (5, 5)]);
        assert!(stretches.overlap(0, 11));
        assert!(stretches.overlap(21, 25));
        assert!(stretches.overlap(15, 16));
        assert!(stretches.overlap(0, 100));
        assert!(!stretches.overlap(0, 10));
        assert!(!stretches.overlap(22, 30));
        assert!(!stretches.overlap(40, 50));
        assert!(!stretches.overlap(5, 5));
    }
}
