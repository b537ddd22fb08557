//! An exact simulator in unit steps, and small random sets for it.

pub mod judging;

use proptest::prelude::*;
use stealtime_schedulability::{Overheads, Task};

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The lowest task number.
    FixedPriority,
    EarliestDeadline,
}

/// One job: arrival, then release at or after it.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub task: usize,
    pub arrival: u64,
    /// When the timer's interrupt comes.
    pub interrupt: u64,
    pub deadline: u64,
    pub cost: u64,
}

struct Ready {
    job: Job,
    left: u64,
    was_preempted: bool,
}

/// Runs jobs with the overheads as a kernel has them, one unit of time after the other.
///
/// Interrupts come first: each release's, which makes its job ready, and the tick. Then a scheduling section, in
/// which other jobs must wait: one whenever the job that should run is not the one that does, and one after each
/// completion. A job that goes on after it was preempted works `cache_preemption_ns` more.
pub struct Machine<'a> {
    pub order: Order,
    pub overheads: Overheads,
    /// Whether there is service in the unit of time that begins then.
    pub serves: &'a dyn Fn(u64) -> bool,
}

impl Machine<'_> {
    /// Response times by task: the longest of each, and whether a deadline was missed; None if jobs are left.
    pub fn run(&self, jobs: &[Job], tasks: usize, horizon: u64) -> Option<(Vec<u64>, bool)> {
        let section = self.overheads.scheduling_ns + self.overheads.context_switch_ns;
        let mut coming: Vec<Job> = jobs.to_vec();
        coming.sort_by_key(|job| job.interrupt);
        coming.reverse();
        let mut releasing: std::collections::VecDeque<(Job, u64)> = std::collections::VecDeque::new();
        let mut tick_left = 0;
        let mut ready: Vec<Ready> = Vec::new();
        let mut running: Option<Job> = None;
        let mut section_left: u64 = 0;
        let mut after_section: Option<Job> = None;
        let mut longest = vec![0; tasks];
        let mut missed = false;
        for now in 0..horizon {
            while coming.last().is_some_and(|job| job.interrupt <= now) {
                if let Some(job) = coming.pop() {
                    releasing.push_back((job, self.overheads.release_ns));
                }
            }
            if self.overheads.tick_period_ns > 0 && now % self.overheads.tick_period_ns == 0 {
                tick_left += self.overheads.tick_ns;
            }
            let served = (self.serves)(now);
            let mut unit_left = served;
            // Steps that take no time are done until something takes this unit.
            loop {
                if let Some(&(job, 0)) = releasing.front() {
                    releasing.pop_front();
                    ready.push(Ready { job, left: job.cost, was_preempted: false });
                    continue;
                }
                if !unit_left {
                    break;
                }
                if let Some(first) = releasing.front_mut() {
                    first.1 -= 1;
                    unit_left = false;
                } else if tick_left > 0 {
                    tick_left -= 1;
                    unit_left = false;
                } else if section_left > 0 {
                    section_left -= 1;
                    unit_left = false;
                    if section_left == 0 {
                        running = after_section.take();
                    }
                } else {
                    let best = self.best(&ready);
                    let same = |one: Option<Job>, other: Option<Job>| {
                        one.map(|job| (job.task, job.arrival)) == other.map(|job| (job.task, job.arrival))
                    };
                    if !same(best, running) {
                        for one in &mut ready {
                            if same(Some(one.job), running) {
                                one.was_preempted = true;
                            }
                            if same(Some(one.job), best) && one.was_preempted {
                                one.was_preempted = false;
                                one.left += self.overheads.cache_preemption_ns;
                            }
                        }
                        if section == 0 {
                            running = best;
                        } else {
                            after_section = best;
                            section_left = section;
                        }
                        continue;
                    }
                    let Some(current) = running else { break };
                    unit_left = false;
                    let index = ready.iter().position(|one| same(Some(one.job), Some(current)))?;
                    ready[index].left -= 1;
                    if ready[index].left == 0 {
                        let done = ready.remove(index).job;
                        let response = now + 1 - done.arrival;
                        longest[done.task] = longest[done.task].max(response);
                        missed |= now + 1 > done.deadline;
                        running = None;
                        after_section = self.best(&ready);
                        section_left = section;
                        if section == 0 {
                            running = after_section.take();
                        }
                    }
                }
            }
        }
        let done = ready.is_empty() && releasing.is_empty() && coming.is_empty();
        done.then_some((longest, missed))
    }

    fn best(&self, ready: &[Ready]) -> Option<Job> {
        let key = |job: &Job| match self.order {
            Order::FixedPriority => (job.task as u64, job.arrival, 0),
            Order::EarliestDeadline => (job.deadline, job.task as u64, job.arrival),
        };
        ready.iter().map(|one| one.job).min_by_key(key)
    }
}

/// Sporadic jobs with arrivals, jitter and latency drawn from a seed; `lazy` 0 lets all arrive as early as they may.
pub fn sporadic(tasks: &[Task], latency: u64, until: u64, seed: u64, lazy: u64) -> Vec<Job> {
    let mut state = seed | 1;
    let mut draw = |most: u64| {
        // xorshift64: any fixed sequence does.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % (most + 1)
    };
    let mut jobs = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        let mut arrival = draw(lazy);
        let mut last_release = 0;
        while arrival < until {
            // The first as late as it may be, the others at random.
            let late = if last_release == 0 { task.jitter_ns } else { draw(task.jitter_ns) };
            let release = (arrival + late).max(last_release);
            jobs.push(Job {
                task: index,
                arrival,
                interrupt: release + draw(latency),
                deadline: arrival + task.deadline_ns,
                cost: task.cost_ns,
            });
            last_release = release;
            arrival += task.period_ns + draw(lazy);
        }
    }
    jobs
}

/// Small tasks: costs up to 5, periods up to 24, any deadline up to twice the period.
pub fn small_task(jitter: u64) -> impl Strategy<Value = Task> {
    (1..=5_u64, 4..=24_u64, 0..=jitter).prop_flat_map(|(cost, period, jitter_ns)| {
        let cost_ns = cost.min(period);
        (cost_ns..=2 * period).prop_map(move |deadline_ns| Task {
            cost_ns,
            period_ns: period,
            deadline_ns,
            jitter_ns,
            blocking_ns: 0,
        })
    })
}

/// Up to `most` of them.
pub fn small_set(most: usize, jitter: u64) -> impl Strategy<Value = Vec<Task>> {
    prop::collection::vec(small_task(jitter), 1..=most)
}

pub fn small_overheads() -> impl Strategy<Value = Overheads> {
    (0..=2_u64, 0..=1_u64, 0..=1_u64, 0..=1_u64, 0..=1_u64, 8..=16_u64, 0..=1_u64).prop_map(
        |(event_latency_ns, release_ns, scheduling_ns, context_switch_ns, tick_ns, tick_period_ns, cache)| Overheads {
            event_latency_ns,
            release_ns,
            scheduling_ns,
            context_switch_ns,
            tick_ns,
            tick_period_ns,
            inter_processor_interrupt_ns: 0,
            cache_preemption_ns: cache,
        },
    )
}
