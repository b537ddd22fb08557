//! All tasks of a trial: made ready, let go together, and what they bring back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, ScopedJoinHandle};
use std::{io, iter, mem};

use stealtime_wire::{
    ClockConversion, ClockReading, RealTimeTaskOutcome, Rtload, RtloadOutcome, ThreadRole, TrialRequest,
};

use super::conversion::{line_through, to_tsc};
use super::polluter::Polluter;
use super::releasing::{Releaser, Releases};
use super::task::{Gate, Stamps, Task, most_readings, released};
use crate::clock::read_clocks;
use crate::error::TrialError;
use crate::needs::{Needs, STACK_BYTES, THREAD_BYTES, counted};
use crate::rows::Job;
use crate::scheduling;
use crate::stage::{Begun, Stage};
use crate::sys::{KernelClock, kernel_clock_ns};

/// From letting the tasks go to the first release: each has to program its first sleep by then ...
const START_AFTER_NS: u64 = 100_000_000;
/// ... one after the other, where they share a CPU.
const START_AFTER_NS_EACH: u64 = 2_000_000;

/// What becomes of a job in memory: what its task wrote down, and its row in the table, as [`table`] makes it.
const JOB_BYTES: u64 = (size_of::<Stamps>() + size_of::<Job>()) as u64;

/// What a task set takes at its end, when it takes most.
pub fn needs(rtload: &Rtload, request: &TrialRequest) -> Needs {
    let duration_ns = request.duration_ns;
    let jobs = rtload.tasks.iter().fold(0, |sum: u64, task| sum.saturating_add(released(task, duration_ns)));
    let readings_bytes = most_readings(duration_ns) * size_of::<ClockReading>() as u64;
    let releaser = u64::from(rtload.released_elsewhere);
    let threads = rtload.tasks.len() as u64 + u64::from(rtload.polluters) + releaser;
    // Their stacks exist when all that is present is locked, and that makes the rest of them present.
    let threads_bytes = threads * (STACK_BYTES as u64 + THREAD_BYTES);
    let polluters_bytes = rtload.polluter_bytes.saturating_mul(rtload.polluters.into());
    Needs::default()
        .and(jobs.saturating_mul(JOB_BYTES).saturating_add(readings_bytes), || {
            format!("the rows of {}", counted(jobs, "job"))
        })
        .and(threads_bytes, || counted(threads, "thread"))
        .and(polluters_bytes, || {
            format!("{} of {} bytes", counted(rtload.polluters.into(), "polluter"), rtload.polluter_bytes)
        })
}

/// What all tasks did.
pub struct Done {
    pub begun: Begun,
    pub jobs: Vec<Job>,
    pub outcome: RtloadOutcome,
    pub polluted_pages: u64,
}

/// Runs the task set for the duration of the trial.
///
/// # Errors
/// [`TrialError`], if not all tasks and polluters could be made ready, or the clocks make no sense.
pub fn run(rtload: &Rtload, stage: &Stage) -> Result<Done, TrialError> {
    let gate = Gate::default();
    let stop = AtomicBool::new(false);
    let count = if rtload.released_elsewhere { rtload.tasks.len() } else { 0 };
    let releases: Vec<Releases> = iter::repeat_with(Releases::default).take(count).collect();
    thread::scope(|scope| {
        let (gate, stop, releases) = (&gate, &stop, releases.as_slice());
        let crew = Crew::gather(rtload, stage, scope, (gate, releases), stop).inspect_err(|_| gate.abandon())?;
        let begun = stage.begin(1, None).inspect_err(|_| gate.abandon())?;
        let after_ns = START_AFTER_NS + START_AFTER_NS_EACH * rtload.tasks.len() as u64;
        let start_ns = kernel_clock_ns(KernelClock::Monotonic) + after_ns;
        let rate = stage.trial.rate;
        let origin = begun.start.tsc + rate.to_cycles(start_ns.saturating_sub(begun.start.monotonic_ns));
        begun.recorder.start(origin, origin + stage.trial.duration_cycles());
        gate.open(start_ns, &begun.recorder);
        let tasks = crew.tasks.into_iter().map(join).collect::<Result<Vec<_>, _>>();
        let end = read_clocks();
        crew.releaser.map(join).transpose()?;
        stop.store(true, Ordering::Relaxed);
        let polluted_pages = crew.polluters.into_iter().map(join).sum::<Result<u64, _>>()?;
        let tasks: Vec<Task> = tasks?.into_iter().flatten().collect();
        let between = tasks.iter().flat_map(|task| &task.readings);
        let readings = iter::once(&begun.start).chain(between).chain([&end]);
        let conversion = line_through(readings).ok_or(TrialError::NoConversion)?;
        let (jobs, tasks) = table(tasks, start_ns, &conversion)?;
        let outcome = RtloadOutcome { start_monotonic_ns: start_ns, conversion, tasks };
        Ok(Done { begun, jobs, outcome, polluted_pages })
    })
}

/// The threads of a trial, all of them ready.
struct Crew<'scope, 'a> {
    /// None of them is none unless the gate was abandoned.
    tasks: Vec<ScopedJoinHandle<'scope, Option<Task<'a>>>>,
    polluters: Vec<ScopedJoinHandle<'scope, u64>>,
    /// On another CPU, where that releases the tasks.
    releaser: Option<ScopedJoinHandle<'scope, ()>>,
}

