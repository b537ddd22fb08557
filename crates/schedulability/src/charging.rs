//! Overheads as costs, jitter and interrupts of the tasks.

use crate::arrivals::Interference;
use crate::error::Error;
use crate::fixed_priority::Workload;
use crate::overheads::{Interrupts, Overheads};
use crate::task::Task;
use crate::utilization::Utilization;

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
        interrupts: before_all,
        per_arrival_ns,
        per_window_ns,
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Charged {
    Tasks(Vec<Task>),
    /// Interrupts take the whole CPU, or a period or deadline is not longer than the latency.
    NothingLeft,
}

/// Charge overheads to tasks under EDF, preemption-centrically.
///
/// B. Brandenburg's thesis (2011) as coded in `schedcat/overheads/jlfp.py`: interrupts slow everything down, each job
/// also meets them twice at their worst, and the event latency shortens period and deadline. Rounded up to whole
/// nanoseconds.
pub fn charge_preemption_centric(
    tasks: &[Task],
    overheads: &Overheads,
    interrupts: Interrupts,
) -> Result<Charged, Error> {
    let latency = overheads.event_latency_ns;
    let tick = if overheads.tick_period_ns > 0 { overheads.tick_ns } else { 0 };
    let of_tick = Utilization::of((tick > 0).then_some((tick, overheads.tick_period_ns))).high;
    let (releases, of_releases) = match interrupts {
        Interrupts::Here => {
            let utilization = Utilization::of(tasks.iter().map(|task| (overheads.release_ns, task.period_ns))).high;
            (tasks.len() as u64, utilization)
        }
        Interrupts::OnAnotherCpu => (0, 0),
    };
    let taken = of_tick.saturating_add(of_releases);
    if taken >= Utilization::ONE {
        return Ok(Charged::NothingLeft);
    }
    // All in 2^-64 ns; `left` is s of the source.
    let left = Utilization::ONE - taken;
    let slowed = |scaled: u128| -> Result<u64, Error> {
        // scaled / left with scaled in 2^-64 ns; in two steps, as 2^-128 would not fit.
        u64::try_from(scaled.div_ceil(left)).map_err(|_| Error::Overflow)
    };
    let scaled = |ns: u64| u128::from(ns) << 64;
    let at_worst = scaled(tick)
        .checked_add(u128::from(latency).checked_mul(taken).ok_or(Error::Overflow)?)
        .and_then(|sum| sum.checked_add(scaled(releases.checked_mul(overheads.release_ns)?)))
        .ok_or(Error::Overflow)?;
    let preempted = match interrupts {
        Interrupts::Here => 0,
        Interrupts::OnAnotherCpu => sum(&[overheads.inter_processor_interrupt_ns, overheads.release_ns])?,
    };
    let switches = sum(&[overheads.scheduling_ns, overheads.context_switch_ns])?;
    let per_job = sum(&[switches, switches, overheads.cache_preemption_ns])?;
    let mut charged = Vec::with_capacity(tasks.len());
    for task in tasks {
        let (Some(period_ns), Some(deadline_ns)) =
            (task.period_ns.checked_sub(latency), task.deadline_ns.checked_sub(latency))
        else {
            return Ok(Charged::NothingLeft);
        };
        if period_ns == 0 || deadline_ns == 0 {
            return Ok(Charged::NothingLeft);
        }
        let whole = scaled(sum(&[task.cost_ns, per_job])?);
        let twice_at_worst = at_worst.checked_mul(2).ok_or(Error::Overflow)?;
        let cost_ns = slowed(whole.checked_add(twice_at_worst).ok_or(Error::Overflow)?)?;
        charged.push(Task { cost_ns: sum(&[cost_ns, preempted])?, period_ns, deadline_ns, ..*task });
    }
    Ok(Charged::Tasks(charged))
}

fn sum(times: &[u64]) -> Result<u64, Error> {
    times.iter().try_fold(0_u64, |sum, &one| sum.checked_add(one)).ok_or(Error::Overflow)
}
