//! Earliest deadline first on one CPU: the processor-demand test.
//!
//! Baruah, Rosier and Howell (Real-Time Systems 2(4), 1990), searched as Zhang and Burns do ("Schedulability
//! Analysis for Real-Time Systems with EDF Scheduling", IEEE Transactions on Computers 58(9), 2009), with release
//! jitter as Spuri has it (INRIA RR-2772, 1996).

use crate::error::{Error, MOST_STEPS};
use crate::supply::Supply;
use crate::task::Task;
use crate::utilization::Utilization;

/// Whether the supply meets the demand in every window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    Met,
    /// In the long run it does not.
    Overloaded,
    /// In a window of `window_ns` jobs of `demand_ns` must finish, and only `service_ns` is certain.
    Exceeded {
        window_ns: u64,
        demand_ns: u64,
        service_ns: u64,
    },
}

/// Test the demand of jobs that must finish in a window against the supply in it.
///
/// The step from a window `t` goes to the window in which its demand is certainly served: for a dedicated CPU
/// that is the demand itself, as in the source. Only windows of the synchronous busy period need be looked at.
///
/// # Errors
/// [`Error::NotConverged`] (a full CPU with jitter), [`Error::Overflow`] or [`Error::NotObserved`].
pub fn demand_verdict<S: Supply + ?Sized>(tasks: &[Task], supply: &S) -> Result<Demand, Error> {
    let pairs: Vec<(u64, u64)> = tasks.iter().map(|task| (task.cost_ns, task.period_ns)).collect();
    if !supply.carries(&pairs) {
        return Ok(Demand::Overloaded);
    }
    let Some(shortest) = tasks.iter().map(deadline_after_release).min() else { return Ok(Demand::Met) };
    // The first deadlines decide most sets, also those whose busy period has no end.
    for window_ns in tasks.iter().map(deadline_after_release) {
        if let Some(exceeded) = excess(tasks, supply, window_ns)?.1 {
            return Ok(exceeded);
        }
    }
    let mut steps = 0;
    let mut next = latest_deadline_until(tasks, longest_window(tasks, supply, &mut steps)?);
    while let Some(window_ns) = next {
        let (needed, exceeded) = excess(tasks, supply, window_ns)?;
        if let Some(exceeded) = exceeded {
            return Ok(exceeded);
        }
        next = if needed < window_ns && needed >= shortest {
            Some(needed)
        } else if needed < window_ns {
            None
        } else {
            window_ns.checked_sub(1).and_then(|shorter| latest_deadline_until(tasks, shorter))
        };
        count(&mut steps, window_ns)?;
    }
    Ok(Demand::Met)
}

/// The window that serves the demand of a window, and the verdict if that is longer.
fn excess<S: Supply + ?Sized>(tasks: &[Task], supply: &S, window_ns: u64) -> Result<(u64, Option<Demand>), Error> {
    let demand_ns = demand_in(tasks, window_ns)?;
    let needed = supply.window_for(demand_ns)?;
    if needed <= window_ns {
        return Ok((needed, None));
    }
    Ok((needed, Some(Demand::Exceeded { window_ns, demand_ns, service_ns: supply.service_in(window_ns)? })))
}

/// A deadline as seen from the latest release; 0 if the jitter leaves nothing.
pub(crate) fn deadline_after_release(task: &Task) -> u64 {
    task.deadline_ns.saturating_sub(task.jitter_ns)
}

pub(crate) fn demand_in(tasks: &[Task], window_ns: u64) -> Result<u64, Error> {
    let mut demand: u64 = 0;
    for task in tasks {
        let reach = window_ns.checked_add(task.jitter_ns).ok_or(Error::Overflow)?;
        if let Some(beyond) = reach.checked_sub(task.deadline_ns) {
            let one = (beyond / task.period_ns + 1).checked_mul(task.cost_ns).ok_or(Error::Overflow)?;
            demand = demand.checked_add(one).ok_or(Error::Overflow)?;
        }
    }
    Ok(demand)
}

/// The longest window, up to this one, at whose end a deadline may be.
fn latest_deadline_until(tasks: &[Task], window_ns: u64) -> Option<u64> {
    let latest = tasks.iter().filter_map(|task| {
        let beyond = window_ns.checked_add(task.jitter_ns)?.checked_sub(task.deadline_ns)?;
        // Deadlines before the window's begin are due at once.
        Some((beyond / task.period_ns * task.period_ns + task.deadline_ns).saturating_sub(task.jitter_ns))
    });
    latest.max()
}

/// No longer window need be tested: the busy period, or on a dedicated CPU the bound of Zhang and Burns.
fn longest_window<S: Supply + ?Sized>(tasks: &[Task], supply: &S, steps: &mut u32) -> Result<u64, Error> {
    busy_period_until(tasks, supply, utilization_bound(tasks, supply), steps)
}

/// The longest time without an idle moment: all tasks begin it at once, as late as their jitter allows.
pub(crate) fn busy_period<S: Supply + ?Sized>(tasks: &[Task], supply: &S) -> Result<u64, Error> {
    busy_period_until(tasks, supply, None, &mut 0)
}

/// The busy period, or a limit that it reaches.
fn busy_period_until<S: Supply + ?Sized>(
    tasks: &[Task],
    supply: &S,
    limit: Option<u64>,
    steps: &mut u32,
) -> Result<u64, Error> {
    let mut window = 1_u64;
    loop {
        let mut demand: u64 = 0;
        for task in tasks {
            let arrivals = window.checked_add(task.jitter_ns).ok_or(Error::Overflow)?.div_ceil(task.period_ns);
            let one = arrivals.checked_mul(task.cost_ns).ok_or(Error::Overflow)?;
            demand = demand.checked_add(one).ok_or(Error::Overflow)?;
        }
        let longer = supply.window_for(demand)?;
        if longer <= window {
            return Ok(window);
        }
        window = longer;
        if let Some(limit) = limit.filter(|&limit| window >= limit) {
            return Ok(limit);
        }
        count(steps, window)?;
    }
}

/// Beyond `max(D - T, sum((T - D) U) / (1 - U))` a dedicated CPU's demand is below the window's length; D is
/// without the jitter. None on any other supply, or where `1 - U` is 0.
fn utilization_bound<S: Supply + ?Sized>(tasks: &[Task], supply: &S) -> Option<u64> {
    if !supply.is_dedicated() {
        return None;
    }
    let mut weighted: u128 = 0;
    let mut longest_excess = 0;
    for task in tasks {
        let deadline = deadline_after_release(task);
        let share = Utilization::of([(task.cost_ns, task.period_ns)]).high;
        weighted = weighted.checked_add(share.checked_mul(u128::from(task.period_ns.saturating_sub(deadline)))?)?;
        longest_excess = longest_excess.max(deadline.saturating_sub(task.period_ns));
    }
    let all = Utilization::of(tasks.iter().map(|task| (task.cost_ns, task.period_ns))).high;
    let left = Utilization::ONE.checked_sub(all).filter(|&left| left > 0)?;
    Some(u64::try_from(weighted.div_ceil(left)).ok()?.max(longest_excess).max(1))
}

fn count(steps: &mut u32, window_ns: u64) -> Result<(), Error> {
    *steps += 1;
    if *steps >= MOST_STEPS { Err(Error::NotConverged { steps: *steps, window_ns }) } else { Ok(()) }
}
