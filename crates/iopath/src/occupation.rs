//! When threads of the emulator were on no CPU of the host.

use rustc_hash::{FxHashMap, FxHashSet};
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

    fn of(stretches: &[(u64, u64)]) -> Self {
        let mut made = Self::default();
        for &(start, end) in stretches {
            made.push(start, end);
        }
        made
    }

    fn each(&self) -> impl Iterator<Item = (u64, u64)> {
        self.start.iter().copied().zip(self.end.iter().copied())
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

/// What the host's trace tells of the emulator's threads beside its virtual CPUs.
#[derive(Debug, Default)]
pub struct Helpers {
    /// Some could run, and none did.
    pub waiting: Stretches,
    /// Some ran or could run; sorted and apart from each other.
    awake: Vec<(u64, u64)>,
}

impl Helpers {
    /// Follows threads through the switches and wake-ups of the host; until one is first seen it sleeps.
    pub fn of(threads: &FxHashSet<i32>, host: &TraceColumns<'_>) -> Self {
        let mut running: Vec<(u64, u64)> = Vec::new();
        let mut waiting: Vec<(u64, u64)> = Vec::new();
        let (mut ran_since, mut could_since) = (FxHashMap::<i32, u64>::default(), FxHashMap::<i32, u64>::default());
        for row in 0..host.time.len() {
            let (time, left, came) = (host.time[row], host.thread[row], host.other[row]);
            match EventKind::from_code(host.kind[row]) {
                Some(EventKind::Switch) => {
                    if threads.contains(&left) {
                        running.extend(ran_since.remove(&left).map(|start| (start, time)));
                        if host.value[row] == 0 {
                            could_since.insert(left, time);
                        }
                    }
                    if threads.contains(&came) {
                        waiting.extend(could_since.remove(&came).map(|start| (start, time)));
                        ran_since.insert(came, time);
                    }
                }
                Some(EventKind::Waking) if threads.contains(&came) && !ran_since.contains_key(&came) => {
                    could_since.entry(came).or_insert(time);
                }
                _ => {}
            }
        }
        let running = merged(running);
        let waiting = merged(waiting);
        let awake = merged(running.iter().chain(&waiting).copied().collect());
        Self { waiting: Stretches::of(&without(&waiting, &running)), awake }
    }

    /// When a virtual CPU could run and did not, and all of these slept: they wait for what it holds or does itself.
    pub fn held_up_by(&self, cpu: &Occupation) -> Stretches {
        let waiting: Vec<(u64, u64)> = cpu.waiting.each().collect();
        Stretches::of(&without(&waiting, &self.awake))
    }
}

/// Sorts stretches and joins those that touch.
fn merged(mut stretches: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    stretches.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in stretches {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// What of `stretches` lies outside of `others`; both are sorted and apart from each other.
fn without(stretches: &[(u64, u64)], others: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    let mut place = 0;
    for &(mut start, end) in stretches {
        while others.get(place).is_some_and(|other| other.1 <= start) {
            place += 1;
        }
        for &(from, until) in others[place..].iter().take_while(|other| other.0 < end) {
            if start < from {
                left.push((start, from));
            }
            start = start.max(until);
        }
        if start < end {
            left.push((start, end));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_others_is_left_out() {
        let stretches = [(0, 10), (20, 30), (40, 50)];
        let left = without(&stretches, &[(2, 4), (8, 22), (25, 26), (45, 60)]);
        assert_eq!(left, [(0, 2), (4, 8), (22, 25), (26, 30), (40, 45)]);
        assert_eq!(without(&stretches, &[]), stretches);
        assert_eq!(without(&stretches, &[(0, 99)]), []);
        assert_eq!(merged(vec![(5, 9), (0, 2), (2, 3), (8, 11)]), [(0, 3), (5, 11)]);
    }

    #[test]
    fn what_lies_within_is_told_to_the_cycle() {
        let mut stretches = Stretches::default();
        stretches.push(10, 20);
        stretches.push(20, 20);
        stretches.push(30, 35);
        for (start, end, expected) in
            [(0, 9, 0), (0, 12, 2), (15, 32, 7), (20, 30, 0), (0, 99, 15), (40, 50, 0), (9, 3, 0)]
        {
            assert_eq!(stretches.within(start, end), expected, "{start} to {end}");
        }
    }
}
