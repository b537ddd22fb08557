//! Response-time analysis under preemptive fixed priorities on one CPU.
//!
//! Joseph and Pandya (The Computer Journal 29(5), 1986), with release jitter and blocking as Audsley, Burns,
//! Richardson, Tindell and Wellings have it (Software Engineering Journal 8(5), 1993), and with several jobs in
//! one busy window as Lehoczky (RTSS 1990) and Tindell, Burns and Wellings (Real-Time Systems 6(2), 1994).

use crate::arrivals::{Arrivals, Interference};
use crate::equal_priorities::Equals;
use crate::error::{Error, MOST_STEPS, STEPS_BEFORE_DOUBT};
use crate::response::{Extent, Response};
use crate::supply::Supply;
use crate::task::Task;
use crate::workload::Workload;

/// Analyses one workload after the other in the same memory.
#[derive(Clone, Debug, Default)]
pub struct Solver {
    ahead: Arrivals,
    further: Arrivals,
}

/// What a busy window looks like when the search ends.
struct Found {
    response: Response,
    /// Of the first job in it.
    window_ns: u64,
}

impl Solver {
    /// Bound every task's response time; `responses` is emptied first.
    pub fn responses<S: Supply + ?Sized>(&mut self, workload: &Workload, supply: &S, responses: &mut Vec<Response>) {
        responses.clear();
        self.each(workload, supply, Extent::Whole, |response| {
            responses.push(response);
            true
        });
    }

    /// Tell whether every deadline is met: `R = J + w <= D` for all; None if that is not known.
    pub fn meets_all<S: Supply + ?Sized>(&mut self, workload: &Workload, supply: &S) -> Result<bool, Error> {
        let mut verdict = Ok(true);
        let mut deadlines = workload.tasks.iter().map(|task| task.deadline_ns);
        self.each(workload, supply, Extent::UntilMiss, |response| {
            match response.meets(deadlines.next().unwrap_or_default()) {
                Some(true) => true,
                Some(false) => {
                    verdict = Ok(false);
                    false
                }
                None => {
                    // A task of a lower priority may yet miss, which would decide.
                    if let (Ok(_), Response::AtLeast(_, error)) = (&verdict, response) {
                        verdict = Err(error);
                    }
                    true
                }
            }
        });
        verdict
    }

    fn each<S: Supply + ?Sized>(
        &mut self,
        workload: &Workload,
        supply: &S,
        extent: Extent,
        mut take: impl FnMut(Response) -> bool,
    ) {
        let mut window = 1;
        let mut blocked = 0;
        self.ahead.clear();
        let mut broken = workload.interrupts.iter().try_for_each(|&one| self.ahead.push(one, window)).err();
        let mut index = 0;
        while let Some(task) = workload.tasks.get(index) {
            let group = workload.equals_of(index);
            if group.len() > 1 {
                for one in group.clone() {
                    let least = workload.tasks[one].blocking_ns.saturating_add(workload.tasks[one].cost_ns);
                    if broken.is_none() && least < blocked {
                        (window, blocked) = (1, 0);
                        broken = self.start_over(workload, group.start).err();
                    }
                    let search = Equals { workload, group: group.clone(), index: one, supply, extent };
                    let response = match broken {
                        Some(error) => Response::AtLeast(window, error),
                        None => search.response(&self.ahead, &mut self.further, window),
                    };
                    if !take(response) {
                        return;
                    }
                }
                for task in &workload.tasks[group.clone()] {
                    let cost = task.cost_ns.saturating_add(workload.per_arrival_ns);
                    broken = broken.or(self.ahead.push(with_cost(task, cost), window).err());
                }
                index = group.end;
                continue;
            }
            if broken.is_none() && task.blocking_ns.saturating_add(task.cost_ns) < blocked {
                // The last task was blocked for so long that this one's window may be shorter.
                window = 1;
                broken = self.start_over(workload, index).err();
            }
            blocked = task.blocking_ns;
            let found = match broken {
                Some(error) => Found { response: Response::AtLeast(window, error), window_ns: window },
                None => self.one(workload, index, supply, (extent, window)),
            };
            window = found.window_ns;
            if !take(found.response) {
                return;
            }
            let counted = if workload.per_arrival_ns == 0 {
                self.ahead.push(with_cost(task, task.cost_ns), window)
            } else {
                self.ahead.raise_last(task.cost_ns)
            };
            broken = broken.or(counted.err());
            index += 1;
        }
    }

