//! Several tasks of one priority, whose jobs go first in, first out, as `SCHED_FIFO` has it.
//!
//! A job waits for the jobs of its equals that came before it, and not for those that come while it waits. When it
//! comes within a busy period has to be searched, as for FIFO (Bedarkar, Vardishvili, Bozhko, Maida and Brandenburg,
//! "From Intuition to Coq: A Case Study in Verified Response-Time Analysis of FIFO Scheduling", RTSS 2022): the
//! response changes for the worse only where one more job is before it. Jobs queue in the order of their releases, so
//! that the job itself is taken as late after its arrival as may be, and its equals as early.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::arrivals::Arrivals;
use crate::error::{Error, MOST_STEPS, STEPS_BEFORE_DOUBT};
use crate::response::{Extent, Response};
use crate::supply::Supply;
use crate::workload::Workload;

/// The search for one task's longest response.
pub(crate) struct Equals<'a, S: ?Sized> {
    pub workload: &'a Workload,
    /// Of the same priority, the task itself among them.
    pub group: Range<usize>,
    pub index: usize,
    pub supply: &'a S,
    pub extent: Extent,
}

impl<S: Supply + ?Sized> Equals<'_, S> {
    /// Bound the response.
    ///
    /// `ahead` is what interrupts and higher priorities demand, counted in `window_ns`, which is no longer than the
    /// fixed point; `further` is memory.
    pub(crate) fn response(&self, ahead: &Arrivals, further: &mut Arrivals, window_ns: u64) -> Response {
        further.clone_from(ahead);
        let mut longest = 0;
        match self.search(further, window_ns, &mut longest) {
            Ok(()) => Response::Bounded(longest),
            Err(error) => Response::AtLeast(longest, error),
        }
    }

    fn search(&self, ahead: &mut Arrivals, mut window_ns: u64, longest: &mut u64) -> Result<(), Error> {
        let own = &self.workload.tasks[self.index];
        let fixed = self.workload.per_window_ns.checked_add(own.blocking_ns).ok_or(Error::Overflow)?;
        // Where each of the equals, itself included, has one job more before the job's end: the next place of each.
        let mut places = BinaryHeap::new();
        let mut before_ns: u64 = fixed;
        for index in self.group.clone() {
            let task = &self.workload.tasks[index];
            let jitter = if index == self.index { 0 } else { task.jitter_ns };
            let count = jitter / task.period_ns + 1;
            before_ns = before_ns.checked_add(self.cost(index, count)?).ok_or(Error::Overflow)?;
            let next = count.checked_mul(task.period_ns).ok_or(Error::Overflow)? - jitter;
            places.push(Reverse((next, index)));
        }
        let mut place_ns = 0;
        let mut steps = 0;
        loop {
            loop {
                let demand = before_ns.checked_add(ahead.demand_in(window_ns)?).ok_or(Error::Overflow)?;
                let longer = self.supply.window_for(demand)?;
                let converged = longer <= window_ns;
                window_ns = window_ns.max(longer);
                let late = window_ns.checked_add(own.jitter_ns).ok_or(Error::Overflow)?;
                *longest = (*longest).max(late.saturating_sub(place_ns));
                if self.extent == Extent::UntilMiss && *longest > own.deadline_ns {
                    return Ok(());
                }
                if converged {
                    break;
                }
                self.doubt(&mut steps, window_ns)?;
            }
            let Some(&Reverse((next_ns, _))) = places.peek() else { return Ok(()) };
            // All that was before has ended before the job can come: it begins another busy period.
            if window_ns.checked_add(own.jitter_ns).ok_or(Error::Overflow)? <= next_ns {
                return Ok(());
            }
            place_ns = next_ns;
            while let Some(mut first) = places.peek_mut().filter(|first| first.0.0 == next_ns) {
                let index = first.0.1;
                before_ns = before_ns.checked_add(self.cost(index, 1)?).ok_or(Error::Overflow)?;
                first.0.0 = next_ns.checked_add(self.workload.tasks[index].period_ns).ok_or(Error::Overflow)?;
            }
            self.doubt(&mut steps, window_ns)?;
        }
    }

    fn cost(&self, index: usize, jobs: u64) -> Result<u64, Error> {
        let one = self.workload.tasks[index].cost_ns.checked_add(self.workload.per_arrival_ns);
        one.and_then(|ns| ns.checked_mul(jobs)).ok_or(Error::Overflow)
    }

    /// Count a step, and give up where there can be no end.
    fn doubt(&self, steps: &mut u32, window_ns: u64) -> Result<(), Error> {
        *steps += 1;
        if *steps == STEPS_BEFORE_DOUBT && !self.supply.carries(&self.workload.demands_until(self.group.end - 1)) {
            return Err(Error::Overloaded);
        }
        if *steps == MOST_STEPS {
            return Err(Error::NotConverged { steps: *steps, window_ns });
        }
        Ok(())
    }
}
