//! The tasks: threads that start together, and what each brings back.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use stealtime_wire::{Contend, ThreadRole};

use super::machine::{self, Readings};
use super::work::{self, SplitMix};
use crate::error::TrialError;
use crate::recorder::Recorder;
use crate::rows::Iteration;
use crate::stage::Stage;
use crate::sys::{
    CounterGroup, HardwareCounts, KernelClock, Mapping, ThreadUsage, kernel_clock_ns, sleep_until_monotonic,
    thread_cpu_ns, wait_while, wake_all,
};
use crate::thread_times;

/// To map a page, to have it come and to give it back takes longer.
const SHORTEST_ITERATION_NS: u64 = 1_000;

/// What all tasks did.
pub struct Outcome {
    pub tasks: Vec<TaskOutcome>,
    /// What the machine told of itself; nothing where iterations are not measured one by one.
    pub readings: Readings,
}

#[derive(Default)]
pub struct TaskOutcome {
    /// Each iteration, where they are measured one by one.
    pub rows: Vec<Iteration>,
    /// All of them added up.
    pub total: Iteration,
    /// Iterations.
    pub done: u64,
    pub checksum: u64,
    /// Since the tasks were let go.
    pub end_ns: u64,
    /// From its start to its end.
    pub cpu_ns: u64,
    /// What it would have slept if every sleep ended in time.
    pub io_asked_ns: u64,
    /// How long it was runnable without a CPU; none where its kernel does not tell.
    pub run_delay_ns: Option<u64>,
    /// From its start to its end, without allocating and filling; none where its machine does not count them.
    pub hardware: Option<HardwareCounts>,
}

/// Runs all tasks to their end, or until the trial is stopped.
pub fn run(contend: &Contend, stage: &Stage, recorder: &Recorder) -> Result<Outcome, TrialError> {
    let no_memory = |source| TrialError::Collections { tasks: contend.tasks, bytes: contend.collection_bytes, source };
    let mut common = Mapping::new(cells(contend)).map_err(no_memory)?;
    work::fill(common.cells_mut(), &mut SplitMix::of_unit(contend.seed, u64::MAX));
    let most_rows = usize::try_from(most_rows(contend, stage.trial.request.duration_ns)).unwrap_or(usize::MAX);
    let shared = Shared { contend, most_rows, recorder, common: Mutex::new(common), go: AtomicU32::new(0) };
    let is_over = AtomicU32::new(0);
    let (tasks, readings) = thread::scope(|scope| {
        let shared = &shared;
        let threads = &stage.trial.running.threads;
        let mut handles = Vec::new();
        for number in 0..contend.tasks {
            let body = move || {
                threads.enter(ThreadRole::Probe);
                shared.wait();
                Task::new(shared, number).run()
            };
            match thread::Builder::new().name(format!("st-task-{number}")).spawn_scoped(scope, body) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    // Those that wait do nothing once the trial is stopped.
                    recorder.stop();
                    shared.let_go();
                    return Err(TrialError::Threads(error));
                }
            }
        }
        let reader = match read_machine(scope, shared, stage, &is_over) {
            Ok(reader) => reader,
            Err(error) => {
                recorder.stop();
                shared.let_go();
                return Err(TrialError::Threads(error));
            }
        };
        let origin = now_ns();
        recorder.start(origin, origin.saturating_add(stage.trial.request.duration_ns));
        shared.let_go();
        let ended = handles.into_iter().map(|handle| handle.join().map_err(|_| TrialError::Panicked));
        let tasks: Vec<_> = ended.collect();
        is_over.store(1, Ordering::Release);
        wake_all(&is_over);
        let readings = reader.map_or(Ok(Readings::default()), |one| one.join().map_err(|_| TrialError::Panicked))?;
        let tasks = tasks.into_iter().map(|result| result?.map_err(no_memory)).collect::<Result<Vec<_>, _>>()?;
        Ok((tasks, readings))
    })?;
    Ok(Outcome { tasks, readings })
}

