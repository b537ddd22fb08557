//! `rtload` releases its jobs exactly, loses none, and puts them in the order of their priorities.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use stealtime_probe::clock::{Settling, TscRate};
use stealtime_probe::tick::calibrate_on;
use stealtime_probe::{Job, Recording, Rows, RunningTrial, Trial, TrialError, run_trial, scheduling};
use stealtime_wire::{Probe, RealTimePolicy, RealTimeTask, Rtload, TrialRequest};

const DURATION_NS: u64 = 200_000_000;
const MS: u64 = 1_000_000;

/// Jobs of `cost_ns` at least: what else the machine does only makes them longer.
fn task(cost_ns: u64, period_ns: u64, rate: &TscRate) -> RealTimeTask {
    let cpu = *scheduling::allowed_cpus().unwrap().last().unwrap();
    let (iterations, _) = calibrate_on(cpu, 1, 100_000, rate).unwrap();
    RealTimeTask {
        name: format!("{cost_ns}"),
        period_ns,
        deadline_ns: period_ns,
        cost_ns,
        budget_ns: Some(cost_ns),
        iterations: (iterations * cost_ns / 100_000).max(1),
    }
}

fn run(
    policy: RealTimePolicy,
    sets: &[(u64, u64)],
    cpus: Vec<u32>,
    running: &RunningTrial,
) -> Result<Recording, TrialError> {
    let rate = TscRate::since(&Settling::begin().wait());
    let tasks = sets.iter().map(|&(cost_ns, period_ns)| task(cost_ns, period_ns, &rate)).collect();
    run_tasks((policy, false), tasks, cpus, (&rate, running))
}

fn run_tasks(
    (policy, released_elsewhere): (RealTimePolicy, bool),
    tasks: Vec<RealTimeTask>,
    cpus: Vec<u32>,
    (rate, running): (&TscRate, &RunningTrial),
) -> Result<Recording, TrialError> {
    let request = TrialRequest::plain(
        Probe::Rtload(Rtload { policy, tasks, polluters: 1, polluter_bytes: 1 << 20, released_elsewhere, drawn: None }),
        cpus,
        80,
        DURATION_NS,
    );
    run_trial(&Trial { request: &request, rate, running })
}

fn last_cpu() -> Vec<u32> {
    vec![*scheduling::allowed_cpus().unwrap().last().unwrap()]
}

fn jobs(recording: &Recording) -> &[Job] {
    let Rows::Jobs(jobs) = &recording.rows else { panic!("{:?}", recording.rows) };
    jobs
}

#[test]
fn releases_are_exactly_periodic_from_one_start_and_nothing_starts_before_its_own() {
    let recording =
        run(RealTimePolicy::Fifo, &[(MS / 10, 5 * MS), (MS / 10, 8 * MS)], last_cpu(), &RunningTrial::new());
    let recording = recording.unwrap();
    let told = recording.outcome.rtload.as_ref().unwrap();
    let line = told.conversion;
    assert!(told.tasks[0].finished > 0);
    for job in jobs(&recording) {
        let period_ns = [5 * MS, 8 * MS][usize::from(job.task)];
        let release_ns = told.start_monotonic_ns + u64::from(job.job) * period_ns;
        let expected = line.tsc as f64 + (release_ns - line.monotonic_ns) as f64 * line.tsc_per_ns;
        assert!((job.release as f64 - expected).abs() < 1.0, "{job:?}");
        let error_units = line.error_ns * line.tsc_per_ns;
        assert!(job.start as f64 >= job.release as f64 - error_units && job.finish > job.start, "{job:?} {line:?}");
    }
    for (task, period_ns) in [(0, 5 * MS), (1, 8 * MS)] {
        let numbers = jobs(&recording).iter().filter(|job| job.task == task).map(|job| job.job);
        let finished = told.tasks[usize::from(task)].finished;
        assert!(numbers.map(u64::from).eq(0..finished), "every job of a task is there, in order");
        assert_eq!(told.tasks[usize::from(task)].released, DURATION_NS / period_ns);
    }
}