    /// Count again what comes before a task, in the shortest window.
    fn start_over(&mut self, workload: &Workload, index: usize) -> Result<(), Error> {
        self.ahead.clear();
        for &one in &workload.interrupts {
            self.ahead.push(one, 1)?;
        }
        for task in &workload.tasks[..index] {
            self.ahead
                .push(with_cost(task, task.cost_ns.checked_add(workload.per_arrival_ns).ok_or(Error::Overflow)?), 1)?;
        }
        Ok(())
    }

    /// Leaves in `ahead` what arrives in the first job's window, the task itself with its overheads alone.
    fn one<S: Supply + ?Sized>(
        &mut self,
        workload: &Workload,
        index: usize,
        supply: &S,
        (extent, start): (Extent, u64),
    ) -> Found {
        let task = &workload.tasks[index];
        let mut search = Search { workload, index, supply, extent, window: start, at_least: 0, steps: 0 };
        // Of the task's own arrivals only the overheads are in front of it.
        let own = with_cost(task, workload.per_arrival_ns);
        let counted = if own.cost_ns == 0 { Ok(()) } else { self.ahead.push(own, start) };
        let first = counted.and_then(|()| search.job(&mut self.ahead, 0));
        let window_ns = search.window;
        let response = match first.and_then(|first| search.later_jobs(first, &self.ahead, &mut self.further)) {
            Ok(response) => Response::Bounded(response),
            Err(error) => Response::AtLeast(search.at_least, error),
        };
        Found { response, window_ns }
    }
}

fn with_cost(task: &Task, cost_ns: u64) -> Interference {
    Interference { cost_ns, period_ns: task.period_ns, jitter_ns: task.jitter_ns }
}

/// The search for one task's fixed points.
struct Search<'a, S: ?Sized> {
    workload: &'a Workload,
    index: usize,
    supply: &'a S,
    extent: Extent,
    /// Never longer than the fixed point that is sought.
    window: u64,
    /// The longest response seen so far.
    at_least: u64,
    steps: u32,
}

impl<S: Supply + ?Sized> Search<'_, S> {
    /// The response of the job that has `before` others of its task in front of it, all in one busy window.
    ///
    /// With [`Extent::UntilMiss`] the first response beyond the deadline is enough.
    #[inline]
    fn job(&mut self, ahead: &mut Arrivals, before: u64) -> Result<u64, Error> {
        let task = &self.workload.tasks[self.index];
        let own =
            if before == 0 { task.cost_ns } else { task.cost_ns.checked_mul(before + 1).ok_or(Error::Overflow)? };
        let base = self.workload.per_window_ns + task.blocking_ns;
        let base = base.checked_add(own).ok_or(Error::Overflow)?;
        // What the window is longer than the response.
        let arrived = before.checked_mul(task.period_ns).ok_or(Error::Overflow)?;
        loop {
            let demand = base.checked_add(ahead.demand_in(self.window)?).ok_or(Error::Overflow)?;
            let window = self.supply.window_for(demand)?;
            let converged = window <= self.window;
            self.window = self.window.max(window);
            // An earlier job's response may have been longer, this one's window not yet long enough to exceed it.
            let response = (self.window.checked_add(task.jitter_ns).ok_or(Error::Overflow)?).saturating_sub(arrived);
            self.at_least = self.at_least.max(response);
            if converged || (self.extent == Extent::UntilMiss && response > task.deadline_ns) {
                return Ok(response);
            }
            self.doubt()?;
        }
    }

    /// The longest response of the first job and of those that arrive before the CPU has been free of this task.
    #[inline]
    fn later_jobs(&mut self, first: u64, ahead: &Arrivals, further: &mut Arrivals) -> Result<u64, Error> {
        let task = &self.workload.tasks[self.index];
        if first <= task.period_ns || (self.extent == Extent::UntilMiss && first > task.deadline_ns) {
            return Ok(first);
        }
        further.clone_from(ahead);
        let mut longest = first;
        for before in 1.. {
            let response = self.job(further, before)?;
            longest = longest.max(response);
            if response <= task.period_ns || (self.extent == Extent::UntilMiss && response > task.deadline_ns) {
                break;
            }
            self.doubt()?;
        }
        Ok(longest)
    }

    /// Count a step, and give up where there can be no end.
    fn doubt(&mut self) -> Result<(), Error> {
        self.steps += 1;
        if self.steps == STEPS_BEFORE_DOUBT && !self.supply.carries(&self.workload.demands_until(self.index)) {
            return Err(Error::Overloaded);
        }
        if self.steps == MOST_STEPS {
            return Err(Error::NotConverged { steps: self.steps, window_ns: self.window });
        }
        Ok(())
    }
}
