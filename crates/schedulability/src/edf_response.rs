//! The longest response of each task under EDF on a dedicated CPU.
//!
//! M. Spuri, "Analysis of Deadline Scheduled Real-Time Systems" (INRIA RR-2772, 1996), with release jitter: the
//! longest response of a task is that of a job somewhere in a busy period that the *other* tasks begin all at once,
//! each as late after its arrival as it may be. The job's own place in it has to be searched; the response only
//! changes for the worse where one more job gets a deadline that is not later.

use crate::edf::busy_period;
use crate::error::{Error, MOST_STEPS};
use crate::supply::Dedicated;
use crate::task::Task;

/// Bound the response, from arrival to end, of each task; deadlines may be missed.
///
/// The tasks must not demand more than the CPU in the long run.
///
/// # Errors
/// [`Error::Overflow`] or [`Error::NotConverged`]: of all tasks where the busy period has no end, or of one.
pub fn edf_responses(tasks: &[Task]) -> Vec<Result<u64, Error>> {
    match busy_period(tasks, &Dedicated) {
        Ok(busy_ns) => (0..tasks.len()).map(|index| response(tasks, index, busy_ns)).collect(),
        Err(error) => vec![Err(error); tasks.len()],
    }
}

fn response(tasks: &[Task], index: usize, busy_ns: u64) -> Result<u64, Error> {
    let own = tasks[index];
    let mut longest = own.jitter_ns.checked_add(own.cost_ns).ok_or(Error::Overflow)?;
    let mut steps = 0;
    for place_ns in places(tasks, index, busy_ns)? {
        let end_ns = end_of(tasks, index, place_ns, &mut steps)?;
        longest = longest.max((end_ns + own.jitter_ns).saturating_sub(place_ns));
    }
    Ok(longest)
}

/// Where in a busy period the job is looked at: its arrival, counted from the jitter before the begin, in order.
fn places(tasks: &[Task], index: usize, busy_ns: u64) -> Result<Vec<u64>, Error> {
    let own = tasks[index];
    let end = i128::from(busy_ns) + i128::from(own.jitter_ns);
    let mut found = Vec::new();
    for task in tasks {
        // Its jobs' deadlines, as arrivals of the own job with the same deadline.
        let first = i128::from(task.deadline_ns) - i128::from(task.jitter_ns) - i128::from(own.deadline_ns)
            + i128::from(own.jitter_ns);
        let period = i128::from(task.period_ns);
        let skipped = if first < 0 { (-first + period - 1) / period } else { 0 };
        let mut place = first + skipped * period;
        while place < end {
            if found.len() >= MOST_STEPS as usize {
                return Err(Error::NotConverged { steps: MOST_STEPS, window_ns: busy_ns });
            }
            found.push(u64::try_from(place).map_err(|_| Error::Overflow)?);
            place += period;
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// When the job at a place ends, counted from the begin of its busy period.
fn end_of(tasks: &[Task], index: usize, place_ns: u64, steps: &mut u32) -> Result<u64, Error> {
    let own = tasks[index];
    let due = i128::from(place_ns) - i128::from(own.jitter_ns) + i128::from(own.deadline_ns);
    let own_ns = (place_ns / own.period_ns + 1).checked_mul(own.cost_ns).ok_or(Error::Overflow)?;
    let mut end_ns = own_ns;
    loop {
        let mut demand = own_ns;
        for (_, task) in tasks.iter().enumerate().filter(|&(other, _)| other != index) {
            let reach = due + i128::from(task.jitter_ns) - i128::from(task.deadline_ns);
            let Ok(reach) = u64::try_from(reach) else { continue };
            let arrived = end_ns.checked_add(task.jitter_ns).ok_or(Error::Overflow)?.div_ceil(task.period_ns);
            let count = arrived.min(reach / task.period_ns + 1);
            let one = count.checked_mul(task.cost_ns).ok_or(Error::Overflow)?;
            demand = demand.checked_add(one).ok_or(Error::Overflow)?;
        }
        if demand <= end_ns {
            return Ok(end_ns);
        }
        end_ns = demand;
        *steps += 1;
        if *steps >= MOST_STEPS {
            return Err(Error::NotConverged { steps: *steps, window_ns: end_ns });
        }
    }
}