#[test]
fn another_cpu_releases_every_job_and_none_before_its_time() {
    let rate = TscRate::since(&Settling::begin().wait());
    let tasks = || vec![task(MS / 10, 5 * MS, &rate), task(MS / 10, 8 * MS, &rate)];
    let running = RunningTrial::new();
    let all = scheduling::allowed_cpus().unwrap();
    let none_left = run_tasks((RealTimePolicy::Deadline, true), tasks(), all.clone(), (&rate, &running));
    assert!(none_left.is_err(), "no CPU is left that could release them");
    if all.len() < 2 {
        eprintln!("skipped: there is no other CPU here");
        return;
    }
    let recording = run_tasks((RealTimePolicy::Fifo, true), tasks(), last_cpu(), (&rate, &running)).unwrap();
    let told = recording.outcome.rtload.as_ref().unwrap();
    assert!(told.tasks.iter().all(|task| task.finished > 0 && task.released == task.finished + task.unstarted));
    let error_units = told.conversion.error_ns * told.conversion.tsc_per_ns;
    for job in jobs(&recording) {
        assert!(job.start as f64 >= job.release as f64 - error_units, "{job:?}");
    }
    let cancelled = RunningTrial::new();
    cancelled.cancel();
    let ended = run_tasks((RealTimePolicy::Fifo, true), tasks(), last_cpu(), (&rate, &cancelled)).unwrap();
    assert!(jobs(&ended).is_empty());
}

#[test]
fn the_table_of_jobs_has_room_for_its_rows_and_for_no_more() {
    // More would be more than what was asked for before the trial began, and of a long one perhaps more than there is.
    let recording =
        run(RealTimePolicy::Fifo, &[(MS / 10, 5 * MS), (MS / 10, 8 * MS)], last_cpu(), &RunningTrial::new());
    let Rows::Jobs(jobs) = recording.unwrap().rows else { panic!("no jobs") };
    assert_eq!(jobs.capacity(), jobs.len());
}

#[test]
fn what_was_released_is_finished_or_missing_and_counted() {
    // Twice what one CPU can do.
    let recording =
        run(RealTimePolicy::Fifo, &[(10 * MS, 10 * MS), (20 * MS, 20 * MS)], last_cpu(), &RunningTrial::new()).unwrap();
    let told = recording.outcome.rtload.as_ref().unwrap();
    for task in &told.tasks {
        assert_eq!(task.released, task.finished + task.unstarted);
        assert!(task.late <= task.finished);
    }
    let rows = jobs(&recording).len() as u64;
    assert_eq!(rows, told.tasks.iter().map(|task| task.finished).sum::<u64>());
    let (urgent, other) = (&told.tasks[0], &told.tasks[1]);
    assert!(other.late + other.unstarted > 0, "{told:?}");
    assert!(other.unstarted > 0 || urgent.unstarted > 0, "{told:?}");
    let counters = &recording.outcome.counters;
    assert_eq!(counters["missed"], told.tasks.iter().map(|task| task.late + task.unstarted).sum::<u64>());
}

#[test]
fn a_cancelled_trial_ends_and_is_not_valid() {
    let running = RunningTrial::new();
    running.cancel();
    let recording = run(RealTimePolicy::Fifo, &[(MS / 10, 5 * MS)], last_cpu(), &running).unwrap();
    assert!(!recording.outcome.is_valid());
    assert!(jobs(&recording).is_empty());
    assert_eq!(recording.outcome.rtload.unwrap().tasks[0].unstarted, DURATION_NS / (5 * MS));
}

#[test]
fn tasks_that_are_not_admitted_are_an_error_with_a_hint_and_not_a_wait() {
    // More than all CPUs can do; without the privilege the refusal is another one.
    let cpus = scheduling::allowed_cpus().unwrap();
    let sets = vec![(10 * MS, 10 * MS); cpus.len() + 1];
    let error = run(RealTimePolicy::Deadline, &sets, cpus, &RunningTrial::new()).err().unwrap();
    assert!(matches!(error, TrialError::Admission { .. }) && error.hint().is_some(), "{error}");
}
