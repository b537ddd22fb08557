//! `rtload`: periodic real-time tasks, and what becomes of each of their jobs.
//!
//! Each task is a thread that is released at absolute times, one period apart, and then does a fixed amount of
//! work; all have their first release at one moment. Under `fifo` they are `SCHED_FIFO` threads on one CPU, each
//! with a priority of its own; under `deadline` each has the budget, relative deadline and period of its task
//! under `SCHED_DEADLINE`.
//!
//! * The work is a number of iterations of the busy loop of `tick`, no time: whatever takes the CPU away
//!   cannot change what a job has to do.
//! * Release: as programmed, the start plus a whole number of periods, whatever became of the jobs before. It
//!   is programmed in `CLOCK_MONOTONIC`, on which the timer runs, and brought to the time-stamp counter, in
//!   which rows are counted, by a line through readings of both ([`conversion`]).
//! * Start: the first reading of the counter after the sleep until the release; finish: the first one after the
//!   work. What is done between two jobs (keeping the row, programming the next sleep) belongs to neither.
//! * A job whose release has passed when the one before it is done starts at once, without a sleep. None is
//!   skipped. Jobs are released as long as their deadline lies within the duration; when that is over a job
//!   that has begun is finished, and those that have not are counted (`unstarted`), so that every released job
//!   either has a row or has missed its deadline.
//! * `released_elsewhere`: one thread on another CPU sleeps until each release and wakes the tasks then, so that this
//!   CPU is sent an inter-processor interrupt instead of its own timer's. Releases are the same programmed times; the
//!   start then also waits for that thread.
//! * Rows are written to memory that is there and locked before the start.
//! * Polluters: threads under ordinary scheduling on the same CPUs, which run where the tasks leave time. Each
//!   reads, changes and writes back every word of one page after another, chosen at random, as the background
//!   load of LITMUS^RT's `rtspin` does.

mod conversion;
mod deadline;
mod polluter;
mod releasing;
mod task;
mod tasks;

use stealtime_wire::{Finding, FindingLevel, Layout, RealTimePolicy, RealTimeTask, Rtload, ThreadRole, TrialRequest};

use crate::clock::SampleClock;
use crate::error::TrialError;
use crate::needs::Needs;
use crate::probe::{Measured, Probe};
use crate::rows::Rows;
use crate::stage::Stage;

/// What `SCHED_DEADLINE` accepts by default, and far more than a job's own handling takes.
const SHORTEST_PERIOD_NS: u64 = 100_000;
/// An hour; products with the duration stay far from overflow.
const LONGEST_PERIOD_NS: u64 = 3_600_000_000_000;
/// What the table's column can tell apart.
const MOST_TASKS: u64 = 1 << 16;
const MOST_POLLUTERS: u64 = 1024;
/// A page.
const SMALLEST_POLLUTER_BYTES: u64 = 4096;

impl Probe for Rtload {
    fn layout(&self) -> Option<Layout> {
        None
    }

    fn clock(&self) -> SampleClock {
        SampleClock::Tsc
    }

    fn needs_fifo(&self) -> bool {
        true
    }

    fn cpus<'a>(&self, allowed: &'a [u32]) -> &'a [u32] {
        match self.policy {
            RealTimePolicy::Fifo => &allowed[..1],
            // It admits tasks to all CPUs of a root domain at once.
            RealTimePolicy::Deadline => allowed,
        }
    }

    fn policy_of_threads(&self) -> Option<&'static str> {
        (self.policy == RealTimePolicy::Deadline).then_some("SCHED_DEADLINE")
    }

    fn role_of_caller(&self) -> ThreadRole {
        ThreadRole::Agent
    }

    fn validate(&self, duration_ns: u64) -> Result<(), TrialError> {
        let in_range = TrialError::unless_in_range;
        in_range("tasks", self.tasks.len() as u64, 1, MOST_TASKS)?;
        in_range("polluters", self.polluters.into(), 0, MOST_POLLUTERS)?;
        in_range("polluter_bytes", self.polluter_bytes, SMALLEST_POLLUTER_BYTES, 1 << 40)?;
        for task in &self.tasks {
            let RealTimeTask { period_ns, deadline_ns, budget_ns, iterations, .. } = *task;
            in_range("period_ns", period_ns, SHORTEST_PERIOD_NS, LONGEST_PERIOD_NS)?;
            in_range("iterations", iterations, 1, u64::MAX)?;
            in_range("deadline_ns", deadline_ns, 1, duration_ns)?;
            in_range("jobs", task::released(task, duration_ns), 1, u32::MAX.into())?;
            if self.policy == RealTimePolicy::Deadline {
                in_range("deadline_ns", deadline_ns, 1, period_ns)?;
                in_range("budget_ns", budget_ns.unwrap_or(0), 1, deadline_ns)?;
            }
        }
        Ok(())
    }

    fn validate_priority(&self, priority: u32) -> Result<(), TrialError> {
        let tasks = self.tasks.len();
        if self.policy == RealTimePolicy::Deadline || usize::try_from(priority).is_ok_and(|most| tasks <= most) {
            return Ok(());
        }
        Err(TrialError::Priorities { tasks, priority })
    }

    fn needs(&self, request: &TrialRequest) -> Needs {
        tasks::needs(self, request)
    }

    fn examine_injection(&self) -> Option<Finding> {
        (self.policy == RealTimePolicy::Deadline).then(|| Finding {
            code: "injection_not_above".to_owned(),
            level: FindingLevel::Limits,
            text: "the injected thefts are SCHED_FIFO, over which tasks under SCHED_DEADLINE go".to_owned(),
            hint: Some("test the instrument with tasks under SCHED_FIFO".to_owned()),
        })
    }

    fn measure(&self, stage: &Stage) -> Result<Measured, TrialError> {
        let done = tasks::run(self, stage)?;
        let sum = |of: fn(&stealtime_wire::RealTimeTaskOutcome) -> u64| done.outcome.tasks.iter().map(of).sum();
        let missed = |task: &stealtime_wire::RealTimeTaskOutcome| task.late + task.unstarted;
        let mut measured = Measured::new(done.begun).with_counters([
            ("released", sum(|task| task.released)),
            ("finished", sum(|task| task.finished)),
            ("missed", done.outcome.tasks.iter().map(missed).sum()),
            ("unstarted", sum(|task| task.unstarted)),
            ("overruns", sum(|task| task.overruns)),
            ("polluted_pages", done.polluted_pages),
        ]);
        measured.findings.extend(stage.trial.running.is_cancelled().then(cancelled));
        measured.rows = Rows::Jobs(done.jobs);
        measured.rtload = Some(done.outcome);
        Ok(measured)
    }
}

