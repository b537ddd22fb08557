//! When the thread of a virtual CPU was on no CPU of the host.

use stealtime_wire::{EventKind, TraceColumns};

/// Stretches, sorted and apart from each other, with what they add up to before each.
#[derive(Debug, Default)]
pub struct Stretches {
    start: Vec<u64>,
    end: Vec<u64>,
    before: Vec<u64>,
    total: u64,
}

impl Stretches {
    fn push(&mut self, start: u64, end: u64) {
        if start < end {
            self.start.push(start);
            self.end.push(end);
            self.before.push(self.total);
            self.total += end - start;
        }
    }

    /// How much of them lies before a time.
    fn until(&self, time: u64) -> u64 {
        let count = self.start.partition_point(|&start| start < time);
        count.checked_sub(1).map_or(0, |last| self.before[last] + self.end[last].min(time) - self.start[last])
    }

    /// How much of them lies in a stretch.
    pub fn within(&self, start: u64, end: u64) -> u64 {
        if start < end { self.until(end) - self.until(start) } else { 0 }
    }
}

/// What the host's trace tells of one thread.
#[derive(Debug, Default)]
pub struct Occupation {
    /// On no CPU, for whatever reason.
    pub off: Stretches,
    /// On no CPU although it could run: preempted, or woken and waiting.
    pub waiting: Stretches,
}

impl Occupation {
    /// Follows a thread through the switches and wake-ups of the host.
    pub fn of(thread: i32, host: &TraceColumns<'_>) -> Self {
        let mut found = Self::default();
        let (mut left, mut could_run): (Option<u64>, Option<u64>) = (None, None);
        for row in 0..host.time.len() {
            let time = host.time[row];
            match EventKind::from_code(host.kind[row]) {
                Some(EventKind::Switch) if host.other[row] == thread => {
                    if let Some(start) = left.take() {
                        found.off.push(start, time);
                    }
                    if let Some(start) = could_run.take() {
                        found.waiting.push(start, time);
                    }
                }
                Some(EventKind::Switch) if host.thread[row] == thread => {
                    left = Some(time);
                    could_run = (host.value[row] == 0).then_some(time);
                }
                Some(EventKind::Waking) if host.other[row] == thread && left.is_some() => {
                    could_run.get_or_insert(time);
                }
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_is_told_to_the_cycle() {
        let mut stretches = Stretches::default();
        stretches.push(10, 20);
        stretches.push(20, 20);
        stretches.push(30, 35);
        for (start, end, expected) in [(0, 9, 0), (0, 12, 2), (15, 32, 7), (20, 30, 0), (0, 99, 15), (40, 50, 0), (9, 3, 0)] {
            assert_eq!(stretches.within(start, end), expected, "{start} to {end}");
        }
    }
}
