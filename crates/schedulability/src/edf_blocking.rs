//! Blocking by critical sections under EDF with the stack resource policy.
//!
//! T. P. Baker, "Stack-Based Scheduling of Realtime Processes" (Real-Time Systems 3(1), 1991); the demand test with
//! blocking as S. Baruah has it, "Resource Sharing in EDF-Scheduled Systems: A Closer Look" (RTSS 2006): in a window
//! of length L, besides the jobs that are due, one critical section of a job that is due later.
//!
//! What blocks by a time alone may belong to anybody, however late that is due: it counts in every window in which the
//! blocked job may be due, up to the longest busy period with it. After that period everything that came before is
//! done, so that no longer window begins with the last moment before a miss at which nothing was left.

use crate::analysis::Question;
use crate::edf_profile::{Blocked, blocked_edf_responses};
use crate::edf_windows::Window;
use crate::error::{Error, MOST_STEPS};
use crate::load::Load;
use crate::overheads::Interrupts;
use crate::task::Task;

/// From windows of `from_ns` on, until those of the next level, jobs may be blocked for `blocking_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockingLevel {
    pub from_ns: u64,
    pub blocking_ns: u64,
}

/// A question under EDF with its blocking by length of the window.
#[derive(Clone, Copy)]
pub struct BlockedQuestion<'a> {
    /// Its tasks have no blocking of their own.
    pub question: Question<'a>,
    /// In order of `from_ns`; none before the first. The last holds for all longer windows.
    pub levels: &'a [BlockingLevel],
}

