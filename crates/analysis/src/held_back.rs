//! Samples that the kernel's own limit on real-time threads explains: they say nothing of a machine's delays.
//!
//! A busy `SCHED_FIFO` thread uses up what its kernel grants to real-time threads (950 ms of every second) and
//! then stands still for the rest of the period, whatever machine it runs on; or for as long as the fair server
//! serves ordinary threads. Such a pause stays among the samples; it is no maximum to compare machines by.
//! Whether a trial of half a second holds one is chance, and a ratio of it is false.
//!
//! Explained is a sample in which ordinary threads ran, or nobody, for at least half of its overhead although the
//! probe could have run, if that overhead is between half a pause and a whole one with the tick that ends it, once
//! in a period at most. What of it is not proven so counts as any other sample's overhead does. That a limit
//! could have acted explains nothing. A longer sample is not explained, though a pause may be a part of it.

use serde::Serialize;

use crate::series::Series;

/// From this share of it on, a sample may be a pause: one that begins late in its period lasts less.
const PAUSE_SHARE: f64 = 0.5;
/// A pause ends with a tick; the slowest kernels have HZ=100.
const TICK_MOST_NS: f64 = 10e6;
/// Of a period: pauses come once in each, but a short one and the next are nearer than a whole one.
const APART_SHARE: f64 = 0.5;
/// Of its overhead: as much must be proven before a sample is explained.
const PROVEN_SHARE: f64 = 0.5;
/// Twelve days of pauses.
const SPIKES_MOST: usize = 1 << 20;

/// How long real-time threads may be made to stand still in every period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pause {
    pub pause_ns: f64,
    pub period_ns: f64,
}

/// What a limit explains, and the longest of the rest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldBack {
    /// Samples that are explained.
    pub count: u64,
    /// Overhead of the longest explained one.
    pub longest_ns: Option<f64>,
    /// Samples that are as long as a pause, of which nothing proves that it was one.
    pub unproven: u64,
    /// The longest that is left: another sample, or the floor and what is not proven of an explained one.
    pub rest_max_ns: f64,
    pub rest_max_overhead_ns: f64,
    /// When that sample began, from the start of sample 0.
    pub rest_max_at_s: f64,
    /// How much of that sample is such a stretch all the same: a pause may be a part of it.
    pub rest_paused_ns: f64,
}

struct Candidate {
    index: u64,
    start: u64,
    overhead_ns: f64,
    proven_ns: f64,
}

impl Series<'_> {
    /// Find the samples that a limit explains; `evidence` is (start, duration) of the stretches in which others
    /// ran that the limit lets run, in clock units from the start of sample 0.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a pause is below 2^53 units")]
    pub fn held_back(&self, pause: Pause, evidence: &[(u64, u64)]) -> HeldBack {
        let floor_ns = self.summary().floor_ns;
        let ns_a_unit = self.nanoseconds(1.0);
        let threshold = ((floor_ns + PAUSE_SHARE * pause.pause_ns) / ns_a_unit) as u64;
        let spikes = self.spikes(threshold, SPIKES_MOST);
        let mut evidence = evidence.to_vec();
        evidence.sort_unstable();
        let columns = spikes.index.iter().zip(&spikes.start).zip(&spikes.duration);
        let fitting: Vec<Candidate> = columns
            .map(|((&index, &start), &duration)| {
                let overhead_ns = duration as f64 * ns_a_unit - floor_ns;
                let proven_ns = (overlap(&evidence, start, duration) as f64 * ns_a_unit).min(overhead_ns);
                Candidate { index, start, overhead_ns, proven_ns }
            })
            .filter(|one| one.overhead_ns <= pause.pause_ns + TICK_MOST_NS)
            .collect();
        let (proven, unproven): (Vec<_>, Vec<_>) =
            fitting.into_iter().partition(|one| one.proven_ns >= PROVEN_SHARE * one.overhead_ns);
        let apart = (APART_SHARE * pause.period_ns / ns_a_unit) as u64;
        let explained = once_a_period(proven, pause.pause_ns, apart);
        let others = self.worst(explained.len() + 1);
        let other = others.iter().find(|sample| explained.iter().all(|one| one.index != sample.index));
        let left = explained.iter().map(|one| (one.overhead_ns - one.proven_ns, self.seconds(one.start), 0.0));
        let other = other.map(|sample| {
            let index = sample.index as usize;
            let paused = overlap(&evidence, self.start(index), self.duration(index)) as f64 * ns_a_unit;
            (sample.duration_ns - floor_ns, sample.start_s, paused)
        });
        let (rest_ns, rest_at_s, rest_paused_ns) =
            left.chain(other).max_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or((0.0, 0.0, 0.0));
        HeldBack {
            count: explained.len() as u64,
            longest_ns: explained.iter().map(|one| one.overhead_ns).max_by(f64::total_cmp),
            unproven: unproven.len() as u64,
            rest_max_ns: floor_ns + rest_ns,
            rest_max_overhead_ns: rest_ns,
            rest_max_at_s: rest_at_s,
            rest_paused_ns,
        }
    }
}

/// How much of a sample lies in stretches that are in order and apart from each other.
fn overlap(stretches: &[(u64, u64)], start: u64, duration: u64) -> u64 {
    let end = start + duration;
    let first = stretches.partition_point(|&(from, length)| from + length <= start);
    let within = stretches[first..].iter().take_while(|&&(from, _)| from < end);
    within.map(|&(from, length)| (from + length).min(end) - from.max(start)).sum()
}

