//! One CPU from event to event.
//!
//! Interrupts come first, in the order in which they fire: a tick, or a release, which makes its job ready. Then the
//! scheduler: one section, in which jobs have to wait, whenever another job should run than the one that does, and one
//! after each completion. A job that goes on after it was preempted works longer, as its caches have changed. The
//! lowest of all, a background that is no task, may hold the CPU for a stretch that no job interrupts.

use std::collections::VecDeque;

use crate::service::{Reader, Service};

/// Who runs.
#[derive(Clone, Debug)]
pub enum Order {
    /// The lowest level of each task, and of equal ones the job that has been ready longest, as `SCHED_FIFO` has it.
    FixedPriority(Vec<u64>),
    /// The earliest deadline, and of equal ones the task with the lowest number here.
    EarliestDeadline(Vec<u64>),
}

#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub task: usize,
    pub arrival: u64,
    pub deadline: u64,
    pub cost: u64,
}

/// Something that interrupts whatever runs.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    pub fires: u64,
    pub cost: u64,
    /// That is ready at its end.
    pub releases: Option<Job>,
    pub is_tick: bool,
}

pub struct Machine<'a> {
    pub order: &'a Order,
    pub service: &'a Service,
    /// Of one scheduling decision and context switch.
    pub section: u64,
    /// What a job works more when it goes on after it was preempted.
    pub cache: u64,
    /// A tick that fires while one waits is lost.
    pub coalesces: bool,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of each task, from arrival to end; of a job that has not ended, up to the end of the simulation.
    pub longest: Vec<u64>,
    /// The first job that missed its deadline: task and arrival.
    pub missed: Option<(usize, u64)>,
    pub jobs_ended: u64,
}

#[derive(Clone, Copy)]
struct Ready {
    job: Job,
    left: u64,
    preempted: bool,
    /// The how manieth that became ready.
    number: u64,
}

struct Running<'a> {
    machine: &'a Machine<'a>,
    ready: Vec<Ready>,
    /// The number of the job that has the CPU.
    has_cpu: Option<u64>,
    section_left: u64,
    /// Who has the CPU after the section.
    chosen: Option<u64>,
    /// Cost left, what follows, and whether it is a tick.
    interrupts: VecDeque<(u64, Option<Job>, bool)>,
    became_ready: u64,
    outcome: Outcome,
}

impl Machine<'_> {
    /// Simulate `tasks` tasks until nothing is left or `until`.
    ///
    /// Args: interrupts in the order in which they fire; stretches of the background, begin and length, in order.
    pub fn run(&self, interrupts: &[Interrupt], background: &[(u64, u64)], tasks: usize, until: u64) -> Outcome {
        let mut state = Running {
            machine: self,
            ready: Vec::new(),
            has_cpu: None,
            section_left: 0,
            chosen: None,
            interrupts: VecDeque::new(),
            became_ready: 0,
            outcome: Outcome { longest: vec![0; tasks], missed: None, jobs_ended: 0 },
        };
        let mut reader = Reader::of(self.service);
        let mut coming = interrupts.iter().peekable();
        let mut background = background.iter().peekable();
        let mut now = 0;
        while now < until {
            // The background begins just before what fires at the same time.
            while let Some(&(_, length)) = background.next_if(|&&(start, _)| start <= now) {
                if state.is_idle() {
                    state.section_left = length;
                }
            }
            while let Some(one) = coming.next_if(|one| one.fires <= now) {
                state.fire(one);
            }
            let next_fire = coming.peek().map_or(u64::MAX, |one| one.fires);
            let next = next_fire.min(background.peek().map_or(u64::MAX, |one| one.0));
            let Some(work) = state.next_work() else {
                if next == u64::MAX {
                    break;
                }
                now = next;
                continue;
            };
            let Some((done, then)) = reader.advance(now, work, next.min(until)) else { break };
            now = then;
            state.work(done, now);
        }
        state.end(now.min(until))
    }
}