/// Starts the thread that reads what the machine tells, where each iteration is measured.
fn read_machine<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    shared: &'scope Shared,
    stage: &'scope Stage,
    is_over: &'scope AtomicU32,
) -> io::Result<Option<thread::ScopedJoinHandle<'scope, Readings>>> {
    let duration_ns = stage.trial.request.duration_ns;
    let body = move || {
        stage.trial.running.threads.enter(ThreadRole::Agent);
        shared.wait();
        machine::read_until(is_over, duration_ns)
    };
    let builder = thread::Builder::new().name("st-machine".to_owned());
    shared.contend.each_iteration.then(|| builder.spawn_scoped(scope, body)).transpose()
}

/// How many rows a task can have at most; none where its iterations are not measured one by one.
pub fn most_rows(contend: &Contend, duration_ns: u64) -> u64 {
    let most = u64::from(contend.iterations).min(duration_ns / SHORTEST_ITERATION_NS + 1);
    if contend.each_iteration { most } else { 0 }
}

fn cells(contend: &Contend) -> usize {
    usize::try_from(contend.collection_bytes).unwrap_or(usize::MAX) / size_of::<u64>()
}

/// What all tasks see.
struct Shared<'a> {
    /// Of a task.
    most_rows: usize,
    contend: &'a Contend,
    recorder: &'a Recorder,
    /// What is searched under the lock.
    common: Mutex<Mapping>,
    /// 0 until the tasks are let go.
    go: AtomicU32,
}

impl Shared<'_> {
    fn wait(&self) {
        while self.go.load(Ordering::Acquire) == 0 {
            wait_while(&self.go, 0, None);
        }
    }

    fn let_go(&self) {
        self.go.store(1, Ordering::Release);
        wake_all(&self.go);
    }
}

struct Task<'a> {
    shared: &'a Shared<'a>,
    number: u32,
    outcome: TaskOutcome,
    /// None where the machine has none, or others use them too.
    counters: Option<CounterGroup>,
    /// What they counted of allocating and filling.
    filling: HardwareCounts,
}

impl<'a> Task<'a> {
    fn new(shared: &'a Shared, number: u32) -> Self {
        Self { shared, number, outcome: TaskOutcome::default(), counters: None, filling: HardwareCounts::default() }
    }

    fn run(mut self) -> io::Result<TaskOutcome> {
        let contend = self.shared.contend;
        let origin = self.shared.recorder.origin();
        // Why a machine has none is one of its facts. Without measuring each iteration there is no telling what
        // filling took of them.
        self.counters = contend.each_iteration.then(|| CounterGroup::hardware().ok()).flatten();
        let (cpu_ns, times) = (thread_cpu_ns(), thread_times::of_this_thread());
        self.outcome.rows.try_reserve_exact(self.shared.most_rows).map_err(io::Error::other)?;
        let mut now = now_ns();
        for iteration in 0..contend.iterations {
            if now >= self.shared.recorder.deadline() {
                break;
            }
            let row = if contend.each_iteration {
                self.measured_iteration(iteration, now - origin)?
            } else {
                self.iterate(iteration)?
            };
            now = now_ns();
            self.outcome.done += 1;
            self.keep(row, now - origin);
        }
        self.outcome.end_ns = now - origin;
        self.outcome.hardware = self.counted().and_then(|all| all.since(self.filling));
        self.outcome.cpu_ns = thread_cpu_ns() - cpu_ns;
        self.outcome.run_delay_ns =
            thread_times::of_this_thread().zip(times).map(|(after, before)| after.run_delay_ns - before.run_delay_ns);
        Ok(self.outcome)
    }

    fn measured_iteration(&mut self, iteration: u32, start_ns: u64) -> io::Result<Iteration> {
        let (usage, cpu_ns) = (ThreadUsage::now(), thread_cpu_ns());
        let mut row = self.iterate(iteration)?;
        row.cpu_ns = thread_cpu_ns() - cpu_ns;
        let used = ThreadUsage::now();
        row.start_ns = start_ns;
        row.minor_faults = used.minor_faults - usage.minor_faults;
        row.major_faults = used.major_faults - usage.major_faults;
        row.involuntary_switches = used.involuntary_switches - usage.involuntary_switches;
        Ok(row)
    }