/// Of those too near to each other the likeliest.
fn once_a_period(mut proven: Vec<Candidate>, pause_ns: f64, apart: u64) -> Vec<Candidate> {
    proven.sort_by(|one, other| (one.overhead_ns - pause_ns).abs().total_cmp(&(other.overhead_ns - pause_ns).abs()));
    let mut taken = std::collections::BTreeSet::new();
    proven.retain(|one| {
        let is_near = |&other: &u64| one.start.abs_diff(other) < apart;
        let near = taken.range(..=one.start).next_back().is_some_and(is_near)
            || taken.range(one.start..).next().is_some_and(is_near);
        !near && taken.insert(one.start)
    });
    proven
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small positive numbers")]
mod tests {
    use super::*;
    use crate::{SeriesInput, Spacing};

    const LOOP_NS: u32 = 100_000;
    const PAUSE: Pause = Pause { pause_ns: 50e6, period_ns: 1e9 };

    /// Loops, of which those that begin about so many seconds from the start last so many ms longer.
    fn held_back(stalls: &[(f64, f64)], proven: impl Fn(u64, u64) -> (u64, u64)) -> HeldBack {
        let mut durations = vec![LOOP_NS; 50_000];
        for &(at_s, stall_ms) in stalls {
            durations[(at_s * 1e4) as usize] += (stall_ms * 1e6) as u32;
        }
        let mut evidence = Vec::new();
        let mut start = 0;
        for &duration in &durations {
            if duration > LOOP_NS {
                evidence.push(proven(start, (duration - LOOP_NS).into()));
            }
            start += u64::from(duration);
        }
        let input = SeriesInput {
            durations: &durations,
            saturated: vec![],
            spacing: Spacing::Tiled,
            units_per_s: 1e9,
            calibrated_floor: None,
        };
        Series::new(input).unwrap().held_back(PAUSE, &evidence)
    }

    /// All of each is proven, but for what the switches take.
    fn proven(start: u64, stall: u64) -> (u64, u64) {
        (start + 10_000, stall - stall / 1_000)
    }

    fn unproven(start: u64, _: u64) -> (u64, u64) {
        (start, 0)
    }

    #[test]
    fn pauses_are_told_from_the_longest_of_the_others() {
        let found = held_back(&[(0.9, 31.0), (1.8, 50.2), (2.5, 0.3), (2.7, 53.9), (3.6, 50.0)], proven);
        assert_eq!((found.count, found.unproven), (4, 0));
        assert_eq!(found.longest_ns, Some(53.9e6));
        assert!((found.rest_max_overhead_ns - 0.3e6).abs() < 1e-3);
        assert!((found.rest_max_at_s - 2.5812).abs() < 1e-6, "the pauses before it took their time: {found:?}");
    }

    #[test]
    fn what_a_limit_could_have_done_explains_nothing() {
        let thefts = [(0.5, 40.0), (1.5, 40.0), (2.5, 40.0), (3.5, 40.0)];
        let found = held_back(&thefts, unproven);
        assert_eq!((found.count, found.unproven, found.longest_ns), (0, 4, None));
        assert_eq!((found.rest_max_overhead_ns, found.rest_paused_ns), (40e6, 0.0));
    }

    #[test]
    fn what_is_not_proven_of_an_explained_sample_counts() {
        // 20 ms of a thief beside 30 ms of the fair server.
        let found = held_back(&[(1.5, 50.0)], |start, _| (start + 20_000_000, 30_000_000));
        assert_eq!((found.count, found.rest_max_overhead_ns), (1, 20e6));
        assert!((found.rest_max_ns - (20e6 + f64::from(LOOP_NS))).abs() < 1e-3);
        let mostly_theft = held_back(&[(1.5, 50.0)], |start, _| (start, 10_000_000));
        assert_eq!((mostly_theft.count, mostly_theft.rest_max_overhead_ns), (0, 50e6));
    }

    #[test]
    fn a_pause_comes_once_in_a_period_and_has_its_length() {
        let twice = held_back(&[(1.0, 50.0), (1.2, 45.0), (2.0, 50.0)], proven);
        assert_eq!((twice.count, twice.rest_max_overhead_ns), (2, 45e6));
        let longer = held_back(&[(1.0, 50.0), (2.0, 75.0)], proven);
        assert_eq!((longer.count, longer.rest_max_overhead_ns), (1, 75e6));
        assert!(longer.rest_paused_ns > 74e6, "it may hold a pause: {longer:?}");
        let shorter = held_back(&[(1.0, 24.0)], proven);
        assert_eq!((shorter.count, shorter.unproven, shorter.rest_max_overhead_ns), (0, 0, 24e6));
    }

    #[test]
    fn stretches_count_as_far_as_they_lie_within() {
        let stretches = [(10, 10), (30, 10), (50, 10)];
        assert_eq!(overlap(&stretches, 15, 40), 5 + 10 + 5);
        assert_eq!(overlap(&stretches, 20, 10), 0);
        assert_eq!(overlap(&stretches, 32, 3), 3);
        assert_eq!(overlap(&[], 0, 100), 0);
    }
}