fn cancelled() -> Finding {
    Finding {
        code: "cancelled".to_owned(),
        level: FindingLevel::Invalidates,
        text: "the trial was cancelled before its time, and jobs that would still have come count as not started"
            .to_owned(),
        hint: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(period_ns: u64, deadline_ns: u64) -> RealTimeTask {
        RealTimeTask {
            name: "t".to_owned(),
            period_ns,
            deadline_ns,
            cost_ns: 1_000,
            budget_ns: Some(1_000),
            iterations: 1,
        }
    }

    fn set(policy: RealTimePolicy, tasks: Vec<RealTimeTask>) -> Rtload {
        Rtload { policy, tasks, polluters: 0, polluter_bytes: 4096, released_elsewhere: false, drawn: None }
    }

    fn request(probe: Rtload, duration_ns: u64) -> TrialRequest {
        TrialRequest::plain(stealtime_wire::Probe::Rtload(probe), vec![0], 80, duration_ns)
    }

    #[test]
    fn memory_is_counted_as_it_is_taken_at_the_end_and_by_everybody() {
        let tasks = vec![task(1_000_000, 1_000_000), task(2_000_000, 2_000_000)];
        let bytes = |probe: &Rtload, duration_ns| probe.needs(&request(probe.clone(), duration_ns)).bytes;
        let alone = set(RealTimePolicy::Fifo, tasks);
        let (second, hour) = (1_000_000_000, 3_600_000_000_000);
        // 1500 jobs a second, each 24 bytes as stamps and 32 as a row, and ten readings of 32 bytes.
        let a_second = 1_500 * (24 + 32) + 10 * 32;
        assert_eq!(bytes(&alone, hour + second) - bytes(&alone, hour), a_second);
        let polluted = Rtload { polluters: 8, polluter_bytes: 64 << 20, ..alone.clone() };
        assert!(bytes(&polluted, second) - bytes(&alone, second) >= 8 * (64 << 20));
    }

    #[test]
    fn jobs_are_released_while_their_deadline_lies_within_the_duration() {
        assert_eq!(task::released(&task(1_000_000, 1_000_000), 10_000_000), 10);
        assert_eq!(task::released(&task(1_000_000, 1_000_000), 10_999_999), 10);
        assert_eq!(task::released(&task(1_000_000, 500_000), 10_500_000), 11);
        assert_eq!(task::released(&task(1_000_000, 3_000_000), 10_000_000), 8);
        assert_eq!(task::released(&task(1_000_000, 3_000_000), 2_999_999), 0);
    }

    #[test]
    fn parameters_that_make_no_sense_are_refused() {
        let refused = |probe: &Rtload| probe.validate(1_000_000_000).unwrap_err().to_string();
        let fifo = |tasks| set(RealTimePolicy::Fifo, tasks);
        assert!(fifo(vec![task(1_000_000, 2_000_000)]).validate(1_000_000_000).is_ok());
        assert!(refused(&fifo(Vec::new())).starts_with("tasks = 0"));
        assert!(refused(&fifo(vec![task(99_999, 99_999)])).starts_with("period_ns = 99999"));
        assert!(refused(&fifo(vec![task(2_000_000_000, 2_000_000_000)])).starts_with("deadline_ns = 2000000000"));
        let later = set(RealTimePolicy::Deadline, vec![task(1_000_000, 2_000_000)]);
        assert!(refused(&later).contains("it must be 1 to 1000000"));
        let without = RealTimeTask { budget_ns: None, ..task(1_000_000, 1_000_000) };
        assert!(refused(&set(RealTimePolicy::Deadline, vec![without])).starts_with("budget_ns = 0"));
    }

    #[test]
    fn each_task_needs_a_priority_of_its_own() {
        let three = set(RealTimePolicy::Fifo, vec![task(1_000_000, 1_000_000); 3]);
        assert!(three.validate_priority(3).is_ok());
        let error = three.validate_priority(2).unwrap_err();
        assert!(error.to_string().contains("3 tasks") && error.hint().is_some(), "{error}");
        assert!(set(RealTimePolicy::Deadline, three.tasks).validate_priority(1).is_ok());
    }
}