impl BlockedQuestion<'_> {
    /// Tell whether all deadlines are met.
    ///
    /// # Errors
    /// As [`Question::is_schedulable`].
    pub fn is_schedulable(&self) -> Result<bool, Error> {
        Ok(self.question.is_schedulable()? && self.exceeded()?.is_none())
    }

    /// The first window in which blocking and what is due exceed the service; windows without blocking are not looked
    /// at: they are [`Question::answer`]'s.
    ///
    /// Interrupts are charged by time, costs by job: each job costs two scheduling decisions and context switches and
    /// one cache-related delay more; each release one interrupt; the latency is jitter.
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::NotObserved`], or [`Error::NotConverged`] where there are too many windows.
    pub fn exceeded(&self) -> Result<Option<Window>, Error> {
        let mut steps = 0;
        // Blocking alone makes nothing late: a job must be due.
        let mut first_due = u64::MAX;
        for task in self.question.tasks {
            first_due = first_due.min(task.deadline_ns.saturating_sub(self.jitter(task.jitter_ns)?));
        }
        for (number, level) in self.levels.iter().enumerate() {
            if level.blocking_ns == 0 {
                continue;
            }
            let until = match self.levels.get(number + 1) {
                Some(next) => next.from_ns,
                None => self.busy_period(level.blocking_ns)?.saturating_add(1),
            };
            let mut window_ns = level.from_ns.max(first_due);
            while window_ns < until {
                let demand_ns = self.demand_in(window_ns)?.checked_add(level.blocking_ns).ok_or(Error::Overflow)?;
                let needed = self.question.supply.window_for(demand_ns)?;
                if needed > window_ns {
                    let service_ns = self.question.supply.service_in(window_ns)?;
                    return Ok(Some(Window { window_ns, demand_ns, service_ns }));
                }
                window_ns = self.next_deadline_after(window_ns)?;
                steps += 1;
                if steps >= MOST_STEPS {
                    return Err(Error::NotConverged { steps, window_ns });
                }
            }
        }
        Ok(None)
    }

    /// Bound the response, from arrival to end, of each task.
    ///
    /// A job that is due by the end of a window waits for the jobs that are due no later, for interrupts, and for one
    /// section of a job that is due later and had begun it when nothing else was left: Spuri's busy period (INRIA
    /// RR-2772, 1996) with the blocking of that window in front, as Baker's policy blocks a job before it begins only,
    /// and once.
    ///
    /// # Errors
    /// A task that cannot be charged; why there is no bound is in place of each.
    pub fn responses(&self) -> Result<Vec<Result<u64, Error>>, Error> {
        let Question { tasks, supply, .. } = self.question;
        let workload = self.question.charged_by_deadline()?;
        let load = Load::from(&workload);
        if !supply.carries(&load.pairs()) {
            return Ok(vec![Err(Error::Overloaded); tasks.len()]);
        }
        let unblocked = BlockingLevel { from_ns: 0, blocking_ns: 0 };
        let starts_later = self.levels.first().is_none_or(|first| first.from_ns > 0);
        let levels: Vec<BlockingLevel> =
            starts_later.then_some(unblocked).into_iter().chain(self.levels.to_vec()).collect();
        let next = levels.iter().skip(1).map(|next| Some(next.from_ns)).chain([None]);
        let blocked: Vec<Blocked> = levels
            .iter()
            .zip(next)
            .map(|(level, until_ns)| Blocked { from_ns: level.from_ns, until_ns, blocking_ns: level.blocking_ns })
            .collect();
        Ok(blocked_edf_responses(load, supply, &blocked).unwrap_or_else(|error| vec![Err(error); tasks.len()]))
    }

    /// The longest time without an idle moment that begins with what blocks.
    fn busy_period(&self, blocking_ns: u64) -> Result<u64, Error> {
        let mut window_ns = 1;
        for _ in 0..MOST_STEPS {
            let demand_ns = sum(self.arriving_in(window_ns)?, blocking_ns)?;
            let longer = self.question.supply.window_for(demand_ns)?;
            if longer <= window_ns {
                return Ok(window_ns);
            }
            window_ns = longer;
        }
        Err(Error::NotConverged { steps: MOST_STEPS, window_ns })
    }

    fn jitter(&self, own_ns: u64) -> Result<u64, Error> {
        let overheads = &self.question.overheads;
        let sent = match self.question.interrupts {
            Interrupts::Here => 0,
            // The handler runs there, before it sends.
            Interrupts::OnAnotherCpu => sum(overheads.inter_processor_interrupt_ns, overheads.release_ns)?,
        };
        sum(sum(own_ns, overheads.event_latency_ns)?, sent)
    }

    fn demand_in(&self, window_ns: u64) -> Result<u64, Error> {
        let due = |task: &Task, reach: u64| match reach.checked_sub(task.deadline_ns) {
            Some(beyond) => beyond / task.period_ns + 1,
            None => 0,
        };
        self.demand_of(window_ns, due)
    }

    /// What arrives in a window, whenever it is due.
    fn arriving_in(&self, window_ns: u64) -> Result<u64, Error> {
        self.demand_of(window_ns, |task, reach| reach.div_ceil(task.period_ns))
    }

    /// Jobs, as many of each task as told by the window with the task's jitter, and interrupts.
    fn demand_of(&self, window_ns: u64, jobs: impl Fn(&Task, u64) -> u64) -> Result<u64, Error> {
        let overheads = &self.question.overheads;
        let switch = sum(overheads.scheduling_ns, overheads.context_switch_ns)?;
        let per_job = sum(sum(switch, switch)?, overheads.cache_preemption_ns)?;
        let mut demand = 0_u64;
        for task in self.question.tasks {
            let reach = sum(window_ns, self.jitter(task.jitter_ns)?)?;
            let one = jobs(task, reach).checked_mul(sum(task.cost_ns, per_job)?).ok_or(Error::Overflow)?;
            demand = sum(demand, one)?;
            if self.question.interrupts == Interrupts::Here && overheads.release_ns > 0 {
                let releases = reach.div_ceil(task.period_ns);
                demand = sum(demand, releases.checked_mul(overheads.release_ns).ok_or(Error::Overflow)?)?;
            }
        }
        if overheads.tick_ns > 0 && overheads.tick_period_ns > 0 {
            let ticks = sum(window_ns, overheads.event_latency_ns)?.div_ceil(overheads.tick_period_ns);
            demand = sum(demand, ticks.checked_mul(overheads.tick_ns).ok_or(Error::Overflow)?)?;
        }
        for one in self.question.interference {
            let taken = one.arrivals_in(window_ns)?.checked_mul(one.cost_ns).ok_or(Error::Overflow)?;
            demand = sum(demand, taken)?;
        }
        Ok(demand)
    }

    /// Where the demand of jobs, or the number of interrupts, changes next: only there need one look.
    ///
    /// Between two of these the demand stays and the service does not fall. Interrupts arrive just after a multiple,
    /// so that a window one nanosecond longer has one more.
    fn next_deadline_after(&self, window_ns: u64) -> Result<u64, Error> {
        let overheads = &self.question.overheads;
        let mut next = u64::MAX;
        for task in self.question.tasks {
            let jitter = self.jitter(task.jitter_ns)?;
            next = next.min(next_step(window_ns, task.period_ns, task.deadline_ns, jitter)?);
            if self.question.interrupts == Interrupts::Here && overheads.release_ns > 0 {
                next = next.min(next_step(window_ns, task.period_ns, 1, jitter)?);
            }
        }
        if overheads.tick_ns > 0 && overheads.tick_period_ns > 0 {
            next = next.min(next_step(window_ns, overheads.tick_period_ns, 1, overheads.event_latency_ns)?);
        }
        for one in self.question.interference {
            next = next.min(next_step(window_ns, one.period_ns, 1, one.jitter_ns)?);
        }
        Ok(next)
    }
}

/// The least `offset + k * period - jitter` beyond a window.
fn next_step(window_ns: u64, period_ns: u64, offset_ns: u64, jitter_ns: u64) -> Result<u64, Error> {
    let reach = sum(window_ns, jitter_ns)?;
    let steps = reach.checked_sub(offset_ns).map_or(0, |beyond| beyond / period_ns + 1);
    let at = steps.checked_mul(period_ns).and_then(|at| at.checked_add(offset_ns)).ok_or(Error::Overflow)?;
    Ok(at - jitter_ns)
}

fn sum(one: u64, other: u64) -> Result<u64, Error> {
    one.checked_add(other).ok_or(Error::Overflow)
}
