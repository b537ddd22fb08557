//! Earliest deadline first on one CPU: the processor-demand test, with interrupts as demand of their own.
//!
//! Baruah, Rosier and Howell (Real-Time Systems 2(4), 1990), searched as Zhang and Burns do ("Schedulability
//! Analysis for Real-Time Systems with EDF Scheduling", IEEE Transactions on Computers 58(9), 2009), with release
//! jitter as Spuri has it (INRIA RR-2772, 1996). Interrupts go before all jobs, as tasks of higher priority would;
//! `docs/decisions/2026-11-27-interrupts-as-demand.md` has the argument.

use crate::edf_profile::first_late_window;
use crate::error::{Error, MOST_STEPS};
use crate::load::Load;
use crate::supply::{Linear, Supply};
use crate::task::Task;
use crate::utilization::Utilization;

/// So many of the shortest first deadlines are looked at before anything else.
const FIRST_DEADLINES: usize = 64;

/// A search looks at so many tasks and interrupts, in all steps together: at 20 and theirs nearly [`MOST_STEPS`] times.
const MOST_TASKS_LOOKED_AT: u64 = 20_000_000;

/// Whether the supply meets the demand in every window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    Met,
    /// In the long run it does not.
    Overloaded,
    /// In a window of `window_ns` jobs and interrupts of `demand_ns` must finish, and only `service_ns` is certain.
    Exceeded {
        window_ns: u64,
        demand_ns: u64,
        service_ns: u64,
    },
}

/// Test the demand of jobs that must finish in a window, and of interrupts in it, against the supply.
///
/// The jobs due in a window `t` are certainly served in the least window `w` whose supply holds them and the
/// interrupts of `w`; the test is `w <= t`. A step of the search goes from `t` to `w`: without interrupts on a
/// dedicated CPU that is the demand itself, as in the source. Only windows of the synchronous busy period need be
/// looked at.
///
/// # Errors
/// [`Error::NotConverged`] (a full CPU with jitter), [`Error::Overflow`] or [`Error::NotObserved`].
pub fn demand_verdict<'a, S: Supply + ?Sized>(load: impl Into<Load<'a>>, supply: &S) -> Result<Demand, Error> {
    let load = load.into();
    if !supply.carries(&load.pairs()) {
        return Ok(Demand::Overloaded);
    }
    let mut first: Vec<u64> = load.tasks.iter().map(deadline_after_release).collect();
    let Some(shortest) = first.iter().copied().min() else { return Ok(Demand::Met) };
    // The first deadlines decide most sets, also those whose busy period has no end.
    if first.len() > FIRST_DEADLINES {
        first.select_nth_unstable(FIRST_DEADLINES);
        first.truncate(FIRST_DEADLINES);
    }
    for window_ns in first {
        if let Need::Exceeded(demand) = need(load, supply, window_ns)? {
            return Ok(demand);
        }
    }
    let searched = search_downwards(load, supply, shortest);
    // Upwards the first excess may be near although the busy period has no end.
    if let Err(Error::NotConverged { .. } | Error::Overflow) = searched
        && let Ok(Some(window_ns)) = first_late_window(load, supply)
        && let Need::Exceeded(demand) = need(load, supply, window_ns)?
    {
        return Ok(demand);
    }
    searched
}

/// The search of Zhang and Burns, from the longest window that matters to the shortest.
fn search_downwards<S: Supply + ?Sized>(load: Load<'_>, supply: &S, shortest: u64) -> Result<Demand, Error> {
    let mut steps = Steps::of(load);
    let mut next = latest_deadline_until(load.tasks, longest_window(load, supply, &mut steps)?);
    while let Some(window_ns) = next.filter(|&window| window >= shortest) {
        next = match need(load, supply, window_ns)? {
            Need::Exceeded(demand) => return Ok(demand),
            Need::Served(needed) if needed < window_ns => Some(needed),
            Need::Served(_) => window_ns.checked_sub(1).and_then(|shorter| latest_deadline_until(load.tasks, shorter)),
        };
        steps.count(window_ns)?;
    }
    Ok(Demand::Met)
}

/// In which window the jobs due in a window are served.
enum Need {
    /// No longer than that window.
    Served(u64),
    Exceeded(Demand),
}

