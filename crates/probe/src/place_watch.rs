//! Whether the measuring threads stay where they were put. A cpuset that shrinks or somebody's `taskset` moves a
//! thread without a word to it, and what it measures from then on is another CPU.
//!
//! A thread on another CPU looks a few times a second, so that it can be told when. Where there is no other CPU for
//! it, what the measuring thread itself knows in the end has to do: where it may run, where it is, and how often the
//! kernel has moved it.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use stealtime_wire::{Finding, FindingLevel, ThreadPlacement};

use crate::clock::TscRate;
use crate::observer::RING_THREAD_NAME;
use crate::processor_sets::{named, parse_cpu_list};
use crate::running::RunningTrial;
use crate::scheduling;

/// How often it is looked. Each look reads a page of `/proc` a thread.
const EVERY: Duration = Duration::from_millis(250);

/// Of a large ring so many threads are looked at; a cpuset moves all of a process alike.
const MOST_THREADS: usize = 64;

/// How the threads are called that measure, pollute and disturb, and where there is one for each task, how these names
/// begin. Those of a load look after themselves (`load/staying.rs`).
const PLACED: [&str; 6] = ["measure", RING_THREAD_NAME, "st-task-", "st-rt-", "st-pollute-", "inject"];

/// A thread that was found to be confined to other CPUs than it was put on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    pub thread: String,
    /// Where it may run now.
    pub cpus: Vec<u32>,
    /// Since the first sample: when it was last seen where it belongs, and when it was not any more.
    pub between_ns: (u64, u64),
}

/// Looks until the other side of `ended` is gone. Gives up at once where the calling thread has no CPU besides
/// those that are measured.
pub fn watch(running: &RunningTrial, rate: &TscRate, cpus: &[u32], ended: &Receiver<()>) -> Option<Moved> {
    scheduling::keep_off(cpus).ok()?;
    if scheduling::allowed_cpus().ok()?.iter().any(|cpu| cpus.contains(cpu)) {
        return None;
    }
    let mut threads = BTreeMap::new();
    let mut seen_ns = 0;
    while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        // It has its memory only after it was put in its place.
        if running.recorder().is_none() {
            continue;
        }
        let now_ns = elapsed_ns(running, rate);
        if let Some((thread, elsewhere)) = strayed(&mut threads, cpus) {
            return Some(Moved { thread, cpus: elsewhere, between_ns: (seen_ns, now_ns) });
        }
        seen_ns = now_ns;
    }
    None
}

fn elapsed_ns(running: &RunningTrial, rate: &TscRate) -> u64 {
    let begun = running.recorder().filter(|recorder| recorder.origin() != 0);
    begun.map_or(0, |recorder| recorder.progress(0, rate, 0).elapsed_ns)
}

/// A thread of the trial that may not run where it was put, with where it may.
fn strayed(known: &mut BTreeMap<String, Option<String>>, cpus: &[u32]) -> Option<(String, Vec<u32>)> {
    let mut wanted = cpus.to_vec();
    wanted.sort_unstable();
    let folder = "/proc/self/task";
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let id = entry.file_name().to_string_lossy().into_owned();
        if known.values().flatten().count() >= MOST_THREADS && !known.contains_key(&id) {
            continue;
        }
        let name = known.entry(id.clone()).or_insert_with(|| {
            let name = fs::read_to_string(format!("{folder}/{id}/comm")).ok()?;
            PLACED.iter().any(|placed| name.starts_with(placed)).then(|| name.trim_end().to_owned())
        });
        // One that has ended meanwhile has nothing to say.
        let (Some(name), Ok(status)) = (name, fs::read_to_string(format!("{folder}/{id}/status"))) else { continue };
        let Some(list) = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")) else { continue };
        let allowed = parse_cpu_list(list);
        if allowed != wanted {
            return Some((name.clone(), allowed));
        }
    }
    None
}

/// What it means that a thread did not stay where it was put: the samples are of more than one place.
///
/// # Arguments
/// * `cpus`: where the measuring threads were put.
/// * `moved`: what was seen meanwhile.
/// * `placement`: where the measuring thread was in the end.
/// * `migrations`: how often the kernel moved that thread, where it tells.
pub fn judge(
    cpus: &[u32],
    moved: Option<&Moved>,
    placement: &ThreadPlacement,
    migrations: Option<u64>,
) -> Option<Finding> {
    let mut wanted = cpus.to_vec();
    wanted.sort_unstable();
    let what = if let Some(Moved { thread, cpus, between_ns: (after_ns, by_ns) }) = moved {
        let (after_s, by_s) = (*after_ns as f64 * 1e-9, *by_ns as f64 * 1e-9);
        format!(
            "the thread {thread} was put on CPU {} instead between {after_s:.2} s and {by_s:.2} s after the first sample",
            named(cpus)
        )
    } else if placement.cpus != wanted {
        format!("the measuring thread may run on CPU {} in the end, since when is not known", named(&placement.cpus))
    } else if !wanted.contains(&placement.cpu) {
        format!("the measuring thread is on CPU {} in the end, since when is not known", placement.cpu)
    } else if let (1, Some(count @ 1..)) = (wanted.len(), migrations) {
        format!("the kernel has moved the measuring thread {count} times meanwhile, when is not known")
    } else {
        return None;
    };
    Some(Finding {
        code: "cpu_changed".to_owned(),
        level: FindingLevel::Invalidates,
        text: format!("CPU {} was to be measured, and {what}", named(&wanted)),
        hint: Some("a cpuset or a taskset was changed under the trial: measure again when nobody does".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(cpu: u32, cpus: &[u32]) -> ThreadPlacement {
        ThreadPlacement { cpu, cpus: cpus.to_vec(), policy: "SCHED_FIFO".to_owned(), priority: 80, thread_ids: vec![] }
    }

    #[test]
    fn a_thread_that_stayed_is_fine() {
        assert_eq!(judge(&[1], None, &at(1, &[1]), Some(0)), None);
        assert_eq!(judge(&[1], None, &at(1, &[1]), None), None);
        assert_eq!(judge(&[2, 0], None, &at(0, &[0, 2]), Some(7)), None, "it may roam");
    }

    #[test]
    fn a_thread_that_was_moved_invalidates_and_when_is_told_as_far_as_it_is_known() {
        let moved = Moved { thread: "measure".to_owned(), cpus: vec![0], between_ns: (1_250_000_000, 1_500_000_000) };
        let text = |moved: Option<&Moved>, placement: &ThreadPlacement, migrations| {
            let finding = judge(&[1], moved, placement, migrations).unwrap();
            assert_eq!(finding.level, FindingLevel::Invalidates);
            finding.text
        };
        let told = text(Some(&moved), &at(1, &[1]), None);
        assert!(told.contains("on CPU 0 instead between 1.25 s and 1.50 s"), "{told}");
        let confined = text(None, &at(0, &[0]), None);
        assert!(confined.contains("may run on CPU 0 in the end"), "{confined}");
        let elsewhere = text(None, &at(0, &[1]), None);
        assert!(elsewhere.contains("is on CPU 0 in the end"), "{elsewhere}");
        let back = text(None, &at(1, &[1]), Some(2));
        assert!(back.contains("moved the measuring thread 2 times"), "{back}");
    }
}
