//! `contend`: how long a fixed amount of work of many tasks takes, and what they wait for.
//!
//! After M. Friedman's `ThreadContentionGenerator`, which was described ("Over-provisioned Hyper-V hosts") and
//! never published. `tasks` threads do `iterations` each. One iteration allocates a collection, fills it with random
//! numbers, searches it `searches` times, frees it, and sleeps once (simulated I/O). A share of the searches
//! may go to a collection that all tasks share, under one lock.
//!
//! * Elapsed: from just before the tasks are let go to the end of the last one (`CLOCK_MONOTONIC`).
//! * The work is the same everywhere: the numbers of an iteration come from the seed and from how many
//!   iterations come before it, in the order of tasks, so that the checksum is the same for 1 task of 8
//!   iterations and 4 tasks of 2, in whatever order they run.
//! * Each collection is a mapping of its own: its pages fault in anew each time, as they do on every platform.
//! * CPU seconds are the machine's own (`CLOCK_THREAD_CPUTIME_ID`): a guest that is not told of steal time
//!   counts the time that its host took from it as its own.
//! * Page faults: each page is touched once before the collection is filled, and the CPU time of that is kept
//!   apart. In a guest it holds what its hypervisor spends on giving the memory.
//! * Cycles and instructions of the tasks in kernel and user mode, without allocating and filling: where the
//!   machine has such counters.
//! * Lock wait: from a lock that was found taken until it is ours; one that is free costs no reading of a
//!   clock.
//! * What the machine tells of itself meanwhile (`machine`) is read only where each iteration is measured.
//! * The duration of the request is a limit: work that is not done by then makes the result invalid.

mod machine;
mod tasks;
mod work;

use std::io;

use stealtime_wire::{Contend, Finding, FindingLevel, Layout, ThreadRole, TrialRequest};

use crate::clock::SampleClock;
use crate::error::TrialError;
use crate::needs::{Needs, THREAD_BYTES, counted};
use crate::probe::{Measured, Probe};
use crate::processors::idle_ns;
use crate::rows::{Iteration, Rows};
use crate::stage::Stage;
use crate::sys::HardwareCounts;

/// As many threads as a machine under test starts without a word.
const MOST_TASKS: u32 = 4096;
/// A page.
const SMALLEST_COLLECTION_BYTES: u64 = 4096;
/// No pause of a program is longer; it also keeps sums far from overflow.
const LONGEST_IO_NS: u64 = 60_000_000_000;

impl Probe for Contend {
    fn layout(&self) -> Option<Layout> {
        None
    }

    fn clock(&self) -> SampleClock {
        SampleClock::Monotonic
    }

    fn role_of_caller(&self) -> ThreadRole {
        ThreadRole::Agent
    }

    fn validate(&self, _duration_ns: u64) -> Result<(), TrialError> {
        let limits = [
            ("tasks", self.tasks.into(), 1, MOST_TASKS.into()),
            ("iterations", self.iterations.into(), 1, u32::MAX.into()),
            ("collection_bytes", self.collection_bytes, SMALLEST_COLLECTION_BYTES, 1 << 40),
            ("io_mean_ns", self.io_mean_ns, 0, LONGEST_IO_NS),
            ("io_spread_percent", self.io_spread_percent.into(), 0, 100),
            ("lock_percent", self.lock_percent.into(), 0, 100),
            ("lock_searches", self.lock_searches.into(), 1, u32::MAX.into()),
        ];
        for (name, value, least, most) in limits {
            if !(least..=most).contains(&value) {
                return Err(TrialError::parameter(name, value, format!("{least} to {most}")));
            }
        }
        Ok(())
    }

    fn needs(&self, request: &TrialRequest) -> Needs {
        let (tasks, rows) = (u64::from(self.tasks), tasks::most_rows(self, request.duration_ns));
        // Of all tasks, and once more of the one whose rows go to the table just then.
        let rows_bytes = ((tasks + 1) * rows).saturating_mul(size_of::<Iteration>() as u64);
        let collections = (tasks + 1).saturating_mul(self.collection_bytes);
        Needs::default()
            .and(collections, || {
                format!("the collections of {}, {} bytes each,", counted(tasks, "task"), self.collection_bytes)
            })
            .and(if self.each_iteration { machine::most_bytes(request.duration_ns) } else { 0 }, || {
                "what the machine tells of itself".to_owned()
            })
            .and(rows_bytes, || format!("the rows of {}", counted(tasks * rows, "iteration")))
            .and(tasks * THREAD_BYTES, || counted(tasks, "thread"))
    }