    fn keep(&mut self, mut row: Iteration, end_ns: u64) {
        let total = &mut self.outcome.total;
        total.fill_cpu_ns += row.fill_cpu_ns;
        total.fault_cpu_ns += row.fault_cpu_ns;
        total.lock_wait_ns += row.lock_wait_ns;
        total.io_ns += row.io_ns;
        total.minor_faults += row.minor_faults;
        total.major_faults += row.major_faults;
        total.involuntary_switches += row.involuntary_switches;
        if self.shared.contend.each_iteration {
            row.duration_ns = end_ns - row.start_ns;
            self.outcome.rows.push(row);
        }
    }

    fn counted(&self) -> Option<HardwareCounts> {
        self.counters.as_ref()?.hardware_counts().ok()
    }

    /// Keeps apart what was counted since `before`; counters that cannot be read (any more) are given up.
    fn leave_out(&mut self, before: Option<HardwareCounts>) {
        let gained = before.zip(self.counted()).and_then(|(before, after)| after.since(before));
        match gained {
            Some(gained) => self.filling = self.filling.and(gained),
            None => self.counters = None,
        }
    }

    /// Does one iteration; what filling takes is read where each iteration is measured.
    fn iterate(&mut self, iteration: u32) -> io::Result<Iteration> {
        let contend = self.shared.contend;
        let cpu_ns = || if contend.each_iteration { thread_cpu_ns() } else { 0 };
        let mut row = Iteration { task: self.number, iteration, ..Iteration::default() };
        let unit = u64::from(self.number) * u64::from(contend.iterations) + u64::from(iteration);
        let mut numbers = SplitMix::of_unit(contend.seed, unit);
        let (counted, before_ns) = (self.counted(), cpu_ns());
        let mut collection = Mapping::new(cells(contend))?;
        collection.touch();
        row.fault_cpu_ns = cpu_ns() - before_ns;
        work::fill(collection.cells_mut(), &mut numbers);
        row.fill_cpu_ns = cpu_ns() - before_ns;
        self.leave_out(counted);
        let (mut left, mut run) = (contend.searches, 0);
        while left > 0 {
            let count = left.min(contend.lock_searches);
            if work::is_locked(run, contend.lock_percent) {
                let common = self.lock(&mut row.lock_wait_ns);
                self.outcome.checksum =
                    self.outcome.checksum.wrapping_add(searched(common.cells(), count, &mut numbers));
            } else {
                self.outcome.checksum =
                    self.outcome.checksum.wrapping_add(searched(collection.cells(), count, &mut numbers));
            }
            left -= count;
            run += 1;
        }
        drop(collection);
        if contend.io_mean_ns > 0 {
            let asked_ns = work::io_ns(contend.io_mean_ns, contend.io_spread_percent, &mut numbers);
            let begin_ns = now_ns();
            sleep_until_monotonic(begin_ns + asked_ns);
            row.io_ns = now_ns() - begin_ns;
            self.outcome.io_asked_ns += asked_ns;
        }
        Ok(row)
    }

    fn lock(&self, waited_ns: &mut u64) -> MutexGuard<'a, Mapping> {
        match self.shared.common.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let begin_ns = now_ns();
                let guard = self.shared.common.lock().unwrap_or_else(PoisonError::into_inner);
                *waited_ns += now_ns() - begin_ns;
                guard
            }
        }
    }
}

fn searched(collection: &[u64], count: u32, numbers: &mut SplitMix) -> u64 {
    (0..count).fold(0, |sum: u64, _| sum.wrapping_add(work::search(collection, numbers.next())))
}

fn now_ns() -> u64 {
    kernel_clock_ns(KernelClock::Monotonic)
}