fn need<S: Supply + ?Sized>(load: Load<'_>, supply: &S, window_ns: u64) -> Result<Need, Error> {
    let jobs_ns = demand_in(load.tasks, window_ns)?;
    let with = |interrupts_ns: u64| jobs_ns.checked_add(interrupts_ns).ok_or(Error::Overflow);
    // The interrupts of the whole window are not less than those up to the end of the jobs: mostly they fit, too.
    let whole_ns = with(load.interrupts_in(window_ns)?)?;
    let needed = supply.window_for(whole_ns)?;
    if needed <= window_ns {
        return Ok(Need::Served(needed));
    }
    let mut needed = if load.interrupts.is_empty() { needed } else { supply.window_for(jobs_ns)? };
    while needed <= window_ns {
        let longer = supply.window_for(with(load.interrupts_in(needed)?)?)?;
        if longer <= needed {
            return Ok(Need::Served(needed));
        }
        needed = longer;
    }
    let service_ns = supply.service_in(window_ns)?;
    Ok(Need::Exceeded(Demand::Exceeded { window_ns, demand_ns: whole_ns, service_ns }))
}

/// A deadline as seen from the latest release; 0 if the jitter leaves nothing.
pub(crate) fn deadline_after_release(task: &Task) -> u64 {
    task.deadline_ns.saturating_sub(task.jitter_ns)
}

/// What the jobs cost that are due in a window, released as late as they may be at its begin or after.
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

/// No longer window need be tested: the busy period, or beyond which a line is above all demand.
fn longest_window<S: Supply + ?Sized>(load: Load<'_>, supply: &S, steps: &mut Steps) -> Result<u64, Error> {
    let beyond = supply.linear_bound().and_then(|line| utilization_bound(load, line));
    busy_period_until(load, supply, beyond, steps)
}

/// The longest time without an idle moment: all tasks begin it at once, as late as their jitter allows.
pub(crate) fn busy_period<S: Supply + ?Sized>(load: Load<'_>, supply: &S) -> Result<u64, Error> {
    busy_period_until(load, supply, None, &mut Steps::of(load))
}

/// The busy period, or a limit that it reaches.
fn busy_period_until<S: Supply + ?Sized>(
    load: Load<'_>,
    supply: &S,
    limit: Option<u64>,
    steps: &mut Steps,
) -> Result<u64, Error> {
    let mut window = 1_u64;
    loop {
        let mut demand = load.interrupts_in(window)?;
        for task in load.tasks {
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
        steps.count(window)?;
    }
}

/// From which window on a line below the supply is above a line over the demand, as George, Rivierre and Spuri have it
/// for a dedicated CPU (INRIA RR-2966, 1996).
///
/// A task of utilization U is due at most `U (t + max(0, T + J - D))` in `t`, an interrupt takes at most
/// `U (t + T + J)`, and the supply is at least `share (t - delay) - 1`, as it is rounded down. None where the line of
/// the demand is as steep as that of the supply.
fn utilization_bound(load: Load<'_>, line: Linear) -> Option<u64> {
    let share_of = |cost: u64, period: u64| Utilization::of([(cost, period)]).high;
    let share = Utilization::of([(line.service_ns, line.span_ns)]).low;
    let mut above = share.checked_mul(u128::from(line.delay_ns))?.checked_add(Utilization::ONE)?;
    let mut all: u128 = 0;
    for task in load.tasks {
        let one = share_of(task.cost_ns, task.period_ns);
        let ahead = (u128::from(task.period_ns) + u128::from(task.jitter_ns)).saturating_sub(task.deadline_ns.into());
        above = above.checked_add(one.checked_mul(ahead)?)?;
        all = all.checked_add(one)?;
    }
    for interrupt in load.interrupts {
        let one = share_of(interrupt.cost_ns, interrupt.period_ns);
        let ahead = u128::from(interrupt.period_ns) + u128::from(interrupt.jitter_ns);
        above = above.checked_add(one.checked_mul(ahead)?)?;
        all = all.checked_add(one)?;
    }
    let left = share.checked_sub(all).filter(|&left| left > 0)?;
    Some(u64::try_from(above.div_ceil(left)).ok()?.max(1))
}

/// The steps of one search, each of which looks at all tasks.
struct Steps {
    done: u32,
    most: u32,
}

impl Steps {
    fn of(load: Load<'_>) -> Self {
        let tasks = (load.tasks.len() + load.interrupts.len()).max(1) as u64;
        let most = u32::try_from(MOST_TASKS_LOOKED_AT / tasks).unwrap_or(MOST_STEPS);
        Self { done: 0, most: most.clamp(1, MOST_STEPS) }
    }

    fn count(&mut self, window_ns: u64) -> Result<(), Error> {
        self.done += 1;
        if self.done >= self.most { Err(Error::NotConverged { steps: self.done, window_ns }) } else { Ok(()) }
    }
}