    fn measure(&self, stage: &Stage) -> Result<Measured, TrialError> {
        // The sample memory holds nothing; by it the trial is watched and stopped.
        let begun = stage.begin(1, None)?;
        let idle_before = idle_ns(stage.cpus);
        let mut outcome = tasks::run(self, stage, &begun.recorder)?;
        let idle = idle_ns(stage.cpus).zip(idle_before).and_then(|(after, before)| after.checked_sub(before));
        let elapsed_ns = outcome.tasks.iter().map(|task| task.end_ns).max().unwrap_or(0);
        let total = |of: fn(&Iteration) -> u64| outcome.tasks.iter().map(|task| of(&task.total)).sum::<u64>();
        let planned = u64::from(self.tasks) * u64::from(self.iterations);
        let done: u64 = outcome.tasks.iter().map(|task| task.done).sum();
        let mut measured = Measured::new(begun).with_counters([
            ("elapsed_ns", elapsed_ns),
            ("iterations", done),
            ("checksum", outcome.tasks.iter().fold(0, |sum, task| sum.wrapping_add(task.checksum))),
            ("cpus", stage.cpus.len() as u64),
            ("cpu_ns", outcome.tasks.iter().map(|task| task.cpu_ns).sum()),
            ("minor_faults", total(|row| row.minor_faults)),
            ("major_faults", total(|row| row.major_faults)),
            ("involuntary_switches", total(|row| row.involuntary_switches)),
            ("fill_cpu_ns", total(|row| row.fill_cpu_ns)),
            ("fault_cpu_ns", total(|row| row.fault_cpu_ns)),
            ("lock_wait_ns", total(|row| row.lock_wait_ns)),
            ("io_ns", total(|row| row.io_ns)),
            ("reading_cpu_ns", outcome.readings.cpu_ns),
            ("io_asked_ns", outcome.tasks.iter().map(|task| task.io_asked_ns).sum()),
            ("uneven_idle_ns", uneven_idle_ns(outcome.tasks.iter().map(|task| task.end_ns), stage.cpus.len())),
        ]);
        let run_delay: Option<u64> = outcome.tasks.iter().map(|task| task.run_delay_ns).sum();
        let hardware: Option<Vec<HardwareCounts>> = outcome.tasks.iter().map(|task| task.hardware).collect();
        let counted = |of: fn(&HardwareCounts) -> u64| hardware.as_ref().map(|tasks| tasks.iter().map(of).sum());
        let read = [
            ("run_delay_ns", run_delay),
            ("idle_ns", idle),
            ("cycles", counted(|task| task.cycles)),
            ("instructions", counted(|task| task.instructions)),
        ];
        measured.counters.extend(read.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        measured.findings.extend((done < planned).then(|| unfinished(done, planned)));
        let readings = std::mem::take(&mut outcome.readings.rows);
        measured.rows = Rows::Iterations(table(outcome)?, readings);
        Ok(measured)
    }
}

/// The rows of all tasks in one table, made for as many as there are. Those of a task go once they are in it.
fn table(outcome: tasks::Outcome) -> Result<Vec<Iteration>, TrialError> {
    let count: usize = outcome.tasks.iter().map(|task| task.rows.len()).sum();
    let bytes = (count * size_of::<Iteration>()) as u64;
    let mut rows = Vec::new();
    let refused = |error| TrialError::Memory { samples: count, bytes, source: io::Error::other(error) };
    rows.try_reserve_exact(count).map_err(refused)?;
    for task in outcome.tasks {
        rows.extend(task.rows);
    }
    Ok(rows)
}

/// How long the CPUs could not all be used, because fewer tasks than CPUs were left: summed over the CPUs.
fn uneven_idle_ns(ends_ns: impl Iterator<Item = u64>, cpus: usize) -> u64 {
    let mut ends_ns: Vec<u64> = ends_ns.collect();
    ends_ns.sort_unstable_by(|a, b| b.cmp(a));
    let last_ns = ends_ns.first().copied().unwrap_or(0);
    ends_ns.resize(cpus.max(ends_ns.len()), 0);
    ends_ns.iter().take(cpus).map(|end_ns| last_ns - end_ns).sum()
}

fn unfinished(done: u64, planned: u64) -> Finding {
    Finding {
        code: "unfinished".to_owned(),
        level: FindingLevel::Invalidates,
        text: format!("{done} of {planned} iterations were done when the trial was ended"),
        hint: Some("give it more time (its duration is a limit), or less work".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_idle_from_the_end_of_the_tasks_that_could_have_used_them() {
        assert_eq!(uneven_idle_ns([100, 90, 50].into_iter(), 2), 10);
        assert_eq!(uneven_idle_ns([100, 90, 50].into_iter(), 3), 60);
        assert_eq!(uneven_idle_ns([100].into_iter(), 3), 200);
        assert_eq!(uneven_idle_ns([100, 100].into_iter(), 1), 0);
    }

    #[test]
    fn memory_is_counted_with_the_rows_of_all_iterations_and_what_copying_them_takes() {
        let contend = Contend {
            tasks: 32,
            iterations: 50_000,
            collection_bytes: 4096,
            searches: 1,
            io_mean_ns: 0,
            io_spread_percent: 0,
            lock_percent: 0,
            lock_searches: 1,
            seed: 1,
            each_iteration: true,
        };
        let bytes = |contend: &Contend, duration_ns| {
            let probe = stealtime_wire::Probe::Contend(contend.clone());
            let request = TrialRequest::plain(probe, vec![0], 0, duration_ns);
            contend.needs(&request).bytes
        };
        let bare = Contend { each_iteration: false, ..contend.clone() };
        let rows_bytes = |duration_ns| bytes(&contend, duration_ns) - bytes(&bare, duration_ns);
        let day_ns = 86_400_000_000_000;
        assert_eq!(rows_bytes(day_ns), (32 + 1) * 50_000 * 88 + machine::most_bytes(day_ns));
        let few = (32 + 1) * 1_000 * 88 + machine::most_bytes(999_000);
        assert_eq!(rows_bytes(999_000), few, "a millisecond has no time for more");
        assert!(bytes(&bare, 1) >= 33 * 4096);
    }
}