impl Running<'_> {
    fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.interrupts.is_empty() && self.section_left == 0
    }

    fn fire(&mut self, one: &Interrupt) {
        let is_waiting = |&(left, _, is_tick): &(u64, Option<Job>, bool)| left > 0 && is_tick;
        if self.machine.coalesces && one.is_tick && self.interrupts.iter().skip(1).any(is_waiting) {
            return;
        }
        self.interrupts.push_back((one.cost, one.releases, one.is_tick));
    }

    /// How much is to be done next without a decision; None if there is nothing.
    fn next_work(&mut self) -> Option<u64> {
        loop {
            match self.interrupts.front() {
                Some(&(0, releases, _)) => {
                    self.interrupts.pop_front();
                    if let Some(job) = releases {
                        self.ready.push(Ready { job, left: job.cost, preempted: false, number: self.became_ready });
                        self.became_ready += 1;
                    }
                    continue;
                }
                Some(&(left, ..)) => return Some(left),
                None => {}
            }
            if self.section_left > 0 {
                return Some(self.section_left);
            }
            let best = self.best();
            if best == self.has_cpu {
                let number = self.has_cpu?;
                return self.ready.iter().find(|one| one.number == number).map(|one| one.left);
            }
            self.switch_to(best);
        }
    }

    fn best(&self) -> Option<u64> {
        let key = |one: &Ready| match &self.machine.order {
            Order::FixedPriority(levels) => (levels[one.job.task], one.number, 0),
            Order::EarliestDeadline(ties) => (one.job.deadline, ties[one.job.task], one.number),
        };
        self.ready.iter().min_by_key(|one| key(one)).map(|one| one.number)
    }

    /// A section at whose end another job has the CPU.
    fn switch_to(&mut self, best: Option<u64>) {
        for one in &mut self.ready {
            if Some(one.number) == self.has_cpu {
                one.preempted = true;
            }
            if Some(one.number) == best && one.preempted {
                one.preempted = false;
                one.left += self.machine.cache;
            }
        }
        self.section_left = self.machine.section;
        if self.section_left == 0 {
            self.has_cpu = best;
        } else {
            self.chosen = best;
        }
    }

    fn work(&mut self, done: u64, now: u64) {
        if let Some(first) = self.interrupts.front_mut() {
            first.0 -= done;
            return;
        }
        if self.section_left > 0 {
            self.section_left -= done;
            if self.section_left == 0 {
                self.has_cpu = self.chosen.take();
            }
            return;
        }
        let Some(at) = self.ready.iter().position(|one| Some(one.number) == self.has_cpu) else { return };
        self.ready[at].left -= done;
        if self.ready[at].left == 0 {
            let job = self.ready.swap_remove(at).job;
            self.outcome.jobs_ended += 1;
            self.seen(&job, now);
            self.has_cpu = None;
            let best = self.best();
            self.switch_to(best);
        }
    }

    fn seen(&mut self, job: &Job, end: u64) {
        let longest = &mut self.outcome.longest[job.task];
        *longest = (*longest).max(end.saturating_sub(job.arrival));
        if end > job.deadline && self.outcome.missed.is_none() {
            self.outcome.missed = Some((job.task, job.arrival));
        }
    }

    fn end(mut self, now: u64) -> Outcome {
        let waiting = std::mem::take(&mut self.interrupts).into_iter().filter_map(|(_, releases, _)| releases);
        let left: Vec<Job> = self.ready.iter().map(|one| one.job).chain(waiting).collect();
        for job in left {
            self.seen(&job, now);
        }
        self.outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(task: usize, fires: u64, cost: u64, deadline: u64) -> Interrupt {
        Interrupt { fires, cost: 1, releases: Some(Job { task, arrival: fires, deadline, cost }), is_tick: false }
    }

    #[test]
    fn a_preempted_job_pays_for_interrupts_sections_and_caches() {
        let order = Order::FixedPriority(vec![0, 1]);
        let machine = Machine { order: &order, service: &Service::Always, section: 2, cache: 3, coalesces: false };
        let events = [release(1, 0, 10, 100), release(0, 5, 4, 100)];
        let found = machine.run(&events, &[], 2, 1_000);
        // The second: 1 interrupt, 2 section, 2 of 10 done at 5. The first: 1, 2, 4: done at 12. Then 2, 8 + 3: 25.
        assert_eq!((found.longest, found.missed, found.jobs_ended), (vec![7, 25], None, 2));
    }

    #[test]
    fn what_comes_during_a_section_waits_for_its_end() {
        let order = Order::EarliestDeadline(vec![0, 0]);
        let machine = Machine { order: &order, service: &Service::Always, section: 4, cache: 0, coalesces: false };
        let events = [release(1, 0, 10, 100), release(0, 2, 1, 50)];
        // 0 to 1 the interrupt, a section until 6 with the other interrupt in it, another section until 10.
        assert_eq!(machine.run(&events, &[], 2, 1_000).longest, [9, 25]);
    }

    #[test]
    fn equal_levels_go_first_in_first_out_and_a_background_is_waited_for() {
        let order = Order::FixedPriority(vec![0, 0]);
        let machine = Machine { order: &order, service: &Service::Always, section: 0, cache: 0, coalesces: false };
        let events = [release(1, 10, 5, 100), release(0, 10, 5, 100)];
        assert_eq!(machine.run(&events, &[(10, 3)], 2, 1_000).longest, [15, 10]);
    }

    #[test]
    fn no_work_is_done_where_there_is_no_service() {
        let order = Order::FixedPriority(vec![0]);
        let service = Service::Stretches(vec![(0, 3), (10, 12), (20, 40)]);
        let machine = Machine { order: &order, service: &service, section: 0, cache: 0, coalesces: true };
        let tick = |fires| Interrupt { fires, cost: 1, releases: None, is_tick: true };
        // 2 to 3 the release, 10 to 12 two of the three ticks (the third waits with another), from 20 on the job.
        let events = [release(0, 2, 5, 20), tick(4), tick(5), tick(6)];
        let found = machine.run(&events, &[], 1, 1_000);
        assert_eq!((found.longest, found.missed), (vec![23], Some((0, 2))));
    }
}
