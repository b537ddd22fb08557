//! One question about one CPU, and its answer.

use crate::arrivals::Interference;
use crate::charging::{Accounting, charge_earliest_deadline, charge_fixed_priority};
use crate::edf::{Demand, demand_verdict};
use crate::edf_profile::edf_responses;
use crate::edf_windows::{Window, deciding_window};
use crate::error::Error;
use crate::fixed_priority::Solver;
use crate::overheads::{Interrupts, Overheads};
use crate::response::Response;
use crate::supply::Supply;
use crate::task::Task;
use crate::workload::Workload;

/// Who runs next, and how that is analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Preemptive fixed priorities.
    FixedPriority(Accounting),
    /// Preemptive earliest deadline first, overheads charged for each job, interrupts as demand of their own.
    EarliestDeadlineFirst,
}

/// Is this set schedulable on this CPU?
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The highest priority first.
    pub tasks: &'a [Task],
    /// Under fixed priorities: of each task; neighbours of the same level have the same priority, and their jobs go
    /// first in, first out, as `SCHED_FIFO` has it. Empty: each task has a priority of its own.
    pub levels: &'a [u32],
    pub overheads: Overheads,
    /// What else comes before all tasks, as a trace saw it: devices, softirqs, real-time threads of others.
    pub interference: &'a [Interference],
    pub interrupts: Interrupts,
    pub policy: Policy,
    pub supply: &'a dyn Supply,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Of each task, the highest priority first.
    Responses(Vec<Response>),
    /// EDF: of the set.
    Demand(Demand),
}

/// What stands behind a verdict under EDF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemandDetails {
    /// The window that decides, of the tasks as they are charged; None where none does.
    pub deciding: Result<Option<Window>, Error>,
    /// Bounds of the responses, in the order of the tasks.
    pub responses: Vec<Result<u64, Error>>,
}

impl Question<'_> {
    /// Find what stands behind a verdict under EDF that [`Self::answer`] gave; it takes longer than the verdict.
    pub fn demand_details(&self, verdict: &Demand) -> Result<DemandDetails, Error> {
        let workload = self.charged_by_deadline()?;
        if *verdict == Demand::Overloaded {
            // What is left to do grows without end, and EDF makes all tasks wait for it.
            return Ok(DemandDetails { deciding: Ok(None), responses: vec![Err(Error::Overloaded); self.tasks.len()] });
        }
        Ok(DemandDetails {
            deciding: match (deciding_window(&workload, self.supply, verdict), verdict) {
                // The first is too far to be searched for; the one that decided is at hand.
                (Err(_), &Demand::Exceeded { window_ns, demand_ns, service_ns }) => {
                    Ok(Some(Window { window_ns, demand_ns, service_ns }))
                }
                (found, _) => found,
            },
            responses: edf_responses(&workload, self.supply),
        })
    }

    /// Analyse the set.
    ///
    /// # Errors
    /// A task that cannot be, or why there is no verdict under EDF; a [`Response`] has its own reason.
    pub fn answer(&self) -> Result<Verdict, Error> {
        self.check()?;
        match self.policy {
            Policy::FixedPriority(accounting) => {
                let workload = self.charged(accounting)?;
                let mut responses = Vec::with_capacity(self.tasks.len());
                Solver::default().responses(&workload, self.supply, &mut responses);
                Ok(Verdict::Responses(responses))
            }
            Policy::EarliestDeadlineFirst => self.demand().map(Verdict::Demand),
        }
    }

    /// Tell only whether all deadlines are met.
    ///
    /// # Errors
    /// As [`Self::answer`], and why it is not known.
    pub fn is_schedulable(&self) -> Result<bool, Error> {
        self.check()?;
        match self.policy {
            Policy::FixedPriority(accounting) => {
                let workload = self.charged(accounting)?;
                Solver::default().meets_all(&workload, self.supply)
            }
            Policy::EarliestDeadlineFirst => Ok(self.demand()? == Demand::Met),
        }
    }

    fn charged(&self, accounting: Accounting) -> Result<Workload, Error> {
        let workload = charge_fixed_priority(self.tasks, &self.overheads, self.interrupts, accounting)?;
        Ok(Workload { levels: self.levels.to_vec(), ..self.interfered(workload) })
    }

    pub(crate) fn charged_by_deadline(&self) -> Result<Workload, Error> {
        Ok(self.interfered(charge_earliest_deadline(self.tasks, &self.overheads, self.interrupts)?))
    }

    fn interfered(&self, mut workload: Workload) -> Workload {
        workload.interrupts.extend_from_slice(self.interference);
        workload
    }

    fn demand(&self) -> Result<Demand, Error> {
        let workload = self.charged_by_deadline()?;
        demand_verdict(&workload, self.supply)
    }

    fn check(&self) -> Result<(), Error> {
        if self.interference.iter().any(|one| !one.can_be()) {
            return Err(Error::Interference);
        }
        self.tasks.iter().enumerate().try_for_each(|(index, task)| {
            if self.policy == Policy::EarliestDeadlineFirst && task.blocking_ns > 0 {
                return Err(Error::Task { index, problem: "EDF with blocking is not analysed" });
            }
            task.check(index)
        })
    }
}
