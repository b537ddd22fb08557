//! One task: its thread from before the start until its last job.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use stealtime_wire::{ClockReading, RealTimePolicy, RealTimeTask, Rtload, ThreadRole};

use super::deadline;
use super::releasing::Releases;
use crate::clock::read_clocks;
use crate::error::TrialError;
use crate::recorder::Recorder;
use crate::scheduling;
use crate::stage::Stage;
use crate::sys::{
    KernelClock, busy_loop, current_cpu, kernel_clock_ns, sleep_until_monotonic, time_stamp_counter, wait_while,
    wake_all,
};

/// Both clocks are read about this often, which costs a microsecond where reading a clock is no system call.
const READING_EVERY_NS: u64 = 100_000_000;

const WAITING: u32 = 0;
const GO: u32 = 1;
const ABANDONED: u32 = 2;

/// What all tasks wait for.
#[derive(Default)]
pub struct Gate {
    state: AtomicU32,
    start_ns: AtomicU64,
    recorder: OnceLock<Arc<Recorder>>,
}

impl Gate {
    /// Lets all go; their first release is at `start_ns` of `CLOCK_MONOTONIC`.
    pub fn open(&self, start_ns: u64, recorder: &Arc<Recorder>) {
        self.start_ns.store(start_ns, Ordering::Relaxed);
        let _ = self.recorder.set(Arc::clone(recorder));
        self.change(GO);
    }

    /// Sends all home.
    pub fn abandon(&self) {
        self.change(ABANDONED);
    }

    fn change(&self, state: u32) {
        self.state.store(state, Ordering::Release);
        wake_all(&self.state);
    }

    /// Waits for one or the other; the start and the recorder, if it is to go.
    pub fn wait(&self) -> Option<(u64, &Arc<Recorder>)> {
        while self.state.load(Ordering::Acquire) == WAITING {
            wait_while(&self.state, WAITING, None);
        }
        Some((self.start_ns.load(Ordering::Relaxed), self.recorder.get()?))
    }
}

/// What a task writes down of a job while it measures.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stamps {
    pub start: u64,
    pub finish: u64,
    pub cpu: u16,
}

/// A task that is ready: with its policy, and memory for all that it writes down.
pub struct Task<'a> {
    given: &'a RealTimeTask,
    pub thread_id: u32,
    pub priority: u32,
    roams: bool,
    /// Where another CPU counts them.
    releases: Option<&'a Releases>,
    released: u32,
    pub rows: Vec<Stamps>,
    pub overruns: u64,
    /// Of both clocks, in between jobs; the last task has room for some.
    pub readings: Vec<ClockReading>,
}

impl<'a> Task<'a> {
    /// Makes the calling thread, which has the place and the policy of the one that measures, this task.
    pub fn new(
        rtload: &'a Rtload,
        number: usize,
        releases: Option<&'a Releases>,
        stage: &Stage,
    ) -> Result<Self, TrialError> {
        let task = &rtload.tasks[number];
        let request = stage.trial.request;
        let duration_ns = request.duration_ns;
        let priority = match rtload.policy {
            RealTimePolicy::Deadline => {
                deadline::enter(task)?;
                0
            }
            RealTimePolicy::Fifo => {
                let priority = request.priority - u32::try_from(number).unwrap_or(u32::MAX);
                // The one that measures was then refused a higher one, and has told so.
                let _ = scheduling::request_fifo(priority);
                priority
            }
        };
        stage.trial.running.threads.enter(ThreadRole::Probe);
        let is_last = number + 1 == rtload.tasks.len();
        let most_readings = if is_last { most_readings(duration_ns) } else { 0 };
        let filling =
            ClockReading { tsc: u64::MAX, monotonic_raw_ns: u64::MAX, monotonic_ns: u64::MAX, bracket_tsc: u64::MAX };
        Ok(Self {
            given: task,
            thread_id: scheduling::thread_id(),
            priority,
            roams: stage.cpus.len() > 1,
            releases,
            released: u32::try_from(released(task, duration_ns)).unwrap_or(u32::MAX),
            rows: present(released(task, duration_ns), Stamps { start: u64::MAX, finish: u64::MAX, cpu: u16::MAX })?,
            overruns: 0,
            readings: present(most_readings, filling)?,
        })
    }

    /// Does all its jobs, or those that begin before the recorder's deadline.
    #[inline(never)]
    #[expect(clippy::cast_possible_truncation, reason = "Linux has at most 8192 CPUs")]
    pub fn run(&mut self, start_ns: u64, recorder: &Recorder) {
        let mut release_ns = start_ns;
        let mut cpu = current_cpu();
        let mut has_passed = false;
        let mut next_reading_ns = start_ns;
        for job in 0..self.released {
            match self.releases {
                // A signal may end a sleep early.
                None => while !has_passed && !sleep_until_monotonic(release_ns) {},
                Some(releases) => releases.wait_for(job),
            }
            let start = time_stamp_counter();
            if start >= recorder.deadline() {
                break;
            }
            busy_loop(self.given.iterations);
            let finish = time_stamp_counter();
            if self.roams {
                cpu = current_cpu();
            }
            self.rows.push(Stamps { start, finish, cpu: cpu as u16 });
            release_ns += self.given.period_ns;
            let mut now_ns = kernel_clock_ns(KernelClock::Monotonic);
            if self.readings.len() < self.readings.capacity() && (next_reading_ns..release_ns).contains(&now_ns) {
                self.readings.push(read_clocks());
                next_reading_ns = now_ns + READING_EVERY_NS;
                now_ns = kernel_clock_ns(KernelClock::Monotonic);
            }
            has_passed = now_ns >= release_ns;
            self.overruns += u64::from(has_passed && self.rows.len() < self.released as usize);
        }
    }

    pub fn deadline_ns(&self) -> u64 {
        self.given.deadline_ns
    }

    pub fn period_ns(&self) -> u64 {
        self.given.period_ns
    }

    pub fn released(&self) -> u64 {
        self.released.into()
    }
}

/// How many jobs of a task have their deadline within the duration.
pub fn released(task: &RealTimeTask, duration_ns: u64) -> u64 {
    duration_ns.checked_sub(task.deadline_ns).map_or(0, |last_release_ns| last_release_ns / task.period_ns + 1)
}

/// How often both clocks are read between jobs.
pub fn most_readings(duration_ns: u64) -> u64 {
    duration_ns / READING_EVERY_NS + 1
}

/// An empty list with room for `most`, written with `filling`: a page fault while measuring would be part of a
/// job. Zeros would not do, which the allocator has for nothing. That there is so much was seen before (`Needs`).
fn present<T: Clone>(most: u64, filling: T) -> Result<Vec<T>, TrialError> {
    let bytes = most.saturating_mul(size_of::<T>() as u64);
    let length = usize::try_from(most).unwrap_or(usize::MAX);
    let mut list = Vec::new();
    let refused = |error| TrialError::Memory { samples: length, bytes, source: io::Error::other(error) };
    list.try_reserve_exact(length).map_err(refused)?;
    list.resize(length, filling);
    list.clear();
    Ok(list)
}
