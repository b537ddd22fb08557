//! Releases that another CPU makes: a thread there sleeps until each of them and wakes its task.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering};

use stealtime_wire::ThreadRole;

use crate::error::TrialError;
use crate::processor_sets::granted_cpus;
use crate::recorder::Recorder;
use crate::scheduling;
use crate::stage::Stage;
use crate::sys::{sleep_until_monotonic, time_stamp_counter, wait_while, wake_all};

/// Of one task: how many of its jobs were released. No more come where that is [`u32::MAX`].
#[derive(Debug, Default)]
pub struct Releases(AtomicU32);

impl Releases {
    /// Sleeps until the job with so many before it is released.
    pub fn wait_for(&self, before: u32) {
        loop {
            let count = self.0.load(Ordering::Acquire);
            if count > before {
                return;
            }
            wait_while(&self.0, count, None);
        }
    }

    fn release(&self) {
        self.0.fetch_add(1, Ordering::Release);
        wake_all(&self.0);
    }

    fn give_up(&self) {
        self.0.store(u32::MAX, Ordering::Release);
        wake_all(&self.0);
    }
}

/// What the thread on the other CPU does.
pub struct Releaser<'a> {
    tasks: &'a [Releases],
    /// Of each task: period, and how many jobs it has.
    jobs: Vec<(u64, u64)>,
}

impl<'a> Releaser<'a> {
    /// Puts the calling thread on a CPU that is not measured, as urgent there as the first task. `jobs` are of each
    /// task its period and how many of them it has.
    ///
    /// # Errors
    /// There is no other CPU, or the kernel refuses it.
    pub fn new(tasks: &'a [Releases], jobs: Vec<(u64, u64)>, stage: &Stage) -> Result<Self, TrialError> {
        let request = stage.trial.request;
        let others = granted_cpus()?.into_iter().filter(|cpu| !request.cpus.contains(cpu));
        let Some(cpu) = others.min() else { return Err(TrialError::NoOtherCpu { cpus: request.cpus.clone() }) };
        scheduling::pin_to(cpu)?;
        let _ = scheduling::request_fifo(request.priority);
        stage.trial.running.threads.enter(ThreadRole::Agent);
        Ok(Self { tasks, jobs })
    }

    /// Makes all releases, or those before the recorder's deadline; then nobody waits any more.
    pub fn release_all(&self, start_ns: u64, recorder: &Recorder) {
        let mut coming: BinaryHeap<Reverse<(u64, usize, u64)>> =
            (0..self.jobs.len()).map(|task| Reverse((start_ns, task, 0))).collect();
        while let Some(Reverse((release_ns, task, number))) = coming.pop() {
            let (period_ns, jobs) = self.jobs[task];
            if number >= jobs {
                continue;
            }
            // A signal may end a sleep early.
            while !sleep_until_monotonic(release_ns) {}
            if time_stamp_counter() >= recorder.deadline() {
                break;
            }
            self.tasks[task].release();
            coming.push(Reverse((release_ns + period_ns, task, number + 1)));
        }
        for task in self.tasks {
            task.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_release_lets_one_job_go_and_giving_up_all() {
        let releases = Releases::default();
        releases.release();
        releases.wait_for(0);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                releases.wait_for(1);
                releases.wait_for(1_000);
            });
            releases.release();
            assert!(!waiting.is_finished());
            releases.give_up();
        });
        assert_eq!(releases.0.load(Ordering::Relaxed), u32::MAX);
    }
}
