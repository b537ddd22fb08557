//! Which window decides under EDF: the first one whose demand exceeds the supply, or the one with the least slack.

use crate::edf::{Demand, busy_period, deadline_after_release, demand_in};
use crate::error::{Error, MOST_STEPS};
use crate::supply::Supply;
use crate::task::Task;

/// A window at whose end a deadline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub window_ns: u64,
    /// What must be done in it.
    pub demand_ns: u64,
    /// What is certainly served in it.
    pub service_ns: u64,
}

/// Find the window that decides a verdict: the shortest whose demand exceeds the service, or else that in which the
/// service exceeds the demand by least, the shortest of equal ones. None where none decides: an overload.
///
/// On a dedicated CPU no longer window has less slack than those up to the busy period and the latest deadline: what
/// is released in the busy period is done at its end, and a window from there on demands no more than one that begins
/// with all releases at once. On another supply the windows of the busy period are looked at.
pub fn deciding_window<S: Supply + ?Sized>(
    tasks: &[Task],
    supply: &S,
    verdict: &Demand,
) -> Result<Option<Window>, Error> {
    let Some(shortest) = tasks.iter().map(deadline_after_release).min() else { return Ok(None) };
    let last = match verdict {
        Demand::Overloaded => return Ok(None),
        Demand::Exceeded { window_ns, .. } => *window_ns,
        Demand::Met => {
            let latest = tasks.iter().map(deadline_after_release).max().unwrap_or(shortest);
            let beyond = if supply.is_dedicated() { latest } else { 0 };
            busy_period(tasks, supply)?.checked_add(beyond).ok_or(Error::Overflow)?.max(shortest)
        }
    };
    let mut tightest: Option<Window> = None;
    let mut next = Some(shortest);
    for steps in 0.. {
        let Some(window_ns) = next.filter(|&window| window <= last) else { break };
        if steps >= MOST_STEPS {
            return Err(Error::NotConverged { steps, window_ns });
        }
        let one =
            Window { window_ns, demand_ns: demand_in(tasks, window_ns)?, service_ns: supply.service_in(window_ns)? };
        if one.demand_ns > one.service_ns {
            return Ok(Some(one));
        }
        let slack = |one: &Window| one.service_ns - one.demand_ns;
        if tightest.as_ref().is_none_or(|least| slack(&one) < slack(least)) {
            tightest = Some(one);
        }
        next = tasks.iter().filter_map(|task| deadline_beyond(task, window_ns)).min();
    }
    Ok(tightest)
}

/// A task's first deadline after a window's end, all released as late as they may be at its begin.
fn deadline_beyond(task: &Task, window_ns: u64) -> Option<u64> {
    let reach = window_ns.checked_add(task.jitter_ns)?;
    let count = reach.checked_sub(task.deadline_ns).map_or(0, |left| left / task.period_ns + 1);
    count.checked_mul(task.period_ns)?.checked_add(task.deadline_ns)?.checked_sub(task.jitter_ns)
}
