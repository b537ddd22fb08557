//! One question about one CPU, and its answer.

use crate::charging::{Accounting, Charged, charge_fixed_priority, charge_preemption_centric};
use crate::edf::{Demand, demand_verdict};
use crate::edf_response::edf_responses;
use crate::edf_windows::{Window, deciding_window};
use crate::error::Error;
use crate::fixed_priority::{Response, Solver};
use crate::overheads::{Interrupts, Overheads};
use crate::supply::Supply;
use crate::task::Task;

/// Who runs next, and how that is analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Preemptive fixed priorities.
    FixedPriority(Accounting),
    /// Preemptive earliest deadline first, overheads charged preemption-centrically.
    EarliestDeadlineFirst,
}

/// Is this set schedulable on this CPU?
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The highest priority first.
    pub tasks: &'a [Task],
    pub overheads: Overheads,
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
    /// Bounds of the responses, in the order of the tasks; None but on a dedicated CPU, and where overheads or tasks
    /// overload it.
    pub responses: Option<Vec<Result<u64, Error>>>,
}

impl Question<'_> {
    /// Find what stands behind a verdict under EDF that [`Self::answer`] gave; it takes much longer than the verdict.
    pub fn demand_details(&self, verdict: &Demand) -> Result<DemandDetails, Error> {
        let Charged::Tasks(tasks) = charge_preemption_centric(self.tasks, &self.overheads, self.interrupts)? else {
            return Ok(DemandDetails { deciding: Ok(None), responses: None });
        };
        let bounded = self.supply.is_dedicated() && *verdict != Demand::Overloaded;
        // Charging counts from the latency after the arrival on.
        let from_arrival = |one: Result<u64, Error>| {
            one.and_then(|ns| ns.checked_add(self.overheads.event_latency_ns).ok_or(Error::Overflow))
        };
        Ok(DemandDetails {
            deciding: match (deciding_window(&tasks, self.supply, verdict), verdict) {
                // The first is too far to be searched for; the one that decided is at hand.
                (Err(_), &Demand::Exceeded { window_ns, demand_ns, service_ns }) => {
                    Ok(Some(Window { window_ns, demand_ns, service_ns }))
                }
                (found, _) => found,
            },
            responses: bounded.then(|| edf_responses(&tasks).into_iter().map(from_arrival).collect()),
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
                let workload = charge_fixed_priority(self.tasks, &self.overheads, self.interrupts, accounting)?;
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
                let workload = charge_fixed_priority(self.tasks, &self.overheads, self.interrupts, accounting)?;
                Solver::default().meets_all(&workload, self.supply)
            }
            Policy::EarliestDeadlineFirst => Ok(self.demand()? == Demand::Met),
        }
    }

    fn demand(&self) -> Result<Demand, Error> {
        match charge_preemption_centric(self.tasks, &self.overheads, self.interrupts)? {
            Charged::Tasks(tasks) => demand_verdict(&tasks, self.supply),
            Charged::NothingLeft => Ok(Demand::Overloaded),
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.tasks.iter().enumerate().try_for_each(|(index, task)| {
            if self.policy == Policy::EarliestDeadlineFirst && task.blocking_ns > 0 {
                return Err(Error::Task { index, problem: "EDF with blocking is not analysed" });
            }
            task.check(index)
        })
    }
}
