//! Overheads as costs, jitter and interrupts of the tasks.

use crate::arrivals::Interference;
use crate::error::Error;
use crate::overheads::{Interrupts, Overheads};
use crate::task::Task;
use crate::workload::Workload;

/// What overheads are charged for under fixed priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// Each job, as `SchedCAT` does.
    Job,
    /// Each stretch of one running job, as PROSA has proved it.
    Stretch,
}

/// Charge overheads to tasks under fixed priorities.
///
/// By job, as `SchedCAT` does (`schedcat/overheads/fp.py`, after B. Brandenburg's thesis, 2011): the release is late
/// by event latency and release; each job costs two scheduling decisions and context switches and one
/// cache-related delay more. By stretch, as PROSA has proved it (`results/rta/ovh/fp`): at most one stretch and two
/// more for each arrival of the task's or a higher priority, each with all three. The tick, and one interrupt for
/// each release of *any* task, come before all tasks.
pub fn charge_fixed_priority(
    tasks: &[Task],
    overheads: &Overheads,
    interrupts: Interrupts,
    accounting: Accounting,
) -> Result<Workload, Error> {
    let switch = sum(&[overheads.scheduling_ns, overheads.context_switch_ns])?;
    let stretch = sum(&[switch, overheads.cache_preemption_ns])?;
    let late = sum(&[overheads.event_latency_ns, overheads.release_ns])?;
    let late = match interrupts {
        Interrupts::Here => late,
        Interrupts::OnAnotherCpu => sum(&[late, overheads.inter_processor_interrupt_ns])?,
    };
    let charge_per_job = match accounting {
        Accounting::Job => sum(&[switch, stretch])?,
        Accounting::Stretch => 0,
    };
    let charged = tasks.iter().map(|task| {
        Ok(Task { cost_ns: sum(&[task.cost_ns, charge_per_job])?, jitter_ns: sum(&[task.jitter_ns, late])?, ..*task })
    });
    let mut before_all = Vec::new();
    if overheads.tick_ns > 0 && overheads.tick_period_ns > 0 {
        before_all.push(Interference {
            cost_ns: overheads.tick_ns,
            period_ns: overheads.tick_period_ns,
            jitter_ns: overheads.event_latency_ns,
        });
    }
    if interrupts == Interrupts::Here && overheads.release_ns > 0 {
        for task in tasks {
            before_all.push(Interference {
                cost_ns: overheads.release_ns,
                period_ns: task.period_ns,
                // The interrupt comes when the job is released, which its own jitter delays too.
                jitter_ns: sum(&[task.jitter_ns, overheads.event_latency_ns])?,
            });
        }
    }
    let (per_arrival_ns, per_window_ns) = match accounting {
        Accounting::Job => (0, 0),
        Accounting::Stretch => (sum(&[stretch, stretch])?, stretch),
    };
    Ok(Workload {
        tasks: charged.collect::<Result<_, Error>>()?,
        levels: Vec::new(),
        interrupts: before_all,
        per_arrival_ns,
        per_window_ns,
    })
}

/// Charge overheads to tasks under EDF: as under fixed priorities by job.
///
/// What a job costs more and how late it is released do not depend on who runs next: each arrival and each completion
/// of a job that counts leads to one scheduling decision and context switch at most, and each arrival preempts one job
/// at most. `docs/decisions/2026-11-27-interrupts-as-demand.md` has the argument.
pub fn charge_earliest_deadline(
    tasks: &[Task],
    overheads: &Overheads,
    interrupts: Interrupts,
) -> Result<Workload, Error> {
    charge_fixed_priority(tasks, overheads, interrupts, Accounting::Job)
}

fn sum(times: &[u64]) -> Result<u64, Error> {
    times.iter().try_fold(0_u64, |sum, &one| sum.checked_add(one)).ok_or(Error::Overflow)
}