impl<'scope, 'a: 'scope> Crew<'scope, 'a> {
    /// Starts all threads and waits until they are ready.
    fn gather(
        rtload: &'a Rtload,
        stage: &'scope Stage,
        scope: &'scope thread::Scope<'scope, '_>,
        (gate, releases): (&'scope Gate, &'a [Releases]),
        stop: &'scope AtomicBool,
    ) -> Result<Self, TrialError> {
        let (ready, is_ready) = channel();
        let mut crew = Self { tasks: Vec::new(), polluters: Vec::new(), releaser: None };
        for number in 0..rtload.tasks.len() {
            let ready = ready.clone();
            let body = move || {
                let mut task = told(&ready, Task::new(rtload, number, releases.get(number), stage))?;
                let (start_ns, recorder) = gate.wait()?;
                task.run(start_ns, recorder);
                Some(task)
            };
            crew.tasks.push(builder(format!("st-rt-{number}")).spawn_scoped(scope, body)?);
        }
        for number in 0..rtload.polluters {
            let ready = ready.clone();
            let body = move || {
                let made = polluter(rtload, number, stage);
                let Some(polluter) = told(&ready, made) else { return 0 };
                if gate.wait().is_some() { polluter.pollute(stop) } else { 0 }
            };
            crew.polluters.push(builder(format!("st-pollute-{number}")).spawn_scoped(scope, body)?);
        }
        if rtload.released_elsewhere {
            let ready = ready.clone();
            let duration_ns = stage.trial.request.duration_ns;
            let jobs = rtload.tasks.iter().map(|task| (task.period_ns, released(task, duration_ns))).collect();
            let body = move || {
                let Some(releaser) = told(&ready, Releaser::new(releases, jobs, stage)) else { return };
                if let Some((start_ns, recorder)) = gate.wait() {
                    releaser.release_all(start_ns, recorder);
                }
            };
            crew.releaser = Some(builder("st-release".to_owned()).spawn_scoped(scope, body)?);
        }
        drop(ready);
        for _ in 0..crew.tasks.len() + crew.polluters.len() + usize::from(rtload.released_elsewhere) {
            is_ready.recv().map_err(|_| TrialError::Panicked)??;
        }
        Ok(crew)
    }
}

fn builder(name: String) -> thread::Builder {
    thread::Builder::new().name(name).stack_size(STACK_BYTES)
}

/// Tells that a thread is ready, or why not.
fn told<T>(ready: &Sender<Result<(), TrialError>>, made: Result<T, TrialError>) -> Option<T> {
    let (made, word) = match made {
        Ok(made) => (Some(made), Ok(())),
        Err(error) => (None, Err(error)),
    };
    // Who does not listen any more has heard of a failure already.
    let _ = ready.send(word);
    made
}

fn polluter(rtload: &Rtload, number: u32, stage: &Stage) -> Result<Polluter, TrialError> {
    scheduling::leave_fifo()?;
    stage.trial.running.threads.enter(ThreadRole::Injection);
    Polluter::new(rtload.polluter_bytes, number).map_err(|source| TrialError::NoRoom {
        what: "a polluter".to_owned(),
        bytes: rtload.polluter_bytes,
        source,
    })
}

fn join<T>(handle: ScopedJoinHandle<T>) -> Result<T, TrialError> {
    handle.join().map_err(|_| TrialError::Panicked)
}

/// The rows of all tasks in one table, made for as many as there are, and what they sum up to. What a task wrote down
/// goes once it is in the table: another copy of a long trial might be more than there is, and the trial would be lost.
fn table(
    tasks: Vec<Task>,
    start_ns: u64,
    conversion: &ClockConversion,
) -> Result<(Vec<Job>, Vec<RealTimeTaskOutcome>), TrialError> {
    let count: usize = tasks.iter().map(|task| task.rows.len()).sum();
    let bytes = (count * size_of::<Job>()) as u64;
    let mut jobs = Vec::new();
    let refused = |error| TrialError::Memory { samples: count, bytes, source: io::Error::other(error) };
    jobs.try_reserve_exact(count).map_err(refused)?;
    let mut outcomes = Vec::new();
    for (number, mut task) in (0_u16..).zip(tasks) {
        let first = jobs.len();
        let rows = mem::take(&mut task.rows);
        let job = |(job, stamps): (u32, &Stamps)| Job {
            task: number,
            job,
            release: to_tsc(conversion, start_ns + u64::from(job) * task.period_ns()),
            start: stamps.start,
            finish: stamps.finish,
            cpu: stamps.cpu,
        };
        jobs.extend((0..).zip(&rows).map(job));
        drop(rows);
        outcomes.push(outcome(&task, &jobs[first..], conversion));
    }
    Ok((jobs, outcomes))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a deadline is far below 2^53 cycles")]
fn outcome(task: &Task, jobs: &[Job], conversion: &ClockConversion) -> RealTimeTaskOutcome {
    let deadline_units = (task.deadline_ns() as f64 * conversion.tsc_per_ns).round() as u64;
    let mut responses: Vec<u64> = jobs.iter().map(|job| job.finish.saturating_sub(job.release)).collect();
    responses.sort_unstable();
    let finished = jobs.len() as u64;
    RealTimeTaskOutcome {
        thread_id: task.thread_id,
        priority: task.priority,
        released: task.released(),
        finished,
        late: responses.iter().filter(|&&response| response > deadline_units).count() as u64,
        unstarted: task.released() - finished,
        overruns: task.overruns,
        median_response_units: responses.get(responses.len().saturating_sub(1) / 2).copied(),
        worst_response_units: responses.last().copied(),
    }
}
