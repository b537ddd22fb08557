//! When the samples of a trial were, counted from the start of the first: rows, true values and pauses together.

use stealtime_wire::Layout;

use crate::recorder::SATURATED;
use crate::samples::{Rows32, Samples};

/// What places samples in time, besides their rows.
#[derive(Debug, Clone)]
pub struct TimeLine {
    layout: Layout,
    saturated: Vec<(u64, u64)>,
    saturated_gaps: Vec<(u64, u64)>,
    pauses: Vec<(u64, u64)>,
}

/// A sample in time, in units since the start of sample 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    pub index: u64,
    /// How long nobody watched before it; that is over when its gap begins.
    pub pause: u64,
    /// Between the pause and its start, or its end where samples overlap.
    pub gap: u64,
    pub start: u64,
    pub duration: u64,
}

impl TimeLine {
    /// The lists are in the order of their indices, as they were measured.
    pub fn new(
        layout: Layout,
        saturated: Vec<(u64, u64)>,
        saturated_gaps: Vec<(u64, u64)>,
        pauses: Vec<(u64, u64)>,
    ) -> Self {
        Self { layout, saturated, saturated_gaps, pauses }
    }

    pub fn of(samples: &Samples, layout: Layout) -> Self {
        Self::new(layout, samples.saturated.clone(), samples.saturated_gaps.clone(), samples.pauses.clone())
    }

    /// How long the pauses were altogether.
    pub fn paused(&self) -> u64 {
        self.pauses.iter().map(|&(_, units)| units).sum()
    }

    /// Visits rows that begin with sample `first`, before which `elapsed` units had passed; gives how many
    /// have at their end.
    pub fn walk(&self, first: usize, elapsed: u64, rows: &Rows32, mut visit: impl FnMut(Placed)) -> u64 {
        let from = self.pauses.partition_point(|&(index, _)| index < first as u64);
        let mut pauses = self.pauses[from..].iter().peekable();
        let mut elapsed = elapsed;
        for (position, (index, &row)) in (first as u64..).zip(&rows.durations).enumerate() {
            let pause = pauses.next_if(|(at, _)| *at == index).map_or(0, |&(_, units)| units);
            let gap = rows.gaps.as_ref().map_or(0, |gaps| true_value(&self.saturated_gaps, index, gaps[position]));
            let duration = true_value(&self.saturated, index, row);
            let begin = elapsed + pause + gap;
            let start = if self.layout.overlaps() { begin.saturating_sub(duration) } else { begin };
            visit(Placed { index, pause, gap, start, duration });
            elapsed = match self.layout {
                Layout::Periodic { interval } => start + interval,
                Layout::Tiled | Layout::Gapped => start.saturating_add(duration),
                Layout::Transfers | Layout::Echoes => begin,
            };
        }
        elapsed
    }
}

fn true_value(list: &[(u64, u64)], index: u64, row: u32) -> u64 {
    if row != SATURATED {
        return row.into();
    }
    list.binary_search_by_key(&index, |entry| entry.0).map_or(u64::from(row), |position| list[position].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(layout: Layout, rows: &Rows32, first: usize, elapsed: u64) -> (Vec<(u64, u64)>, u64) {
        let line = TimeLine::new(layout, vec![(6, 1 << 40)], vec![(5, 1 << 33)], vec![(0, 9), (6, 70), (7, 3)]);
        let mut seen = Vec::new();
        let end = line.walk(first, elapsed, rows, |one| seen.push((one.start, one.duration)));
        (seen, end)
    }

    #[test]
    fn a_pause_moves_what_comes_after_it_and_true_values_count() {
        let rows = Rows32 { durations: vec![10, SATURATED, 30], ..Rows32::default() };
        let long = 1 << 40;
        let (seen, end) = placed(Layout::Tiled, &rows, 5, 100);
        assert_eq!(seen, [(100, 10), (180, long), (180 + long + 3, 30)]);
        assert_eq!(end, 213 + long);
    }

    #[test]
    fn a_gap_comes_after_the_pause() {
        let rows = Rows32 { gaps: Some(vec![SATURATED, 2]), durations: vec![10, 20], further: Vec::new() };
        let (seen, end) = placed(Layout::Gapped, &rows, 5, 0);
        assert_eq!(seen[0], (1 << 33, 10));
        assert_eq!(seen[1].0, (1 << 33) + 10 + 70 + 2);
        assert_eq!(end, seen[1].0 + seen[1].1);
    }

    #[test]
    fn periods_go_on_after_a_pause() {
        let rows = Rows32 { durations: vec![1, 2, 3], ..Rows32::default() };
        let (seen, end) = placed(Layout::Periodic { interval: 1_000 }, &rows, 5, 5_009);
        assert_eq!(seen.iter().map(|one| one.0).collect::<Vec<_>>(), [5_009, 6_079, 7_082]);
        assert_eq!(end, 8_082);
    }

    #[test]
    fn requests_that_overlap_follow_each_other_by_their_ends() {
        let rows = Rows32 { gaps: Some(vec![100, 10, 5]), durations: vec![90, 95, 3], further: Vec::new() };
        let line = TimeLine::new(Layout::Transfers, Vec::new(), Vec::new(), vec![(2, 50)]);
        let mut seen = Vec::new();
        let end = line.walk(0, 0, &rows, |one| seen.push((one.start, one.duration)));
        assert_eq!(seen, [(10, 90), (15, 95), (162, 3)]);
        assert_eq!(end, 165);
    }
}
